"""Commands: one file for each family, and what they print."""
