"""The client of any Kubernetes API server, real or embedded."""
