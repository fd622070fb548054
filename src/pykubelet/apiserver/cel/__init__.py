"""The Common Expression Language as Kubernetes has it: read, checked against types, and evaluated within a budget."""
