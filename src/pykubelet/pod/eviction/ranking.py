"""Who goes first when a node runs short: whoever uses more than was asked for, then the less important, then whoever
is furthest above. Order and messages are the Go kubelet's."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, Literal

from pykubelet.api.pod import Pod
from pykubelet.api.quantity import Quantity
from pykubelet.api.rules.resources import (
    EPHEMERAL_STORAGE,
    MEMORY,
    container_requests,
    is_pod_level_resource,
    pod_level_requests,
)
from pykubelet.api.volumes import Volume
from pykubelet.pod.eviction.thresholds import INODES, PID_AVAILABLE, SIGNALS
from pykubelet.pod.stats.stats import ContainerReading, Disk, PodReading

Part = Literal["root", "logs", "volumes"]
_ALL: Final[tuple[Part, ...]] = ("root", "logs", "volumes")

Readings = Mapping[str, PodReading]
"""By uid."""
_Key = tuple[int, int, int, int]


def ranked(signal: str, pods: Iterable[Pod], used: Readings, *, own_image_disk: bool) -> list[Pod]:
    """Those first that have to go first. A pod of which nothing is known goes before those that are known."""
    return sorted(pods, key=_key_of(signal, used, own_image_disk))


def _key_of(signal: str, used: Readings, own_image_disk: bool) -> Callable[[Pod], _Key]:
    resource = SIGNALS[signal][0]
    if signal == PID_AVAILABLE:
        return lambda pod: _by_processes(pod, used.get(pod.metadata.uid))
    if resource == MEMORY:
        return lambda pod: _by_excess(pod, used.get(pod.metadata.uid), MEMORY, MEMORY, _memory)
    parts = _ALL
    if own_image_disk:
        parts = ("logs", "volumes") if signal.startswith("nodefs.") else ("root",)

    def disk(pod: Pod, reading: PodReading) -> int:
        return _on_disk(pod, reading, parts, resource)

    # What was asked for in bytes is taken off inodes, too, when two are compared: it is upstream's order.
    return lambda pod: _by_excess(pod, used.get(pod.metadata.uid), resource, EPHEMERAL_STORAGE, disk)


def _by_processes(pod: Pod, reading: PodReading | None) -> _Key:
    return (pod.spec.priority or 0, 0, 0, 0) if reading is None else (pod.spec.priority or 0, 1, -_tasks(reading), 0)


def _by_excess(
    pod: Pod, reading: PodReading | None, asked: str, taken_off: str, usage: Callable[[Pod, PodReading], int]
) -> _Key:
    priority = pod.spec.priority or 0
    if reading is None:
        return (0, priority, 0, 0)
    amount = usage(pod, reading)
    is_above = Quantity.of(amount) > request_of(pod, asked)
    return (1 if is_above else 2, priority, 1, request_of(pod, taken_off).nanos - Quantity.of(amount).nanos)


def request_of(pod: Pod, resource: str) -> Quantity:
    """What the pod has asked for. Overhead comes on top of a request, never alone."""
    spec, own = pod.spec, pod.spec.resources
    is_pod_level = own is not None and any(map(is_pod_level_resource, (*own.requests, *own.limits)))
    asked = {**({} if is_pod_level else container_requests(spec)), **pod_level_requests(spec)}
    request, overhead = asked.get(resource, Quantity(0)), spec.overhead.get(resource)
    return request + overhead if request and overhead else request


def _memory(_: Pod, reading: PodReading) -> int:
    return reading.usage.memory.working_set if reading.usage.memory is not None else 0


def _tasks(reading: PodReading) -> int:
    """A thread takes a number as a process does. Where nobody counts them, processes are counted, as upstream does."""
    if reading.usage.threads is not None:
        return reading.usage.threads
    usages = [each.usage for each in reading.containers]
    return sum(each.threads if each.threads is not None else each.processes or 0 for each in usages)


def _on_disk(pod: Pod, reading: PodReading, parts: Sequence[Part], resource: str) -> int:
    disks: list[Disk | None] = []
    if "root" in parts:
        disks += [disk for each in reading.containers for disk in (each.root, each.unlinked.get("root"))]
    if "logs" in parts:
        disks += [each.logs for each in reading.containers]
    if "volumes" in parts:
        local = {each.name for each in pod.spec.volumes if _is_local(each)}
        disks += [each.disk for each in reading.volumes if each.name in local]
        disks += [each.unlinked.get("volumes") for each in reading.containers]
    known = [each for each in disks if each is not None]
    return sum((each.inodes_used if resource == INODES else each.used) or 0 for each in known)


def _is_local(volume: Volume) -> bool:
    in_node = volume.empty_dir is not None and volume.empty_dir.medium == ""
    return in_node or volume.host_path is not None or volume.config_map is not None


def eviction_message(
    resource: str,
    pod: Pod,
    reading: PodReading | None,
    least: Quantity | None = None,
    available: Quantity | None = None,
) -> tuple[str, dict[str, str]]:
    """What is said of a pod that goes, and what programs may read beside it."""
    message = f"The node was low on resource: {resource}. "
    if least is not None and available is not None:
        message += f"Threshold quantity: {least}, available: {available}. "
    if reading is None:
        return message, {}
    annotations = {}
    spec, usage = pod.spec, reading.usage.memory
    asked = spec.resources.requests.get(resource) if spec.resources is not None else None
    if resource == MEMORY and asked is not None and usage is not None:
        using, name = Quantity.of(usage.working_set, "BinarySI"), pod.metadata.name
        message += f"Pod {name} was using {using}, request is {asked}, has larger consumption of {resource}. "
        annotations = {"offending_pod": name, "offending_pod_usage": str(using)}
    above: dict[str, Quantity] = {}
    specs = {each.name: each for each in (*spec.init_containers, *spec.containers)}
    for each in reading.containers:
        used, container = _used_by(each, resource), specs.get(each.name)
        request = container.resources.requests.get(resource, Quantity(0)) if container is not None else None
        if used is not None and request is not None and used > request:
            message += (
                f"Container {each.name} was using {used}, request is {request}, has larger consumption of {resource}. "
            )
            above[each.name] = used
    return message, {
        **annotations,
        "offending_containers": ",".join(above),
        "offending_containers_usage": ",".join(map(str, above.values())),
        "starved_resource": resource,
    }


def _used_by(container: ContainerReading, resource: str) -> Quantity | None:
    """None: it cannot be said."""
    if resource == MEMORY and container.usage.memory is not None:
        return Quantity.of(container.usage.memory.working_set, "BinarySI")
    root, logs = container.root, container.logs
    if resource != EPHEMERAL_STORAGE or root is None or logs is None or root.used is None or logs.used is None:
        return None
    return Quantity.of(root.used + logs.used, "BinarySI")
