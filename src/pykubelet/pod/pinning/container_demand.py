"""What a container of a guaranteed pod may have for itself: whole processors, and all its memory."""

from collections.abc import Callable, Mapping

from pykubelet.api.container import Container
from pykubelet.api.pod import Pod
from pykubelet.api.quantity import Quantity, ResourceList
from pykubelet.api.rules.qos import qos_class
from pykubelet.api.rules.resources import CPU, HUGEPAGES_PREFIX, MEMORY, is_pod_level_resource, is_sidecar

Demand = Mapping[str, int]


def exclusive_cpus(pod: Pod, container: Container) -> int:
    """How many; 0: it runs where everybody else does."""
    if not _is_guaranteed(pod):
        return 0
    wanted = _requests(pod, container).get(CPU, Quantity(0))
    return wanted.value if wanted.value * 1000 == wanted.milli else 0


def pod_exclusive_cpus(pod: Pod) -> int:
    """All containers together, at the worst moment of the pod's life."""
    return _at_the_worst_moment(pod, lambda container: {CPU: exclusive_cpus(pod, container)}).get(CPU, 0)


def exclusive_memory(pod: Pod, container: Container) -> Demand:
    """Bytes of memory and of huge pages, by resource."""
    if not _is_guaranteed(pod):
        return {}
    wanted = _requests(pod, container)
    return {name: wanted[name].value for name in sorted(wanted) if name == MEMORY or name.startswith(HUGEPAGES_PREFIX)}


def pod_exclusive_memory(pod: Pod) -> Demand:
    """All containers together, at the worst moment of the pod's life. What main containers do not ask for is not
    counted."""
    peak = _at_the_worst_moment(pod, lambda container: exclusive_memory(pod, container))
    asked = {name for container in pod.spec.containers for name in exclusive_memory(pod, container)}
    return {name: much for name, much in peak.items() if name in asked}


def _is_guaranteed(pod: Pod) -> bool:
    """And its containers have resources of their own: what is asked for a pod as a whole belongs to none of them."""
    return not _has_pod_level_resources(pod) and qos_class(pod) == "Guaranteed"


def _has_pod_level_resources(pod: Pod) -> bool:
    whole = pod.spec.resources
    return whole is not None and any(map(is_pod_level_resource, (*whole.requests, *whole.limits)))


def _requests(pod: Pod, container: Container) -> ResourceList:
    """As they were when the pod was admitted: while it is resized, the spec says what it may have later."""
    status = pod.status
    statuses = (*status.container_statuses, *(status.init_container_statuses if is_sidecar(container) else ()))
    told = next((each.allocated_resources for each in statuses if each.name == container.name), {})
    return told or container.resources.requests


def _at_the_worst_moment(pod: Pod, wanted: Callable[[Container], Demand]) -> Demand:
    sidecars: dict[str, int] = {}
    peak: dict[str, int] = {}
    for container in pod.spec.init_containers:
        for name, much in wanted(container).items():
            if is_sidecar(container):
                sidecars[name] = sidecars.get(name, 0) + much
            else:
                peak[name] = max(peak.get(name, 0), sidecars.get(name, 0) + much)
    running = dict(sidecars)
    for container in pod.spec.containers:
        for name, much in wanted(container).items():
            running[name] = running.get(name, 0) + much
    return {name: max(peak.get(name, 0), running.get(name, 0)) for name in {**peak, **running}}
