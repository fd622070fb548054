"""What is true of objects by themselves, for agent and API server alike."""
