"""Pods from outside an API server: manifest files and a manifest URL."""
