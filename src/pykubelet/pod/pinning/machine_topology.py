"""How a machine is made: NUMA nodes with memory and cores, cores with threads, caches and sockets around them.

A value: the real one is read from /sys, tests make theirs up.
"""

from collections.abc import Iterable, Mapping
from typing import Final, Literal

from msgspec import Struct

from pykubelet.pod.pinning.cpu_set import CpuSet

Level = Literal["numa", "socket", "uncore", "core"]


class Core(Struct, frozen=True, kw_only=True):
    socket: int
    threads: tuple[int, ...]
    """The processors that share it."""
    uncore_cache: int | None = None
    """The last cache before memory, where it is smaller than its NUMA node. None: the whole node has one."""


class NumaNode(Struct, frozen=True, kw_only=True):
    id: int
    cores: tuple[Core, ...] = ()
    memory: int = 0
    hugepages: Mapping[int, int] = {}
    """How many, by the bytes of one."""
    distances: tuple[int, ...] = ()
    """To each NUMA node, in the order of their numbers; empty: not told."""


class CpuPlace(Struct, frozen=True, kw_only=True):
    """Where one processor is. A core is named after its lowest thread, so that the name holds in the whole machine."""

    numa: int
    socket: int
    uncore: int
    core: int


class MachineTopology(Struct, frozen=True, kw_only=True):
    nodes: tuple[NumaNode, ...] = ()

    @property
    def numa_ids(self) -> tuple[int, ...]:
        return tuple(node.id for node in self.nodes)


_LEVELS: Final[tuple[Level, ...]] = ("numa", "socket", "uncore", "core")


class CpuTopology:
    """The processors of a machine by all that is around them."""

    def __init__(self, machine: MachineTopology) -> None:
        self.places: dict[int, CpuPlace] = {}
        cores = 0
        for node in machine.nodes:
            cores += len(node.cores)
            for core in node.cores:
                uncore = core.socket if core.uncore_cache is None else core.uncore_cache
                place = CpuPlace(numa=node.id, socket=core.socket, uncore=uncore, core=min(core.threads))
                self.places |= dict.fromkeys(core.threads, place)
        self.cpus: CpuSet = frozenset(self.places)
        self._of: dict[Level, dict[int, CpuSet]] = {level: self._grouped(level) for level in _LEVELS}
        count = len(self.cpus)
        self.cpus_per_core = count // cores if cores else 0
        self.cpus_per_socket = count // len(self._of["socket"]) if count else 0
        self.cpus_per_uncore = count // len(self._of["uncore"]) if count else 0

    def ids(self, level: Level) -> list[int]:
        """All of a kind, in order."""
        return sorted(self._of[level])

    def within(self, level: Level, *ids: int) -> CpuSet:
        """The processors inside of some."""
        return frozenset[int]().union(*(self._of[level].get(each, frozenset()) for each in ids))

    def around(self, level: Level, cpus: Iterable[int]) -> set[int]:
        """Those of a kind that hold some of the processors."""
        return {getattr(self.places[cpu], level) for cpu in cpus}

    def _grouped(self, level: Level) -> dict[int, CpuSet]:
        groups: dict[int, set[int]] = {}
        for cpu, place in self.places.items():
            groups.setdefault(getattr(place, level), set()).add(cpu)
        return {each: frozenset(cpus) for each, cpus in groups.items()}
