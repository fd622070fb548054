"""The node as the agent reports it."""
