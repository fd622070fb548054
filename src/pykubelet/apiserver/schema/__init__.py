"""Which kinds there are, and what their objects look like."""
