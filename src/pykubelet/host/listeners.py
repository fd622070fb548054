"""Who listens on a port of this machine: the first question of anybody who finds it taken."""

import os
from contextlib import suppress
from pathlib import Path

from pykubelet.base.listening import has_open, listening_sockets


def listener(port: int) -> str:
    """`nginx (pid 12)`; empty when nobody does, or somebody whose processes are not for us to see."""
    sockets = listening_sockets(port)
    for pid in os.listdir("/proc") if sockets else ():
        if pid.isdecimal() and has_open(int(pid), sockets):
            with suppress(OSError):
                return f"{Path(f'/proc/{pid}/comm').read_text().strip()} (pid {pid})"
    return ""
