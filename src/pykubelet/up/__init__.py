"""One machine: a small cluster with all its parts, started and kept running by one command."""
