"""Sums over the resources of a pod's containers."""

from collections.abc import Callable, Iterable
from typing import Final

from pykubelet.api.container import Container
from pykubelet.api.pod import PodSpec
from pykubelet.api.quantity import Quantity, ResourceList

CPU: Final = "cpu"
MEMORY: Final = "memory"
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


def _at_the_worst_moment(spec: PodSpec, wanted: Callable[[Container], ResourceList]) -> dict[str, Quantity]:
    """Init containers run one by one, each beside the sidecars started before it; the main ones run beside them all."""
    sidecars: dict[str, Quantity] = {}
    peak: dict[str, Quantity] = {}
    for container in spec.init_containers:
        if is_sidecar(container):
            sidecars = total([sidecars, wanted(container)])
            peak = _larger(peak, sidecars)
        else:
            peak = _larger(peak, total([sidecars, wanted(container)]))
    return _larger(total([*map(wanted, spec.containers), sidecars]), peak)


def total(lists: Iterable[ResourceList]) -> dict[str, Quantity]:
    result: dict[str, Quantity] = {}
    for resources in lists:
        for name, amount in resources.items():
            result[name] = result[name] + amount if name in result else amount
    return result


def _larger(one: ResourceList, other: ResourceList) -> dict[str, Quantity]:
    result = dict(one)
    for name, amount in other.items():
        if name not in result or result[name] < amount:
            result[name] = amount
    return result
