"""The embedded API server: a wing of its own, which knows the vocabulary of `api/` and nothing of the agent."""
