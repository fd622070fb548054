"""Where containers run: one folder or module for each kind of runtime."""
