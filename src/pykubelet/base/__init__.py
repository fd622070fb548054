"""What every room stands on, from the standard library alone."""
