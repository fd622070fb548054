"""What makes services work on a node: packets to their addresses are led to endpoints, their names are answered."""
