"""Which pods the node ends for what they use, and what is said of it."""
