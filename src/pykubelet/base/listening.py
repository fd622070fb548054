"""Which sockets listen on a port of this machine, and who has one open: as the kernel tells it in /proc."""

import os
from collections.abc import Collection, Iterator
from contextlib import suppress
from typing import Final

_TABLES: Final = ("/proc/net/tcp", "/proc/net/tcp6")
_LISTENING: Final = "0A"


def listening_sockets(port: int) -> frozenset[str]:
    """As the links in a process's folder of descriptors name them."""
    return frozenset(f"socket:[{inode}]" for inode in _inodes(port))


def has_open(pid: int, links: Collection[str]) -> bool:
    """False, too, for a process that is gone or not for us to look into."""
    folder = f"/proc/{pid}/fd"
    with suppress(OSError):
        for name in os.listdir(folder):
            with suppress(OSError):
                if os.readlink(f"{folder}/{name}") in links:
                    return True
    return False


def _inodes(port: int) -> Iterator[str]:
    for table in _TABLES:
        with suppress(OSError), open(table, encoding="ascii") as lines:
            for line in lines:
                fields = line.split()
                if len(fields) > 9 and fields[3] == _LISTENING and int(fields[1].rpartition(":")[2], 16) == port:
                    yield fields[9]
