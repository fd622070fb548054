"""Which credentials an image needs, what is said of a pull, and which images go."""
