"""A sandbox and its containers as a runtime is asked for them."""
