"""What monitoring asks for."""
