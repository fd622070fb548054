"""What a client asks for: its path, its parameters, its body."""
