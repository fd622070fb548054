"""Which processors a container gets of those that are free: whole sockets and NUMA nodes first, whole cores next.

Upstream's best fit: of two places with room the fuller one is used up, so that the emptier one stays whole.
"""

from collections import Counter
from collections.abc import Iterable

from pykubelet.pod.pinning.cpu_set import CpuSet
from pykubelet.pod.pinning.machine_topology import CpuTopology, Level


class NotEnoughCpus(Exception):
    """Its text is upstream's."""


def packed_cpus(
    topology: CpuTopology, available: CpuSet, count: int, *, spread: bool = False, by_uncore_cache: bool = False
) -> CpuSet:
    """As close together as can be. `spread`: on different cores of a socket; `by_uncore_cache`: behind as few caches as
    can be. Raises NotEnoughCpus."""
    taking = CpuAccumulator(topology, available, count)
    if count < 1:
        return frozenset()
    if count > len(taking.free):
        raise NotEnoughCpus(
            f"not enough cpus available to satisfy request: requested={count}, available={len(available)}"
        )
    for level in taking.levels:
        taking.take_whole(level)
    if by_uncore_cache and taking.needed > 0:
        taking.take_uncore_caches()
    if not spread:
        taking.take_whole("core")
    taking.take_single(spread=spread)
    return frozenset(taking.taken)


class CpuAccumulator:
    """Takes processors of those that are free, until as many are taken as are needed."""

    def __init__(self, topology: CpuTopology, available: CpuSet, count: int) -> None:
        self._topology = topology
        self.free = set(available & topology.cpus)
        self.taken: set[int] = set()
        self.needed = count
        sockets, nodes = len(topology.ids("socket")), len(topology.ids("numa"))
        self.levels: tuple[Level, Level] = ("numa", "socket") if sockets >= nodes else ("socket", "numa")
        """The larger one first: a socket may hold several NUMA nodes, and a NUMA node several sockets."""

    def take(self, cpus: Iterable[int]) -> None:
        given = set(cpus)
        self.taken |= given
        self.free -= given
        self.needed -= len(given)

    def free_in(self, level: Level, *ids: int) -> set[int]:
        return self.free & self._topology.within(level, *ids)

    def take_whole(self, level: Level) -> None:
        """Those of a kind that nobody has a part of, as long as so many processors are needed."""
        for each in [each for each in self.ordered(level) if self._is_free(level, each)]:
            cpus = self._topology.within(level, each)
            if self.needed >= len(cpus) and self.needed > 0:
                self.take(cpus)

    def take_uncore_caches(self) -> None:
        for uncore in self.ordered("uncore"):
            if self.needed >= self._topology.cpus_per_uncore:
                self.take_whole("uncore")
            if self.needed > 0:
                self._take_part_of_uncore_cache(uncore)
            if self.needed < 1:
                return

    def take_single(self, *, spread: bool) -> None:
        if self.needed > 0:
            self.take(self._ordered_cpus(spread=spread)[: self.needed])

    def ordered(self, level: Level) -> list[int]:
        """Those of a kind with a free processor: the fullest first inside of what is around them, which is ordered
        likewise."""
        first, second = self.levels
        if level == first:
            return self._by_room(level, self.free)
        above: Level = first if level == second else ("numa" if level == "uncore" else second)
        return [each for upper in self.ordered(above) for each in self._by_room(level, self.free_in(above, upper))]

    # --- inside

    def _by_room(self, level: Level, cpus: Iterable[int]) -> list[int]:
        room = Counter(getattr(self._topology.places[cpu], level) for cpu in self.free)
        return sorted(self._topology.around(level, cpus), key=lambda each: (room[each], each))

    def _is_free(self, level: Level, each: int) -> bool:
        match level:
            case "socket":
                whole = self._topology.cpus_per_socket
            case "core":
                whole = self._topology.cpus_per_core
            case _:
                whole = len(self._topology.within(level, each))
        return len(self.free_in(level, each)) == whole

    def _take_part_of_uncore_cache(self, uncore: int) -> None:
        """All that is needed, or nothing."""
        threads = self._topology.cpus_per_core
        cores = sorted(self._topology.around("core", self.free_in("uncore", uncore)))[: -(-self.needed // threads)]
        cpus = sorted(self.free_in("core", *cores))
        if self.needed % 2 and threads > 1 and len(cpus) > self.needed:
            del cpus[-1]  # of the last core, one thread is enough
        if len(cpus) == self.needed:
            self.take(cpus)

    def _ordered_cpus(self, *, spread: bool) -> list[int]:
        level: Level = "socket" if spread else "core"
        return [cpu for each in self.ordered(level) for cpu in sorted(self.free_in(level, each))]
