"""Open files handed from one process to another, along a socket between them."""

from __future__ import annotations

import os
import sys

from .light import socket

_SIZE = 4


def hand(connection: socket.socket, descriptors: list[int]) -> None:
    data = b"".join(each.to_bytes(_SIZE, sys.byteorder) for each in descriptors)
    connection.sendmsg([b"!"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, data)])


def receive(connection: socket.socket, most: int) -> list[int] | None:
    """None: nobody is there to hand over anything any more."""
    data, ancillary, _, _ = connection.recvmsg(1, socket.CMSG_SPACE(most * _SIZE))
    if not data:
        return None
    found = []
    for _, kind, numbers in ancillary:
        if kind == socket.SCM_RIGHTS:
            parts = [numbers[i : i + _SIZE] for i in range(0, len(numbers) - len(numbers) % _SIZE, _SIZE)]
            found += [int.from_bytes(part, sys.byteorder, signed=True) for part in parts]
    for descriptor in found:
        os.set_inheritable(descriptor, False)
    return found
