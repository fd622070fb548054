"""Who dies first when memory runs out: the OOM score of a container."""

from typing import Final

from pykubelet.api.container import Container
from pykubelet.api.pod import Pod
from pykubelet.api.quantity import Quantity
from pykubelet.api.rules.pod_kinds import is_node_critical
from pykubelet.api.rules.qos import qos_class
from pykubelet.api.rules.resources import MEMORY, container_requests, is_pod_level_resource, is_sidecar

_GUARANTEED_SCORE: Final = -997
_BEST_EFFORT_SCORE: Final = 1000


def oom_score_adj(pod: Pod, container: Container, memory: int) -> int:
    """How readily the kernel kills a container's processes, on a machine with `memory` bytes: higher dies sooner."""
    if is_node_critical(pod):
        return _GUARANTEED_SCORE
    match qos_class(pod):
        case "Guaranteed":
            return _GUARANTEED_SCORE
        case "BestEffort":
            return _BEST_EFFORT_SCORE
    share = _share_of_unclaimed_memory(pod)
    wanted = _memory_request(container) + share
    if is_sidecar(container) and any(container.name == each.name for each in pod.spec.init_containers):
        # A sidecar must not die before the containers that it serves.
        wanted = max(wanted, min(map(_memory_request, pod.spec.containers)) + share)
    score = 1000 - (1000 * wanted) // memory
    return min(max(score, 1000 + _GUARANTEED_SCORE), _BEST_EFFORT_SCORE - 1)


def _memory_request(container: Container) -> int:
    return container.resources.requests.get(MEMORY, Quantity(0)).value


def _share_of_unclaimed_memory(pod: Pod) -> int:
    """What a pod asks for beyond its containers' own requests is divided evenly among them."""
    resources = pod.spec.resources
    if (
        resources is None
        or not resources.requests.get(MEMORY)
        or not any(map(is_pod_level_resource, resources.requests))
    ):
        return 0
    claimed = container_requests(pod.spec).get(MEMORY, Quantity(0))
    unclaimed = resources.requests[MEMORY].value - claimed.value
    return int(unclaimed / (len(pod.spec.containers) + len(pod.spec.init_containers)))
