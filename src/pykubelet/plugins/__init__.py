"""Programs of others that bring volumes and devices: how they are found, and what is asked of them."""
