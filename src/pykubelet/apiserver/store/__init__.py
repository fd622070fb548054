"""Where the API server keeps its objects: one port, and what stands behind it."""
