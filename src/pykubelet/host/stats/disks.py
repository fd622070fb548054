"""How full the node's disks are, and what else the machine has left: what it takes to see that it runs short."""

import os

from pykubelet.api.struct import changed
from pykubelet.host.stats import node
from pykubelet.host.stats.cgroups import GroupReader, Hierarchy
from pykubelet.host.stats.storage import file_system
from pykubelet.pod.stats.stats import Disk, GroupReading, ImageStore, NodeReading


class DiskReader:
    """`root` is where pods write to."""

    def __init__(self, root: str, groups: GroupReader) -> None:
        self._root = root
        self._groups = groups

    def read(self, images: ImageStore | None, at: int) -> tuple[Disk | None, Disk | None]:
        """The node's own, and that with the images: where the runtime does not say, these are where all else is."""
        disk = self._disk(_existing(self._root), at)
        found = self._disk(images.path, at) if images else None
        if images is None or found is None:
            return disk, disk
        return disk, changed(
            found,
            used=found.used if images.used is None else images.used,
            inodes_used=found.inodes_used if images.inodes_used is None else images.inodes_used,
        )

    def _disk(self, path: str, at: int) -> Disk | None:
        try:
            number = os.stat(path).st_dev
        except OSError:
            return None
        return file_system(path, at, self._groups.device(f"{os.major(number)}:{os.minor(number)}"))


class PressureReader:
    """Looks at the machine alone, and waits for nobody but its disks."""

    def __init__(self, root: str, pods_group: str, proc: str, sys: str) -> None:
        self._pods_group = pods_group
        self._groups = GroupReader(proc, sys)
        self._hierarchy = Hierarchy.found(proc)
        self._disks = DiskReader(root, self._groups)

    def machine(self, at: int) -> NodeReading:
        """What the kernel itself says: this never waits for a disk."""
        group, proc = self._pods_group, self._groups.proc
        pods = self._groups.usage(self._hierarchy.everywhere(group), at, details=False) if group else None
        return NodeReading(
            usage=node.node_usage(self._groups, self._hierarchy.everywhere("/"), at, details=False),
            max_pid=node.max_pid(proc),
            tasks=node.tasks(proc),
            system={"pods": GroupReading(group=group, usage=pods)} if pods is not None else {},
        )

    def disks(self, images: ImageStore | None, at: int) -> tuple[Disk | None, Disk | None]:
        return self._disks.read(images, at)


def _existing(path: str) -> str:
    while len(path) > 1 and not os.path.exists(path):
        path = os.path.dirname(path)
    return path
