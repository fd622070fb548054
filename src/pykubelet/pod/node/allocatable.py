"""What of a node is left for pods: all there is, without what is reserved and what has to stay free lest pods are
evicted. One answer for the node's status, for admission and for whoever limits all pods together."""

from collections.abc import Iterable, Iterator

from pykubelet.api.quantity import Quantity, ResourceList
from pykubelet.api.rules.resources import EPHEMERAL_STORAGE, HUGEPAGES_PREFIX, MEMORY, total
from pykubelet.pod.eviction.thresholds import MEMORY_AVAILABLE, Threshold

_KEPT_FREE = {MEMORY_AVAILABLE: MEMORY, "nodefs.available": EPHEMERAL_STORAGE}


def kept_free(thresholds: Iterable[Threshold], capacity: ResourceList) -> ResourceList:
    """What has to stay free: where there is less, pods are evicted at once."""
    hard = ((_KEPT_FREE.get(each.signal, ""), each.least) for each in thresholds if each.is_hard)
    return {name: least.of(capacity[name].value) for name, least in hard if name in capacity}


def allocatable(capacity: ResourceList, *kept_back: ResourceList) -> ResourceList:
    """What is left for pods. Huge pages cannot be used as memory."""
    kept = total(kept_back)
    left = {name: amount - kept[name] if name in kept else amount for name, amount in capacity.items()}
    for name, amount in capacity.items():
        if name.startswith(HUGEPAGES_PREFIX):
            left[MEMORY] -= amount
    return {name: max(amount, Quantity.of(0)) for name, amount in left.items()}


def over_reserved(capacity: ResourceList, *kept_back: ResourceList) -> Iterator[str]:
    """A sentence for each resource of which more is kept back than there is."""
    for name, amount in total(kept_back).items():
        if name in capacity and amount > capacity[name]:
            yield (
                f'Resource "{name}" has a reservation of {amount} but capacity of {capacity[name]}. '
                "Expected capacity >= reservation."
            )
