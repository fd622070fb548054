"""Whether a pod may run on this node."""
