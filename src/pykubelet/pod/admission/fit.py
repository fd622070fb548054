"""Whether a pod's requests fit beside those of the pods that are here.

The node's running totals are kept, not summed up anew: asking costs the same beside ten pods and beside ten thousand.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from msgspec import Struct

from pykubelet.api.pod import Pod
from pykubelet.api.quantity import Quantity, ResourceList
from pykubelet.api.rules.host_ports import HostPort, HostPorts, host_ports
from pykubelet.api.rules.resources import (
    CPU,
    EPHEMERAL_STORAGE,
    HUGEPAGES_PREFIX,
    MEMORY,
    PODS,
    container_requests,
    pod_requests,
    spec_in_force,
)
from pykubelet.api.validation.resources import is_extended

_FIRST: Final = (CPU, MEMORY, EPHEMERAL_STORAGE)
_COUNTED_PREFIXES: Final = (HUGEPAGES_PREFIX, "attachable-volumes-")
_NATIVE: Final = "kubernetes.io/"

Amounts = Mapping[str, int]
"""Resources as a node counts them: thousandths of a cpu, whole units of all else."""


def amount(name: str, quantity: Quantity) -> int:
    return quantity.milli if name == CPU else quantity.value


def amounts(resources: ResourceList) -> dict[str, int]:
    """The resources that a node keeps count of. What is not here has no bound: nobody counts `storage`."""
    return {name: amount(name, quantity) for name, quantity in resources.items() if _is_counted(name)}


def _is_counted(name: str) -> bool:
    return name in _FIRST or name.startswith(_COUNTED_PREFIXES) or _NATIVE in name or is_extended(name)


# --- what a pod asks for


def wanted(pod: Pod, allocatable: Amounts) -> dict[str, int]:
    """What a pod that is not here yet needs of a node.

    Containers may ask for extended resources that this node has never heard of: something else provides them.
    """
    of_containers = {
        name: quantity
        for name, quantity in container_requests(pod.spec).items()
        if name in allocatable or not is_extended(name)
    }
    return amounts(pod_requests(pod.spec, of_containers))


def held(pod: Pod) -> dict[str, int]:
    """What a pod that is here takes: the larger of what it asks for and what it was seen to have, while it resizes."""
    return amounts(pod_requests(pod.spec, container_requests(spec_in_force(pod.spec, pod.status))))


# --- what the node has left


class _Share(Struct, frozen=True):
    """What one pod holds of the node."""

    pod: Pod
    amounts: Amounts
    ports: tuple[HostPort, ...]


_NOTHING: Final = _Share(Pod(), {}, ())


class NodeUsage:
    """The pods that hold a share of the node, and the totals of their shares.

    They are the admitted pods that have not ended, as their sources told of them last; mirror pods hold nothing. `add`,
    `remove` and every question but `pods` cost the same however many pods there are.
    """

    def __init__(self, pods: Iterable[Pod] = ()) -> None:
        self._shares: dict[str, _Share] = {}
        self._totals: dict[str, int] = {}
        self._ports = HostPorts()
        for pod in pods:
            self.add(pod)

    def add(self, pod: Pod) -> None:
        """A pod is admitted, or what it asks for has changed."""
        self.remove(pod.metadata.uid)
        share = _Share(pod, held(pod), host_ports(pod.spec))
        self._shares[pod.metadata.uid] = share
        for name, quantity in share.amounts.items():
            self._totals[name] = self._totals.get(name, 0) + quantity
        self._ports.add(share.ports)

    def remove(self, uid: str) -> None:
        """A pod has ended. Harmless when it is not here."""
        share = self._shares.pop(uid, None)
        if share is None:
            return
        for name, quantity in share.amounts.items():
            self._totals[name] -= quantity
        self._ports.remove(share.ports)

    @property
    def totals(self) -> Amounts:
        """What all pods hold together. The map is live: read it, do not keep it."""
        return self._totals

    def pods(self) -> Iterator[Pod]:
        """The pods in the order in which they were added."""
        return (share.pod for share in self._shares.values())

    def used(self, name: str, besides: str = "") -> int:
        """How much of a resource is held by all pods but the one with the uid `besides`."""
        if name == PODS:
            return len(self._shares) - (besides in self._shares)
        return self._totals.get(name, 0) - self._shares.get(besides, _NOTHING).amounts.get(name, 0)

    def ports_are_free(self, ports: Iterable[HostPort], besides: str = "") -> bool:
        """Whether no pod but the one with the uid `besides` holds the ports."""
        return self._ports.are_free(ports, self._shares.get(besides, _NOTHING).ports)

    def __len__(self) -> int:
        return len(self._shares)

    def __contains__(self, uid: str) -> bool:
        return uid in self._shares


class Shortage(Struct, frozen=True):
    """A resource that the node has too little of for a pod."""

    resource: str
    requested: int
    used: int
    capacity: int

    @property
    def missing(self) -> int:
        return self.requested + self.used - self.capacity

    @property
    def reason(self) -> str:
        return f"OutOf{self.resource}"

    @property
    def message(self) -> str:
        return (
            f"Node didn't have enough resource: {self.resource}, "
            f"requested: {self.requested}, used: {self.used}, capacity: {self.capacity}"
        )


def shortages(pod: Pod, allocatable: Amounts, running: NodeUsage) -> list[Shortage]:
    """What stands in the way of running a pod beside those that run, if it is not already one of them.

    A resource that the node does not tell of is one that it has none of, and that goes for the number of pods too.
    """
    requests = wanted(pod, allocatable)
    order = (*_FIRST, *(name for name in requests if name not in _FIRST))
    asked = {PODS: 1} | {name: requests[name] for name in order if requests.get(name, 0) > 0}
    uid = pod.metadata.uid
    each = (Shortage(name, much, running.used(name, uid), allocatable.get(name, 0)) for name, much in asked.items())
    return [shortage for shortage in each if shortage.missing > 0]
