"""Pods that ask for more or less while they run."""
