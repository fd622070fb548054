"""The processors of a container that needs several NUMA nodes, evenly from each: no thread waits for the fullest node.

Tried with as few nodes as can be; among equals, those that leave the machine most evenly free.
"""

from collections.abc import Mapping, Sequence
from itertools import combinations
from math import inf, sqrt

from msgspec import Struct

from pykubelet.pod.pinning.cpu_assignment import CpuAccumulator, NotEnoughCpus, packed_cpus
from pykubelet.pod.pinning.cpu_set import CpuSet
from pykubelet.pod.pinning.machine_topology import CpuTopology


class _Share(Struct, frozen=True):
    """What each NUMA node of some would give."""

    nodes: tuple[int, ...]
    each: int
    others: tuple[int, ...]
    """Those that give a group more, in turn, until nothing is left to share."""
    imbalance: float


def distributed_cpus(
    topology: CpuTopology, available: CpuSet, count: int, *, group: int = 1, spread: bool = False
) -> CpuSet:
    """In groups of `group`, which do not part. Where no even share can be found they are packed. Raises
    NotEnoughCpus."""
    taking = CpuAccumulator(topology, available, count)
    if count % group == 0 and 1 <= count <= len(taking.free):
        nodes = taking.ordered("numa")
        room = {node: len(taking.free_in("numa", node)) for node in nodes}
        fewest, most = _node_counts(topology, len(nodes), count, group)
        for size in range(fewest, most + 1):
            share = _best_share(room, nodes, size, count, group)
            if share is not None:
                return _taken(topology, taking, share, group, spread=spread)
    return packed_cpus(topology, available, count, spread=spread)


def _node_counts(topology: CpuTopology, available: int, count: int, group: int) -> tuple[int, int]:
    """How many NUMA nodes are needed at least, and can be of use at most."""
    groups = -(-len(topology.cpus) // group)
    groups_per_node = -(-groups // len(topology.ids("numa")))
    needed = -(-count // group)
    return -(-needed // groups_per_node), min(needed, available)


def _best_share(room: Mapping[int, int], nodes: Sequence[int], size: int, count: int, group: int) -> _Share | None:
    best: _Share | None = None
    for some in combinations(nodes, size):
        share = _share(room, some, count, group)
        if share is not None and (best is None or share.imbalance < best.imbalance):
            best = share
        if best is not None and best.imbalance == 0:
            break
    return best


def _share(room: Mapping[int, int], nodes: tuple[int, ...], count: int, group: int) -> _Share | None:
    each = count // len(nodes) // group * group
    if sum(room[node] // group * group for node in nodes) < count or any(room[node] < each for node in nodes):
        return None
    left = {node: much - each if node in nodes else much for node, much in room.items()}
    remainder = count - each * len(nodes)
    if remainder == 0:
        return _Share(nodes, each, (), _standard_deviation(list(left.values())))
    best: _Share | None = None
    able = [node for node in nodes if left[node] >= group]
    for size in range(len(able), 0, -1):
        for others in combinations(able, size):
            after = _after_remainder(left, others, remainder, group)
            if after is None:
                continue
            imbalance = _standard_deviation(list(after.values()))
            if imbalance < (best.imbalance if best else inf):
                best = _Share(nodes, each, others, imbalance)
    return best


def _after_remainder(
    left: Mapping[int, int], others: tuple[int, ...], remainder: int, group: int
) -> Mapping[int, int] | None:
    """What is free when these have given the rest, a group each in turn. None: they cannot."""
    after = dict(left)
    if sum(after[node] // group * group for node in others) < remainder:
        return None
    while remainder > 0:
        for node in others:
            if remainder > 0 and after[node] >= group:
                after[node] -= group
                remainder -= group
    return after


def _taken(topology: CpuTopology, taking: CpuAccumulator, share: _Share, group: int, *, spread: bool) -> CpuSet:
    def take(node: int, much: int) -> None:
        free = frozenset(taking.free_in("numa", node))
        if much <= len(free):
            taking.take(packed_cpus(topology, free, much, spread=spread))

    for node in share.nodes:
        take(node, share.each)
    while taking.needed > 0:
        before = taking.needed
        for node in share.others:
            if taking.needed > 0 and len(taking.free_in("numa", node)) >= group:
                take(node, group)
        if taking.needed == before:
            raise NotEnoughCpus(f"accounting error, not enough CPUs allocated, remaining: {taking.needed}")
    return frozenset(taking.taken)


def _standard_deviation(numbers: Sequence[int]) -> float:
    """To three digits, as upstream compares it."""
    mean = _rounded(sum(numbers) / len(numbers))
    return _rounded(sqrt(sum((number - mean) ** 2 for number in numbers) / len(numbers)))


def _rounded(number: float) -> float:
    thousands = int(number * 1000)
    return (thousands + (number * 1000 - thousands >= 0.5)) / 1000
