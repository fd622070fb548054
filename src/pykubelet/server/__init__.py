"""What the agent answers to people and programs."""
