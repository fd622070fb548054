"""What a container has by the word of its runtime, in the words of a pod's spec."""

from typing import Final

from pykubelet.api.container import ResourceRequirements
from pykubelet.api.quantity import Quantity
from pykubelet.api.rules.resources import CPU, MEMORY
from pykubelet.pod.container.cgroup import FEWEST_SHARES
from pykubelet.pod.observed import EnforcedLimits

_SMALLEST_LIMIT: Final = 10
"""Thousandths of a cpu: the kernel takes no smaller quota."""
_SHARES_PER_CPU: Final = 1024
_NANOS: Final = 10**6
_ZERO: Final = Quantity(0)


def shown_resources(told: EnforcedLimits, allocated: ResourceRequirements) -> ResourceRequirements:
    """As far as the runtime says, and where it says more than that something is as small as can be: what is allocated
    may be smaller still, and comes to the same."""
    limits, requests = {}, {}
    if told.cpu_quota is not None and told.cpu_quota > 0:
        milli = told.cpu_quota * 1000 // told.cpu_period
        if milli > 0 and max(milli, allocated.limits.get(CPU, _ZERO).milli) > _SMALLEST_LIMIT:
            limits[CPU] = Quantity(milli * _NANOS)
    if told.memory:
        limits[MEMORY] = Quantity.of(told.memory, "BinarySI")
    if told.cpu_shares is not None and told.cpu_shares >= FEWEST_SHARES:
        milli = -(-told.cpu_shares * 1000 // _SHARES_PER_CPU)
        if max(milli, allocated.requests.get(CPU, _ZERO).milli) > FEWEST_SHARES:
            requests[CPU] = Quantity(milli * _NANOS)
    return ResourceRequirements(limits=limits, requests=requests)
