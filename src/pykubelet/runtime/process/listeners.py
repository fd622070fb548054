"""Whether a pod listens on a port: pods have this machine's network, and whoever may reach a pod's ports may not
thereby reach those of the agent, of the API server, or of anybody else who trusts this machine."""

import os
from collections.abc import Collection, Iterator
from contextlib import suppress
from typing import Final

from pykubelet.base.listening import has_open, listening_sockets
from pykubelet.runtime.process.shim import files

_PARENT: Final = 3
"""Of the fields of /proc/<pid>/stat."""


def listens(monitors: Collection[int], mains: Collection[int], port: int) -> bool:
    """Whether somebody below these monitors does, or a command that was started among these programs."""
    sockets = listening_sockets(port)
    return bool(sockets) and any(has_open(pid, sockets) for pid in _members(set(monitors), mains))


def _members(monitors: set[int], mains: Collection[int]) -> Iterator[int]:
    pids = [int(name) for name in os.listdir("/proc") if name.isdecimal()]
    parents: dict[int, int] = {}
    for pid in pids:
        with suppress(OSError, ValueError, IndexError):
            parents[pid] = int(files.stat_fields(pid)[_PARENT])
    views = {_world(pid) for pid in mains} - {_world(os.getpid()), ""}
    for pid in parents:
        above = parents[pid]
        while above not in monitors and above in parents:
            above = parents[above]
        if above in monitors or (views and _world(pid) in views):
            yield pid


def _world(pid: int) -> str:
    """Which processes it sees; empty when that cannot be told."""
    try:
        return os.readlink(f"/proc/{pid}/ns/pid")
    except OSError:
        return ""
