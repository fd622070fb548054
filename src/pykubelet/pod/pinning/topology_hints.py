"""Where a container's resources could come from together: NUMA nodes as providers prefer them, merged into one."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import reduce
from itertools import combinations
from typing import Final, Protocol

from msgspec import Struct

from pykubelet.api.container import Container
from pykubelet.api.pod import Pod

Mask = int
"""A set of NUMA nodes, a bit for each."""


class Hint(Struct, frozen=True):
    affinity: Mask | None
    """None: any NUMA node is as good as another."""
    preferred: bool


Hints = Mapping[str, Sequence[Hint] | None]
"""By resource. None, or no resources at all: there is no preference. Of an empty one it cannot be had in any way."""

NO_PREFERENCE: Final = Hint(None, True)
UNSATISFIABLE: Final = Hint(None, False)


class HintProvider(Protocol):
    """Something that hands out what belongs to NUMA nodes: processors, memory, devices."""

    def hints(self, pod: Pod, container: Container) -> Hints:
        """Where what a container asks for could come from now."""
        ...

    def pod_hints(self, pod: Pod) -> Hints:
        """Where what all containers of a pod ask for could come from now."""
        ...

    def allocate(self, pod: Pod, container: Container, hint: Hint) -> None:
        """Hand it out, from there if it can be. Called again for what was handed out before: harmless. Raises
        AllocationError."""
        ...


def mask_of(nodes: Iterable[int]) -> Mask:
    return reduce(lambda mask, node: mask | 1 << node, nodes, 0)


def nodes_in(mask: Mask) -> list[int]:
    return [node for node in range(mask.bit_length()) if mask >> node & 1]


def masks(nodes: Sequence[int]) -> Iterator[Mask]:
    """All sets of some NUMA nodes, the smallest first."""
    for size in range(1, len(nodes) + 1):
        yield from map(mask_of, combinations(nodes, size))


# --- merging

Order = Callable[[Mask], float]
"""Which of two sets with as many NUMA nodes to use: the smaller number. Between equals, the lower nodes."""


def by_number(mask: Mask) -> float:
    return 0.0


def by_distance(distances: Mapping[int, Sequence[int]]) -> Order:
    """Nodes that are nearer to each other, on average."""

    def average(mask: Mask) -> float:
        nodes = nodes_in(mask)
        return float(sum(distances[one][other] for one in nodes for other in nodes)) / len(nodes) ** 2

    return average


def choices(of_providers: Iterable[Hints]) -> list[Sequence[Hint]]:
    """What each resource of each provider can have. Who says nothing has no preference."""
    found: list[Sequence[Hint]] = []
    for hints in of_providers:
        if not hints:
            found.append((NO_PREFERENCE,))
        for each in hints.values():
            found.append((NO_PREFERENCE,) if each is None else each or (UNSATISFIABLE,))
    return found


def merged(found: Sequence[Sequence[Hint]], everywhere: Mask, order: Order) -> Hint:
    """The best that all can agree on: nodes that are in one hint of each. Preferred only if each prefers just them."""
    agreed = _agreed(found, everywhere)
    aim = _aim(found)

    def rank(hint: Hint) -> tuple[bool, bool, int, float, Mask]:
        """What nobody prefers should have as many nodes as the neediest cannot do without, else fewer, else more."""
        assert hint.affinity is not None
        size = hint.affinity.bit_count()
        is_below = not hint.preferred and size <= aim
        aimed = (False, aim - size) if is_below else (not hint.preferred, size)
        return not hint.preferred, *aimed, order(hint.affinity), hint.affinity

    return min(agreed, key=rank, default=Hint(everywhere, False))


def _agreed(found: Sequence[Sequence[Hint]], everywhere: Mask) -> set[Hint]:
    """What comes of taking one hint of each, in all ways: kept as sets of nodes, which are few where ways are many."""
    ways: set[tuple[Mask, bool, Mask | None]] = {(everywhere, True, None)}
    for each in found:
        further = set()
        for mask, preferred, common in ways:
            for hint in each:
                own = hint.affinity
                still = preferred and hint.preferred and (own is None or common in (None, own))
                left = mask if own is None else mask & own
                if left:
                    further.add((left, still, (common if own is None else own) if still else None))
        ways = further
    return {Hint(mask, preferred) for mask, preferred, _ in ways}


def _aim(found: Sequence[Sequence[Hint]]) -> int:
    """What the neediest cannot do without."""
    smallest = (
        min((hint.affinity.bit_count() for hint in each if hint.affinity is not None), default=0) for each in found
    )
    return max(smallest, default=0)
