"""What pods and the node use, and how they are counted."""
