"""The one way in which objects are written, whoever writes them."""
