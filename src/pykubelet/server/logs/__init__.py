"""What `kubectl logs` shows, and the machine's own log files."""
