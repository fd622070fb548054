"""What a container has by the word of its runtime, in the words of a pod's spec."""

from typing import Final

from pykubelet.api.container import ResourceRequirements
from pykubelet.api.quantity import Quantity, ResourceList
from pykubelet.api.rules.resources import CPU, MEMORY
from pykubelet.pod.container.cgroup import FEWEST_SHARES
from pykubelet.pod.observed import EnforcedLimits

_SMALLEST_LIMIT: Final = 10
"""Thousandths of a cpu: the kernel takes no smaller quota."""
_SHARES_PER_CPU: Final = 1024
_NANOS: Final = 10**6
_ZERO: Final = Quantity(0)


def shown_resources(
    told: EnforcedLimits, allocated: ResourceRequirements, known: ResourceRequirements
) -> ResourceRequirements:
    """As far as the runtime says, else as is `known` from elsewhere. Where it says something is as small as can be,
    what is allocated may be smaller still, and comes to the same."""
    limits = {name: much for name, much in known.limits.items() if name in (CPU, MEMORY)}
    requests = {name: much for name, much in known.requests.items() if name in (CPU, MEMORY)}
    if told.cpu_quota is not None and (milli := told.cpu_quota * 1000 // told.cpu_period) > 0:
        _show(limits, milli, allocated.limits, _SMALLEST_LIMIT)
    if told.memory:
        limits[MEMORY] = Quantity.of(told.memory, "BinarySI")
    if told.cpu_shares is not None and told.cpu_shares >= FEWEST_SHARES:
        milli = -(-told.cpu_shares * 1000 // _SHARES_PER_CPU)
        _show(requests, milli, allocated.requests, FEWEST_SHARES)
    return ResourceRequirements(limits=limits, requests=requests)


def _show(found: dict[str, Quantity], milli: int, allocated: ResourceList, smallest: int) -> None:
    found.pop(CPU, None)
    if max(milli, allocated.get(CPU, _ZERO).milli) > smallest:
        found[CPU] = Quantity(milli * _NANOS)
