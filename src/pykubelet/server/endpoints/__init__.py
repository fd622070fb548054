"""What the agent answers about itself and its pods."""
