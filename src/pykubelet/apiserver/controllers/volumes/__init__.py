"""Persistent volumes for claims: which belongs to which, and volumes made when they are wanted."""
