"""Whether a pod listens on a port: pods have this machine's network, and whoever may reach a pod's ports may not
thereby reach those of the agent, of the API server, or of anybody else who trusts this machine."""

import os
from collections.abc import Collection, Iterator
from contextlib import suppress
from typing import Final

from pykubelet.runtime.process.shim import files

_LISTENING: Final = "0A"
_PARENT: Final = 3
"""Of the fields of /proc/<pid>/stat."""


def listens(monitors: Collection[int], mains: Collection[int], port: int) -> bool:
    """Whether somebody below these monitors does, or a command that was started among these programs."""
    links = {f"socket:[{inode}]" for inode in _listening_sockets(port)}
    return bool(links) and any(_has_open(pid, links) for pid in _members(set(monitors), mains))


def _listening_sockets(port: int) -> Iterator[str]:
    for name in ("tcp", "tcp6"):
        with suppress(OSError), open(f"/proc/net/{name}", encoding="ascii") as file:
            next(file, None)
            for line in file:
                words = line.split()
                if words[3] == _LISTENING and int(words[1].rpartition(":")[2], 16) == port:
                    yield words[9]


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


def _has_open(pid: int, links: Collection[str]) -> bool:
    folder = f"/proc/{pid}/fd"
    with suppress(OSError):
        for name in os.listdir(folder):
            with suppress(OSError):
                if os.readlink(f"{folder}/{name}") in links:
                    return True
    return False
