"""In which order pods end when their machine is about to shut down, and how long each crowd of them may take: as
upstream's kubelet does it, the least important first."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct

from pykubelet.api.pod import Pod
from pykubelet.pod.status.pod_status import Failure

REJECTED: Final = ("NodeShutdown", "Pod was rejected as the node is shutting down.")
UNREADY: Final = "node is shutting down"
_TERMINATED: Final = "Pod was terminated in response to imminent node shutdown."
FAILURE: Final = Failure("Terminated", _TERMINATED, yields_to_success=True, disruption=_TERMINATED)
_CRITICAL: Final = 2_000_000_000


class ShutdownPeriod(Struct, frozen=True):
    """Pods of this priority and above, up to the next period's, have so many seconds."""

    priority: int
    seconds: int


def shutdown_periods(
    everybody: float, critical: float, by_priority: Iterable[Mapping[str, Any]] = ()
) -> tuple[ShutdownPeriod, ...]:
    """What people have configured, the lowest priority first; nothing: pods are not ended. `everybody` has the time for
    all, of which `critical` pods have the last part to themselves."""
    given = [ShutdownPeriod(each["priority"], each["shutdownGracePeriodSeconds"]) for each in by_priority]
    if not given and everybody > 0:
        given = [ShutdownPeriod(0, int(everybody - critical)), ShutdownPeriod(_CRITICAL, int(critical))]
    return tuple(sorted(given, key=lambda each: each.priority))


def shutdown_order(
    periods: Sequence[ShutdownPeriod], pods: Iterable[Pod]
) -> tuple[tuple[ShutdownPeriod, tuple[Pod, ...]], ...]:
    """Who ends together, one crowd after the other. Who is below all periods is in the first one."""
    crowds: list[list[Pod]] = [[] for _ in periods]
    for pod in pods if periods else ():
        reached = sum(period.priority <= (pod.spec.priority or 0) for period in periods)
        crowds[max(reached - 1, 0)].append(pod)
    return tuple((period, tuple(crowd)) for period, crowd in zip(periods, crowds, strict=True) if crowd)


def shutdown_grace(pod: Pod, period: ShutdownPeriod) -> int:
    """The pod's own grace, if that is less."""
    own = pod.spec.termination_grace_period_seconds
    return period.seconds if own is None else min(own, period.seconds)
