"""Which limits on files a pod has, and whether it is above one of them.

No kernel holds a pod back here: what it has written is measured now and then, and a pod that has written too much is
ended. Messages are the Go kubelet's, down to the blank at their end.
"""

from collections.abc import Iterable, Mapping

from pykubelet.api.pod import Pod
from pykubelet.api.quantity import Quantity
from pykubelet.api.rules.resources import EPHEMERAL_STORAGE, container_limits
from pykubelet.pod.eviction.eviction import Eviction
from pykubelet.pod.stats.stats import Disk, NodeReading, PodReading


def size_limits(pod: Pod) -> dict[str, Quantity]:
    """Of the pod's emptyDirs, by their names. Zero is none."""
    volumes = ((each.name, each.empty_dir.size_limit) for each in pod.spec.volumes if each.empty_dir is not None)
    return {name: limit for name, limit in volumes if limit is not None and limit.sign > 0}


def storage_limits(pod: Pod) -> dict[str, Quantity]:
    """Of the pod's main containers, by their names. Zero is none."""
    limits = ((each.name, each.resources.limits.get(EPHEMERAL_STORAGE)) for each in pod.spec.containers)
    return {name: limit for name, limit in limits if limit is not None and limit.sign != 0}


def total_limit(pod: Pod) -> Quantity | None:
    """Of the pod as a whole; None when no container has one."""
    limit = container_limits(pod.spec).get(EPHEMERAL_STORAGE)
    overhead = pod.spec.overhead.get(EPHEMERAL_STORAGE)
    return limit + overhead if limit and overhead else limit


def is_limited(pod: Pod) -> bool:
    return total_limit(pod) is not None or bool(size_limits(pod))


def has_own_image_disk(node: NodeReading) -> bool:
    """Whether containers write to another disk than volumes and logs: then that is not counted as a container's use of
    the node's own."""
    return node.disk is not None and node.images is not None and node.disk.device != node.images.device


def storage_eviction(pod: Pod, used: PodReading, *, own_image_disk: bool) -> Eviction | None:
    """None while the pod is within its limits, as far as they have been measured."""
    for name, limit in size_limits(pod).items():
        if _is_above(limit, _used(each.disk for each in used.volumes if each.name == name)):
            return Eviction("emptydirfs.limit", f'Usage of EmptyDir volume "{name}" exceeds the limit "{limit}". ')
    total = total_limit(pod)
    if total is not None and _is_above(total, _used([used.ephemeral])):
        message = f"Pod ephemeral local storage usage exceeds the total limit of containers {total}. "
        return Eviction("ephemeralpodfs.limit", message)
    return _container_eviction(storage_limits(pod), used, own_image_disk)


def _container_eviction(limits: Mapping[str, Quantity], used: PodReading, own_image_disk: bool) -> Eviction | None:
    for each in used.containers:
        limit = limits.get(each.name)
        written = _used([each.logs] if own_image_disk else [each.logs, each.root])
        if limit is not None and _is_above(limit, written):
            message = f'Container {each.name} exceeded its local ephemeral storage limit "{limit}". '
            return Eviction("ephemeralcontainerfs.limit", message)
    return None


def _used(disks: Iterable[Disk | None]) -> int:
    """What has not been measured counts as nothing: nobody is ended on a guess."""
    return sum(each.used or 0 for each in disks if each is not None)


def _is_above(limit: Quantity, used: int) -> bool:
    return Quantity.of(used) > limit
