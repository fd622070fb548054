"""On which NUMA nodes the devices that a container asks for could be had together."""

from collections.abc import Collection, Mapping, Sequence

from pykubelet.api.container import Container
from pykubelet.api.pod import Pod
from pykubelet.api.rules.resources import is_sidecar
from pykubelet.pod.devices.allocations import DeviceInventory, Holder
from pykubelet.pod.devices.choice import Device
from pykubelet.pod.pinning.topology_hints import Hint, Hints, mask_of, masks


def hints_of(inventory: DeviceInventory, pod: Pod, container: Container, nodes: Sequence[int]) -> Hints:
    """By resource; None: of these it does not matter where they are."""
    found: dict[str, Sequence[Hint] | None] = {}
    for resource, count in _wanted(inventory, container).items():
        holder = Holder(pod.metadata.uid, container.name, resource)
        has = inventory.held[holder].all if holder in inventory.held else frozenset[str]()
        reusable = inventory.reusable(pod, container, resource)
        found[resource] = _hints(inventory, resource, count, has, reusable, nodes)
    return found


def pod_hints_of(inventory: DeviceInventory, pod: Pod, nodes: Sequence[int]) -> Hints:
    """The same for all containers of a pod together."""
    found: dict[str, Sequence[Hint] | None] = {}
    for resource, count in _wanted_by_pod(inventory, pod).items():
        held = [given.all for holder, given in inventory.held.items() if holder[::2] == (pod.metadata.uid, resource)]
        has = frozenset(each for ids in held for each in ids)
        found[resource] = _hints(inventory, resource, count, has, frozenset(), nodes)
    return found


def _hints(
    inventory: DeviceInventory,
    resource: str,
    count: int,
    has: frozenset[str],
    reusable: frozenset[str],
    nodes: Sequence[int],
) -> Sequence[Hint] | None:
    known = inventory.devices.get(resource, {})
    if not any(device.nodes for device in known.values()):
        return None
    if has:
        return device_hints(count, has, (), known, nodes) if len(has) == count else ()
    free = inventory.free(resource)
    if len(free | reusable) < count:
        return ()
    return device_hints(count, free, reusable, known, nodes)


def device_hints(
    count: int, free: Collection[str], reusable: Collection[str], known: Mapping[str, Device], nodes: Sequence[int]
) -> list[Hint]:
    """Every set of NUMA nodes with enough of them; preferred are those with no node more than would be needed if all
    were free."""
    near = {name: mask_of(device.nodes) for name, device in known.items()}
    fewest, found = len(nodes), []
    for mask in masks(nodes):
        if sum(bool(each & mask) for each in near.values()) >= count:
            fewest = min(fewest, mask.bit_count())
        placed = [near.get(each, 0) for each in reusable]
        if any(each and not each & mask for each in placed):
            continue
        usable = sum(bool(each & mask) for each in placed) + sum(bool(near.get(each, 0) & mask) for each in free)
        if usable >= count:
            found.append(mask)
    return [Hint(mask, mask.bit_count() == fewest) for mask in found]


def _wanted(inventory: DeviceInventory, container: Container) -> dict[str, int]:
    limits = container.resources.limits
    return {name: amount.value for name, amount in limits.items() if amount.value > 0 and inventory.knows(name)}


def _wanted_by_pod(inventory: DeviceInventory, pod: Pod) -> dict[str, int]:
    """As much as it has at the worst moment: sidecars go on beside all that come after them."""
    lasting: dict[str, int] = {}
    most: dict[str, int] = {}
    for each in pod.spec.init_containers:
        for name, count in _wanted(inventory, each).items():
            if is_sidecar(each):
                lasting[name] = lasting.get(name, 0) + count
            most[name] = max(most.get(name, 0), lasting.get(name, 0) + (0 if is_sidecar(each) else count))
    for each in pod.spec.containers:
        for name, count in _wanted(inventory, each).items():
            lasting[name] = lasting.get(name, 0) + count
    return {name: max(most.get(name, 0), lasting.get(name, 0)) for name in {*most, *lasting}}
