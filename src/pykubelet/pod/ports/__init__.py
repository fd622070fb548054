"""What the node needs from the outside world, as contracts."""
