"""Who may talk to the agent's HTTP API."""
