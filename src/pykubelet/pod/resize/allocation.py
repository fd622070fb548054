"""What a pod was given of the node, beside what it asks for now: the node runs what it has given.

Only processor time and memory change while a container runs, and only of those that run all the time.
"""

from collections.abc import Iterator, Mapping
from typing import Final, Literal

from msgspec import Struct

from pykubelet.api.container import Container, ResourceRequirements
from pykubelet.api.pod import Pod
from pykubelet.api.quantity import Quantity, ResourceList
from pykubelet.api.rules.resources import CPU, MEMORY, is_sidecar, largest
from pykubelet.api.struct import changed
from pykubelet.pod.observed import ObservedPod, State
from pykubelet.pod.resize.moments import Operation, ResizeAsked

Allocation = Mapping[str, ResourceRequirements]
"""By container: what it may use."""


class Allocations(Struct, frozen=True, kw_only=True):
    """Of all pods, by uid."""

    allocated: Mapping[str, Allocation] = {}
    """What each was given."""
    actuated: Mapping[str, Allocation] = {}
    """What its containers were told to have when last something was told to them."""


_NOTHING: Final = ResourceRequirements()
_ZERO: Final = Quantity(0)
_RESIZABLE: Final[tuple[Literal["cpu", "memory"], ...]] = ("memory", "cpu")


class Amounts(Struct, frozen=True):
    """What can change of a container while it runs: thousandths of a cpu, bytes. 0: nothing is said."""

    cpu_request: int = 0
    cpu_limit: int = 0
    memory_request: int = 0
    memory_limit: int = 0


def amounts_of(resources: ResourceRequirements) -> Amounts:
    requests, limits = resources.requests, resources.limits
    return Amounts(
        cpu_request=requests.get(CPU, _ZERO).milli,
        cpu_limit=limits.get(CPU, _ZERO).milli,
        memory_request=requests.get(MEMORY, _ZERO).value,
        memory_limit=limits.get(MEMORY, _ZERO).value,
    )


def resizable_containers(pod: Pod) -> Iterator[Container]:
    """Init containers that end have what they have."""
    yield from (each for each in pod.spec.init_containers if is_sidecar(each))
    yield from pod.spec.containers


def allocation_of(pod: Pod) -> dict[str, ResourceRequirements]:
    """What the pod asks for, as it is given."""
    return {container.name: container.resources for container in resizable_containers(pod)}


def with_allocation(pod: Pod, allocation: Allocation) -> Pod:
    """The pod with what it was given in the place of what it asks for: the same one when these are equal."""
    init = tuple(_allocated(each, allocation) for each in pod.spec.init_containers)
    main = tuple(_allocated(each, allocation) for each in pod.spec.containers)
    if all(
        new is old for new, old in zip((*init, *main), (*pod.spec.init_containers, *pod.spec.containers), strict=True)
    ):
        return pod
    return changed(pod, spec=changed(pod.spec, init_containers=init, containers=main))


def _allocated(container: Container, allocation: Allocation) -> Container:
    given = allocation.get(container.name)
    return container if given is None or given == container.resources else changed(container, resources=given)


def peak(pod: Pod, actuated: Allocation) -> Pod:
    """The pod with the larger of what it was given and of what its containers were told to have: while some have been
    told and others not, the bounds of the whole pod have to be wide enough for both."""
    at_most = {}
    for container in resizable_containers(pod):
        before, now = actuated.get(container.name, container.resources), container.resources
        limits = {name: much for name, much in largest(before.limits, now.limits).items() if _both(name, before, now)}
        at_most[container.name] = changed(now, requests=largest(before.requests, now.requests), limits=limits)
    return with_allocation(pod, at_most)


def _both(name: str, before: ResourceRequirements, now: ResourceRequirements) -> bool:
    """Without a limit before or after there is no bound on the way."""
    return bool(before.limits.get(name, _ZERO)) and bool(now.limits.get(name, _ZERO))


def asked_resizes(before: Pod, now: Pod) -> Iterator[ResizeAsked]:
    """What a new version of a pod asks for that the one before did not."""
    known = allocation_of(before)
    for container in resizable_containers(now):
        if container.name not in known:
            continue
        old, new = known[container.name], container.resources
        for name in _RESIZABLE:
            for part, was, wanted in (("requests", old.requests, new.requests), ("limits", old.limits, new.limits)):
                operation = _operation(was.get(name, _ZERO), wanted.get(name, _ZERO))
                if operation is not None:
                    yield ResizeAsked(container.name, name, "requests" if part == "requests" else "limits", operation)


def _operation(was: Quantity, wanted: Quantity) -> Operation | None:
    if was == wanted:
        return None
    if not wanted or not was:
        return "add" if wanted else "remove"
    return "increase" if wanted > was else "decrease"


def is_in_progress(pod: Pod, observed: ObservedPod, actuated: Allocation) -> bool:
    """Whether a running container of the pod, as it was allocated, has not been told all of that yet. One that does
    not run is started with the right size."""
    for container in resizable_containers(pod):
        newest = observed.newest(container.name)
        if newest is None or newest.state is not State.RUNNING:
            continue
        told = actuated.get(container.name, _NOTHING)
        if _exact(told) != _exact(container.resources):
            return True
    return False


def _exact(resources: ResourceRequirements) -> list[Quantity]:
    lists: tuple[ResourceList, ...] = (resources.requests, resources.limits)
    return [each.get(name, _ZERO) for each in lists for name in (CPU, MEMORY)]
