"""How a pod's containers are stopped: in which order, and with how much time for each.

One budget of seconds covers the whole stop. Running a preStop hook and waiting for one's turn are paid from it, and
whoever is left with nothing still gets MINIMUM_GRACE to say goodbye.
"""

from typing import Final

from pykubelet.api.container import Container
from pykubelet.api.pod import Pod
from pykubelet.api.rules.resources import is_sidecar
from pykubelet.pod.lifecycle.plan import LIVENESS_PROBE, STARTUP_PROBE
from pykubelet.pod.observed import ObservedContainer, ObservedPod, State

DEFAULT_GRACE: Final = 30
MINIMUM_GRACE: Final = 2
_SHORTEST_REQUEST: Final = 1


def pod_grace(pod: Pod) -> int:
    """Seconds for stopping a pod as a whole: what the one who deletes it has asked for, else the pod's own wish. Never
    below 1. That of a stop which is under way may only shrink: see `node.worker.newer`."""
    asked = pod.metadata.deletion_grace_period_seconds
    return max(_wished(pod) if asked is None else asked, _SHORTEST_REQUEST)


def container_grace(pod: Pod, container: Container | None = None, reason: str = "") -> int:
    """Seconds for stopping one container of a pod that goes on, or with the pod when nobody has set a grace for that.

    `reason` is that of its Kill. A failed probe may bring a grace of its own (a hung process deserves no long
    farewell), but not once the pod is being deleted. The container is None when the spec does not know it.
    """
    if pod.metadata.deletion_grace_period_seconds is not None:
        return pod.metadata.deletion_grace_period_seconds
    probe = None
    if container is not None and reason == STARTUP_PROBE:
        probe = container.startup_probe
    elif container is not None and reason == LIVENESS_PROBE:
        probe = container.liveness_probe
    if probe is not None and probe.termination_grace_period_seconds is not None:
        return probe.termination_grace_period_seconds
    return _wished(pod)


def orphan_grace(container: ObservedContainer) -> int:
    """Seconds for a container whose pod nobody knows any more: as noted when it was made, else the least."""
    return MINIMUM_GRACE if container.grace_seconds is None else container.grace_seconds


def _wished(pod: Pod) -> int:
    wish = pod.spec.termination_grace_period_seconds
    return DEFAULT_GRACE if wish is None else wish


def stop_waves(pod: Pod | None, observed: ObservedPod) -> tuple[tuple[str, ...], ...]:
    """The ids of the containers that may be running, in groups to be stopped together, one group after the other.

    Main containers can count on their sidecars to the very end, and a sidecar on those that started before it. So
    everything but sidecars goes first, then the sidecars one by one, last started first. A group's turn comes when the
    one before has ended, or when the grace is used up: then all the rest go at once. Hooks (preStop) run in all
    containers from the start, whosever turn it is.
    """
    sidecars = [c.name for c in reversed(pod.spec.init_containers) if is_sidecar(c)] if pod is not None else []
    alive = [c for c in observed.containers if c.state in (State.RUNNING, State.UNKNOWN)]
    first = tuple(c.id for c in alive if c.name not in sidecars)
    rest = (tuple(c.id for c in alive if c.name == name) for name in sidecars)
    return tuple(wave for wave in (first, *rest) if wave)
