"""What the agent is told and what it does about it, written down line by line; and the same again, from the lines."""
