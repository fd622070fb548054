"""Ports for what a test starts."""

import socket


def free_port(address: str = "127.0.0.1") -> int:
    """One that nobody had a moment ago."""
    with socket.create_server((address, 0)) as made:
        return int(made.getsockname()[1])
