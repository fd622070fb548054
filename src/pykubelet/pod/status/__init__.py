"""What is reported of a pod."""
