"""emptyDir: a folder that lives as long as its pod, on disk, in memory or in huge pages."""

import logging
import os
import stat
import tempfile
from typing import Final

from pykubelet.api.pod import Pod
from pykubelet.api.quantity import Quantity
from pykubelet.api.rules.resources import MEMORY, container_limits
from pykubelet.api.volumes import EmptyDirVolumeSource, Volume
from pykubelet.base.errors import Invalid
from pykubelet.base.huge_pages import page_sizes
from pykubelet.host import mount
from pykubelet.host.dirs import PodDirs
from pykubelet.host.removal import remove_tree
from pykubelet.host.threads import in_thread
from pykubelet.pod.container.huge_page_volumes import is_huge_pages, shown_size, volume_page_size

log = logging.getLogger(__name__)

SHARED_MEMORY: Final = "/dev/shm"  # noqa: S108
_PREFIX: Final = "pykubelet-"
_ANYBODY: Final = 0o777
_GROUP_MAY_ALL: Final = stat.S_ISGID | 0o770
_PRIVATE: Final = 0o750
_READY: Final = "ready"


class EmptyDir:
    """`memory` is what the node has for pods, in bytes: no volume in memory is larger."""

    field = "empty_dir"
    plugin = "kubernetes.io/empty-dir"

    def __init__(self, dirs: PodDirs, memory: int, shared_memory: str = SHARED_MEMORY) -> None:
        self._dirs = dirs
        self._memory = memory
        self._shared_memory = shared_memory
        self._told = False

    async def set_up(self, pod: Pod, volume: Volume) -> str:
        source = volume.empty_dir or EmptyDirVolumeSource()
        if source.medium not in ("", "Memory") and not is_huge_pages(source.medium):
            raise Invalid(f'volume "{volume.name}": there is no storage medium "{source.medium}"')
        return await in_thread(self._set_up, pod, volume.name, source)

    async def tear_down(self, uid: str, name: str) -> None:
        await in_thread(self._tear_down, uid, name)

    def _set_up(self, pod: Pod, name: str, source: EmptyDirVolumeSource) -> str:
        uid = pod.metadata.uid
        path = self._dirs.volume(uid, self.plugin, name)
        notes = self._dirs.plugin(uid, self.plugin, name)
        if os.path.exists(os.path.join(notes, _READY)) and self._is_there(path, source.medium):
            return os.readlink(path) if os.path.islink(path) else path
        os.makedirs(os.path.dirname(path), _PRIVATE, exist_ok=True)
        place = path
        if source.medium == "Memory":
            place = self._in_memory(path, memory_size(pod, source, self._memory))
        elif source.medium:
            _mount_huge_pages(path, volume_page_size(pod, source.medium), source.size_limit)
        else:
            _make(path)
        _give_to_group(place, pod)
        os.makedirs(notes, _PRIVATE, exist_ok=True)
        os.close(os.open(os.path.join(notes, _READY), os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644))
        return place

    def _is_there(self, path: str, medium: str) -> bool:
        if os.path.islink(path):
            return self._is_ours(path)
        return mount.is_mount_point(path) if medium else os.path.isdir(path)

    def _in_memory(self, path: str, size: int) -> str:
        if os.path.islink(path) and not self._is_ours(path):
            os.unlink(path)  # shared memory does not outlive a restart of the machine, the link to it does
        if os.path.islink(path):
            return os.readlink(path)
        _make(path)
        if mount.is_mount_point(path):
            return path
        try:
            mount.mount_tmpfs(path, size=size)
        except OSError as error:
            if not mount.is_forbidden(error):
                raise
            return self._without_mounting(path)
        return path

    def _without_mounting(self, path: str) -> str:
        """An ordinary user may not mount, but may use the memory that everybody shares."""
        if not os.path.isdir(self._shared_memory):
            self._tell("on disk")
            return path
        self._tell(f"in {self._shared_memory}")
        # The outer folder keeps other users of this machine out; the inner one is the volume.
        place = os.path.join(tempfile.mkdtemp(prefix=_PREFIX, dir=self._shared_memory), "volume")
        _make(place)
        os.rmdir(path)
        os.symlink(place, path)
        return place

    def _tell(self, where: str) -> None:
        if not self._told:
            self._told = True
            log.warning("this user may not mount: emptyDir volumes of medium Memory are folders %s, not limited", where)

    def _is_ours(self, link: str) -> bool:
        """Whether a link in place of a volume leads to a folder that we made in shared memory, for nobody else."""
        folder, name = os.path.split(os.readlink(link))
        if os.path.dirname(folder) != self._shared_memory or name != "volume":
            return False
        try:
            found = os.lstat(folder)
        except FileNotFoundError:
            return False
        private = stat.S_ISDIR(found.st_mode) and stat.S_IMODE(found.st_mode) & 0o077 == 0
        return private and found.st_uid == os.geteuid() and os.path.basename(folder).startswith(_PREFIX)

    def _tear_down(self, uid: str, name: str) -> None:
        path = self._dirs.volume(uid, self.plugin, name)
        remove_tree(self._dirs.plugin(uid, self.plugin, name))
        if os.path.islink(path) and self._is_ours(path):
            remove_tree(os.path.dirname(os.readlink(path)))
        mount.unmount_below(path)
        remove_tree(path)


