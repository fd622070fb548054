"""Who listens on a port of this machine: the first question of anybody who finds it taken."""

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

_TABLES: Final = ("/proc/net/tcp", "/proc/net/tcp6")
_LISTENING: Final = "0A"


def listener(port: int) -> str:
    """`nginx (pid 12)`; empty when nobody does, or somebody whose processes are not for us to see."""
    sockets = {f"socket:[{inode}]" for inode in _inodes(port)}
    for process in Path("/proc").iterdir() if sockets else ():
        if not process.name.isdigit():
            continue
        with suppress(OSError):
            if any(os.readlink(each) in sockets for each in (process / "fd").iterdir()):
                return f"{(process / 'comm').read_text().strip()} (pid {process.name})"
    return ""


def _inodes(port: int) -> Iterator[str]:
    for table in _TABLES:
        with suppress(OSError), open(table, encoding="ascii") as lines:
            for line in lines:
                fields = line.split()
                if len(fields) > 9 and fields[3] == _LISTENING and int(fields[1].rpartition(":")[2], 16) == port:
                    yield fields[9]
