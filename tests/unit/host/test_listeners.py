import os
import socket
from pathlib import Path

from pykubelet.host.listeners import listener


def test_who_listens_on_a_port_is_named() -> None:
    for family, address in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")):
        with socket.socket(family, socket.SOCK_STREAM) as server:
            server.bind((address, 0))
            port = server.getsockname()[1]
            assert listener(port) == ""
            server.listen()
            name = Path("/proc/self/comm").read_text().strip()
            assert listener(port) == f"{name} (pid {os.getpid()})"
