"""Objects as rows, as kubectl shows them."""
