import os
import socket

from pykubelet.base.listening import has_open, listening_sockets


def test_a_listening_socket_is_found_and_who_has_it_open() -> None:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        port = server.getsockname()[1]
        assert listening_sockets(port) == frozenset()
        server.listen()
        sockets = listening_sockets(port)
        assert len(sockets) == 1
        assert has_open(os.getpid(), sockets)
        assert not has_open(os.getpid(), {"socket:[0]"})
        assert not has_open(2**22 + 1, sockets)