def _mount_huge_pages(path: str, page_size: int, limit: Quantity | None) -> None:
    sizes = page_sizes()
    if page_size not in sizes:
        there = ", ".join(map(shown_size, sizes)) or "none at all"
        raise Invalid(f"this machine has no huge pages of {shown_size(page_size)}: its kernel knows {there}")
    _make(path)
    if mount.is_mount_point(path):
        return
    try:
        mount.mount_huge_pages(path, page_size, size=limit.value if limit else 0)
    except OSError as error:
        if not mount.is_forbidden(error):
            raise
        raise Invalid(
            "an emptyDir of huge pages has to be mounted, which this user may not: run the agent as root"
        ) from None


def memory_size(pod: Pod, source: EmptyDirVolumeSource, allocatable: int) -> int:
    """The smallest of what the node has, what the pod may use and what the volume asks for; 0: not limited."""
    limits = (allocatable, _memory_limit(pod), source.size_limit.value if source.size_limit else 0)
    return min((limit for limit in limits if limit > 0), default=0)


def _memory_limit(pod: Pod) -> int:
    """What all containers together may use; 0 if any of them is not limited."""
    spec = pod.spec
    if spec.resources is not None and spec.resources.limits.get(MEMORY):
        limit = spec.resources.limits[MEMORY].value
    elif all(each.resources.limits.get(MEMORY) for each in (*spec.containers, *spec.init_containers)):
        limit = container_limits(spec)[MEMORY].value
    else:
        return 0
    return limit + (spec.overhead[MEMORY].value if MEMORY in spec.overhead else 0)


def _make(path: str) -> None:
    os.makedirs(path, _ANYBODY, exist_ok=True)
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        if stat.S_IMODE(os.fstat(fd).st_mode) != _ANYBODY and not mount.is_mount_point(path):
            os.fchmod(fd, _ANYBODY)  # whatever the umask says
    finally:
        os.close(fd)


def _give_to_group(path: str, pod: Pod) -> None:
    """The volume is still empty: its files will inherit the group from it."""
    context = pod.spec.security_context
    if context is None or context.fs_group is None:
        return
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        os.fchown(fd, -1, context.fs_group)
        os.fchmod(fd, stat.S_IMODE(os.fstat(fd).st_mode) | _GROUP_MAY_ALL)
    except PermissionError as error:
        log.warning("%s cannot be given to group %d: %s", path, context.fs_group, error.strerror)
    finally:
        os.close(fd)
