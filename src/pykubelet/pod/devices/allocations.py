"""Who has which devices. A container keeps what it was given for as long as its pod is there."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from msgspec import Struct

from pykubelet.api.container import Container
from pykubelet.api.node import Node
from pykubelet.api.pod import Pod
from pykubelet.api.quantity import Quantity, ResourceList
from pykubelet.api.rules.resources import is_sidecar
from pykubelet.api.struct import changed
from pykubelet.base.errors import Invalid
from pykubelet.pod.devices.choice import Device, Wanted, by_node


class Holder(NamedTuple):
    uid: str
    container: str
    resource: str


class Allocation(Struct, frozen=True):
    ids: Mapping[int, tuple[str, ...]]
    """By NUMA node; -1: of none. A device near several nodes is told at each."""
    answer: bytes
    """What the plug-in said to do with them, in its own words."""

    @property
    def all(self) -> frozenset[str]:
        return frozenset(each for ids in self.ids.values() for each in ids)


class DeviceInventory:
    """What plug-ins have told of their devices, and who has which."""

    def __init__(self, held: Mapping[Holder, Allocation] | None = None) -> None:
        self.devices: dict[str, dict[str, Device]] = {}
        self.held: dict[Holder, Allocation] = dict(held or {})

    def knows(self, resource: str) -> bool:
        """Whether a plug-in brings it, or has."""
        return resource in self.devices or any(holder.resource == resource for holder in self.held)

    def wants(self, pod: Pod) -> Iterator[tuple[Container, str, int]]:
        """What each container of a pod wants of plug-ins, in the order in which they are served."""
        if not self.devices and not self.held:
            return
        for container in (*pod.spec.init_containers, *pod.spec.containers):
            for resource in sorted(container.resources.limits):
                count = container.resources.limits[resource].value
                if count > 0 and self.knows(resource):
                    yield container, resource, count

    def wanted(
        self, pod: Pod, container: Container, resource: str, count: int, near: frozenset[int] | None = None
    ) -> Wanted | None:
        """None: it has them. Raises Invalid with the words that the pod's status shows."""
        uid, name = pod.metadata.uid, container.name
        known = self.devices.get(resource)
        has = self.held.get(Holder(uid, name, resource))
        if has is not None and len(has.all) != count:
            raise Invalid(
                f'pod "{uid}" container "{name}" changed request for resource "{resource}" '
                f"from {len(has.all)} to {count}"
            )
        if known is None:
            raise Invalid(f"cannot allocate unregistered device {resource}")
        healthy = frozenset(each.id for each in known.values() if each.is_healthy)
        if not healthy:
            raise Invalid(f"no healthy devices present; cannot allocate unhealthy devices {resource}")
        if has is not None:
            if not has.all <= healthy:
                raise Invalid(
                    f"previously allocated devices are no longer healthy; cannot allocate unhealthy devices {resource}"
                )
            return None
        return Wanted(
            resource=resource,
            count=count,
            reusable=self.reusable(pod, container, resource),
            free=self.free(resource),
            devices=known,
            near=near,
        )

    def free(self, resource: str) -> frozenset[str]:
        """Healthy, and nobody's."""
        taken = {each for holder, given in self.held.items() if holder.resource == resource for each in given.all}
        known = self.devices.get(resource, {})
        return frozenset(each.id for each in known.values() if each.is_healthy and each.id not in taken)

    def give(self, holder: Holder, ids: frozenset[str], answer: bytes) -> None:
        self.held[holder] = Allocation(by_node(ids, self.devices.get(holder.resource, {})), answer)

    def release(self, uid: str) -> bool:
        """-> whether it had any."""
        mine = [holder for holder in self.held if holder.uid == uid]
        for holder in mine:
            del self.held[holder]
        return bool(mine)

    def of(self, uid: str, container: str) -> dict[str, Allocation]:
        """By resource."""
        found = {each.resource: given for each, given in self.held.items() if each[:2] == (uid, container)}
        return dict(sorted(found.items()))

    def counts(self) -> dict[str, tuple[int, int]]:
        """How many there are of each resource, and how many of those are well."""
        return {
            resource: (len(known), sum(device.is_healthy for device in known.values()))
            for resource, known in self.devices.items()
        }

    def with_held(self, node: Node) -> Node:
        """What pods are admitted to: there are at least as many devices as are in use, so that whoever uses one keeps
        it while its plug-in is away."""
        held: dict[str, set[str]] = {}
        for holder, given in self.held.items():
            held.setdefault(holder.resource, set()).update(given.all)
        known = node.status.allocatable
        more = {name: Quantity.of(len(ids)) for name, ids in held.items() if len(ids) > _count(known, name)}
        return changed(node, status=changed(node.status, allocatable={**known, **more})) if more else node

    def reusable(self, pod: Pod, container: Container, resource: str) -> frozenset[str]:
        """What init containers that end had, and nobody after them was given that runs on."""
        free: set[str] = set()
        for each in (*pod.spec.init_containers, *pod.spec.containers):
            if each.name == container.name:
                break
            given = self.held.get(Holder(pod.metadata.uid, each.name, resource))
            if given is None:
                continue
            ends = each in pod.spec.init_containers and not is_sidecar(each)
            free = free | given.all if ends else free - given.all
        return frozenset(free)


def _count(resources: ResourceList, name: str) -> int:
    return resources[name].value if name in resources else 0
