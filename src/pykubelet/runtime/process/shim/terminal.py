"""Terminals that a container's programs believe in: made inside the container, so that they have a name there.

Nothing is imported or looked up by a library meanwhile: the files around us may be the container's already.
"""

from __future__ import annotations

import errno
import os
import stat

from . import handed, kernel
from .light import socket

_MAKER = "/dev/ptmx"
_MAKER_DEVICE = os.makedev(5, 2)
_LARGEST = 0xFFFF


def _open_pair() -> tuple[int, int]:
    """-> our end, which does not block, and the program's."""
    ours = os.open(_MAKER, os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK | os.O_CLOEXEC)
    found = os.fstat(ours)
    if not stat.S_ISCHR(found.st_mode) or found.st_rdev != _MAKER_DEVICE:  # the container may have put anything there
        os.close(ours)
        raise OSError(errno.ENOTTY, "is not what makes terminals", _MAKER)
    kernel.unlock_terminal(ours)
    return ours, kernel.terminal_peer(ours, os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)


def take(way_back: int) -> list[int]:
    """The first process of a new session makes a controlling terminal for itself, and hands our end of it back along a
    socket. -> the program's input and outputs"""
    ours, theirs = _open_pair()
    connection = socket.socket(fileno=way_back)
    handed.hand(connection, [ours])
    connection.close()
    os.close(ours)
    kernel.take_terminal(theirs)
    return [theirs] * 3


def resize(ours: int, width: int, height: int) -> None:
    """The kernel tells the programs in the foreground, if that is news."""
    kernel.set_window(ours, min(max(width, 0), _LARGEST), min(max(height, 0), _LARGEST))
