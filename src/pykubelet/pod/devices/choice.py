"""Which devices a container gets: first those that its pod has anyway, then those near its memory, and among equals
those that the plug-in prefers."""

from collections.abc import Collection, Iterable, Mapping

from msgspec import Struct

from pykubelet.base.errors import Invalid


class Device(Struct, frozen=True):
    id: str
    is_healthy: bool
    nodes: tuple[int, ...] = ()
    """The NUMA nodes that it is near; empty: it does not matter."""


class Wanted(Struct, frozen=True, kw_only=True):
    """What one container wants of one resource, and what there is."""

    resource: str
    count: int
    reusable: frozenset[str] = frozenset()
    """Of the pod's own: its init containers are done with them by then."""
    free: frozenset[str] = frozenset()
    """Healthy, and nobody's."""
    devices: Mapping[str, Device] = {}
    near: frozenset[int] | None = None
    """The NUMA nodes that the container is to keep to; None: any."""


class Preference(Struct, frozen=True):
    """What the plug-in may be asked."""

    available: tuple[str, ...]
    must_include: tuple[str, ...]
    size: int


def preference(wanted: Wanted) -> Preference | None:
    """None: there is nothing to choose. Raises Invalid when there are too few."""
    taken = _reused(wanted)
    missing = wanted.count - len(taken)
    if missing <= 0:
        return None
    if len(wanted.free) < missing:
        raise Invalid(
            f"requested number of devices unavailable for {wanted.resource}. "
            f"Requested: {missing}, Available: {len(wanted.free)}"
        )
    aligned, _, _ = by_affinity(wanted)
    if missing == len(aligned):
        return None
    pool = wanted.free
    if missing < len(aligned):
        pool = aligned
    else:
        taken |= aligned
    return Preference(tuple(sorted(pool | taken)), tuple(sorted(taken)), wanted.count)


def chosen(wanted: Wanted, preferred: Iterable[str] = ()) -> frozenset[str]:
    """`preferred` is what the plug-in has answered; what is not free counts for nothing. Raises Invalid."""
    preference(wanted)
    aligned, unaligned, anywhere = by_affinity(wanted)
    reused = _reused(wanted)
    asked = frozenset(preferred)
    if wanted.count - len(reused) < len(aligned):
        order = [reused, asked & aligned, aligned]
    else:
        order = [reused, aligned, asked & wanted.free, unaligned, anywhere]
    found: dict[str, None] = {}
    for group in order:
        for each in sorted(group):
            if len(found) < wanted.count:
                found.setdefault(each)
    if len(found) < wanted.count:
        raise Invalid(
            f"unexpectedly allocated less resources than required. Requested: {wanted.count}, Got: {len(found)}"
        )
    return frozenset(found)


def _reused(wanted: Wanted) -> frozenset[str]:
    return frozenset(sorted(wanted.reusable)[: wanted.count])


def by_affinity(wanted: Wanted) -> tuple[frozenset[str], frozenset[str], frozenset[str]]:
    """The free ones: near, elsewhere, and those of which it does not matter where they are."""
    near, free, devices = wanted.near, wanted.free, wanted.devices
    if near is None or not any(device.nodes for device in devices.values()):
        return frozenset(), frozenset(), free
    anywhere = frozenset(each for each in free if not devices[each].nodes)
    aligned = frozenset(each for each in free - anywhere if near.intersection(devices[each].nodes))
    return aligned, free - anywhere - aligned, anywhere


def by_node(ids: Collection[str], devices: Mapping[str, Device]) -> dict[int, tuple[str, ...]]:
    """-1: of no node."""
    found: dict[int, list[str]] = {}
    for each in sorted(ids):
        known = devices.get(each)
        for node in (known.nodes if known else ()) or (-1,):
            found.setdefault(node, []).append(each)
    return {node: tuple(members) for node, members in sorted(found.items())}
