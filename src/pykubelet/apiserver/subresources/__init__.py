"""Requests that are not about a stored object as such: streams to a kubelet, tokens, reviews."""
