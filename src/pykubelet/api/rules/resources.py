"""Sums over the resources of a pod's containers."""

from collections.abc import Callable, Iterable
from typing import Final

from pykubelet.api.container import Container
from pykubelet.api.pod import PodSpec, PodStatus
from pykubelet.api.quantity import Quantity, ResourceList
from pykubelet.api.struct import changed

CPU: Final = "cpu"
MEMORY: Final = "memory"
EPHEMERAL_STORAGE: Final = "ephemeral-storage"
PODS: Final = "pods"
HUGEPAGES_PREFIX: Final = "hugepages-"


def is_sidecar(init_container: Container) -> bool:
    """An init container that keeps running beside the main ones."""
    return init_container.restart_policy == "Always"


def is_pod_level_resource(name: str) -> bool:
    """Whether a resource may be given for a pod as a whole."""
    return name in (CPU, MEMORY) or name.startswith(HUGEPAGES_PREFIX)


def container_requests(spec: PodSpec) -> dict[str, Quantity]:
    """What the containers need together at the worst moment of the pod's life."""
    return _at_the_worst_moment(spec, lambda container: container.resources.requests)


def container_limits(spec: PodSpec) -> dict[str, Quantity]:
    """What the containers may use together at the worst moment of the pod's life."""
    return _at_the_worst_moment(spec, lambda container: container.resources.limits)


def pod_requests(spec: PodSpec, of_containers: ResourceList | None = None) -> dict[str, Quantity]:
    """What a pod asks of its node: what is requested for it as a whole, else for its containers, and its overhead."""
    requests = container_requests(spec) if of_containers is None else of_containers
    return total([{**requests, **pod_level_requests(spec)}, spec.overhead])


def pod_level_requests(spec: PodSpec) -> dict[str, Quantity]:
    """What is requested for a pod as a whole, instead of the sum over its containers."""
    requests = spec.resources.requests if spec.resources else {}
    return {name: quantity for name, quantity in requests.items() if is_pod_level_resource(name)}


def spec_in_force(spec: PodSpec, status: PodStatus) -> PodSpec:
    """With what its containers were seen to have where that is more than they ask for: while a pod changes its size,
    the larger one counts."""
    seen = {
        each.name: each
        for each in (*status.container_statuses, *status.init_container_statuses)
        if each.resources is not None
    }
    pending = next((each for each in status.conditions if each.type == "PodResizePending"), None)
    is_infeasible = pending is not None and pending.reason == "Infeasible"  # what cannot be is not counted

    def larger(container: Container) -> Container:
        has, asked = seen.get(container.name), container.resources
        if has is None or has.resources is None:
            return container
        requests = largest(
            *(() if is_infeasible else (asked.requests,)), has.resources.requests, has.allocated_resources
        )
        limits = largest(*(() if is_infeasible else (asked.limits,)), has.resources.limits)
        return changed(container, resources=changed(asked, requests=requests, limits=limits))

    return changed(
        spec,
        containers=tuple(map(larger, spec.containers)),
        init_containers=tuple(larger(each) if is_sidecar(each) else each for each in spec.init_containers),
    )


def _at_the_worst_moment(spec: PodSpec, wanted: Callable[[Container], ResourceList]) -> dict[str, Quantity]:
    """Init containers run one by one, each beside the sidecars started before it; the main ones run beside them all."""
    sidecars: dict[str, Quantity] = {}
    peak: dict[str, Quantity] = {}
    for container in spec.init_containers:
        if is_sidecar(container):
            sidecars = total([sidecars, wanted(container)])
            peak = largest(peak, sidecars)
        else:
            peak = largest(peak, total([sidecars, wanted(container)]))
    return largest(total([*map(wanted, spec.containers), sidecars]), peak)


def total(lists: Iterable[ResourceList]) -> dict[str, Quantity]:
    result: dict[str, Quantity] = {}
    for resources in lists:
        for name, amount in resources.items():
            result[name] = result[name] + amount if name in result else amount
    return result


def largest(*lists: ResourceList) -> dict[str, Quantity]:
    result: dict[str, Quantity] = {}
    for resources in lists:
        for name, amount in resources.items():
            if name not in result or result[name] < amount:
                result[name] = amount
    return result
