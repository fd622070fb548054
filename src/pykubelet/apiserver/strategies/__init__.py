"""What is particular to a kind: its defaults, its rules, and what the server fills in. Most kinds need only `base`."""
