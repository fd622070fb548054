"""`top`: the node on a terminal. What is shown is a value; what it looks like, and what a key does, are pure."""
