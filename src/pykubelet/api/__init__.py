"""The vocabulary: Kubernetes objects as immutable values, and the doors through which they come and go."""
