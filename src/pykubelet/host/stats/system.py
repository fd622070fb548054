"""What the machine does, under upstream's four names: the agent, the runtime, all pods together, and the rest."""

import os
import socket
import struct
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from typing import Final

from pykubelet.host.stats.cgroups import Folders, Hierarchy
from pykubelet.host.stats.files import read
from pykubelet.host.stats.processes import ProcessTable, stat_fields
from pykubelet.pod.stats.stats import Cpu, GroupReading, Memory, Usage

_KUBELET: Final = "kubelet"
_RUNTIME: Final = "runtime"
_MISC: Final = "misc"
_PODS: Final = "pods"
_ASKING: Final = 0.2

UsageOf = Callable[[str, Folders], Usage]
"""What a group uses, with its rate under this key."""
Rated = Callable[[str, Usage], Usage]


class SystemReader:
    """Called by one thread at a time. `runtime_socket` is where a runtime listens that is a program of its own."""

    def __init__(self, proc: str, hierarchy: Hierarchy, runtime_socket: str) -> None:
        self._proc = proc
        self._hierarchy = hierarchy
        self._runtime_socket = runtime_socket
        self._runtime_pid = 0
        self._started = time.time()

    def read(
        self,
        at: int,
        node: Usage,
        pods: GroupReading | None,
        shims: Collection[int],
        usage_of: UsageOf,
        rated: Rated,
    ) -> dict[str, GroupReading]:
        """`shims` are processes of a runtime that is no program of its own."""
        found = {_PODS: pods} if pods is not None and pods.usage.cpu is not None else {}
        found[_KUBELET] = self._process(_KUBELET, os.getpid(), at, usage_of, rated)
        if pid := self._peer():
            found[_RUNTIME] = self._process(_RUNTIME, pid, at, usage_of, rated)
        elif shims:
            table = ProcessTable(self._proc, [str(pid) for pid in shims])
            usage = rated(_RUNTIME, table.usage(shims, at, with_children=False))
            found[_RUNTIME] = GroupReading(group="", usage=usage, started=self._started)
        rest = rated(_MISC, _rest(node, [each.usage for each in found.values()]))
        found[_MISC] = GroupReading(group="", usage=rest)
        return found

    def _process(self, name: str, pid: int, at: int, usage_of: UsageOf, rated: Rated) -> GroupReading:
        """Its control group, or, when it shares the topmost one with everybody, itself alone."""
        who: str | int = "self" if pid == os.getpid() else pid
        started = self._started if who == "self" else _started(self._proc, pid)
        paths = self._hierarchy.paths(read(f"{self._proc}/{who}/cgroup") or b"")
        if paths and "/" not in paths.values():
            folders = self._hierarchy.folders(paths)
            return GroupReading(group=self._hierarchy.path_of(folders), usage=usage_of(name, folders), started=started)
        usage = ProcessTable(self._proc, (str(pid),)).usage((pid,), at, with_children=False)
        return GroupReading(group="", usage=rated(name, usage), started=started)

    def _peer(self) -> int:
        """The process behind the runtime's socket; 0: none that we can see."""
        if not self._runtime_socket:
            return 0
        if not self._runtime_pid or stat_fields(self._proc, self._runtime_pid) is None:
            self._runtime_pid = 0
            with suppress(OSError), socket.socket(socket.AF_UNIX) as asking:
                asking.settimeout(_ASKING)
                asking.connect(self._runtime_socket)
                told = asking.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
                self._runtime_pid = struct.unpack("3i", told)[0]
        return self._runtime_pid


def _rest(node: Usage, others: Collection[Usage]) -> Usage:
    """What the machine uses and none of the others does. They are not looked at in one instant: never below nothing."""

    def left(total: int, parts: Collection[int]) -> int:
        return max(total - sum(parts), 0)

    cpus = [each.cpu for each in others if each.cpu is not None]
    memories = [each.memory for each in others if each.memory is not None]
    cpu = memory = None
    if node.cpu is not None:
        cpu = Cpu(total=left(node.cpu.total, [each.total for each in cpus]))
    if (whole := node.memory) is not None:
        memory = Memory(
            usage=left(whole.usage, [each.usage for each in memories]),
            working_set=left(whole.working_set, [each.working_set for each in memories]),
            rss=left(whole.rss, [each.rss for each in memories]),
            page_faults=left(whole.page_faults, [each.page_faults for each in memories]),
            major_page_faults=left(whole.major_page_faults, [each.major_page_faults for each in memories]),
        )
    return Usage(at=node.at, cpu=cpu, memory=memory)


def _started(proc: str, pid: int) -> float:
    with suppress(OSError):
        return os.stat(f"{proc}/{pid}").st_mtime
    return 0.0
