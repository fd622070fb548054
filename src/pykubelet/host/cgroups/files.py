"""Groups as folders: made in every tree, filled in, emptied of processes, removed. All of it blocks.

Files are opened without creating them: where the kernel has no such file, this has to be noticed.
"""

import errno
import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from typing import Final

from pykubelet.base.errors import Retry
from pykubelet.host.cgroups.hierarchy import NEEDED_UNIFIED, Hierarchy
from pykubelet.host.cgroups.values import Value, legacy_values, unified_values
from pykubelet.pod.container.cgroup import GroupLimits

_INHERITED: Final = ("cpuset.cpus", "cpuset.mems")
_BUSY: Final = (errno.EBUSY, errno.ENOTEMPTY)
_WANTED: Final = ("cpu", "cpuset", "memory", "hugetlb", "pids")
_COUNTED: Final = frozenset((*_WANTED, "cpuacct"))


class GroupFiles:
    """The groups of one machine, by their paths below the mount points."""

    def __init__(self, hierarchy: Hierarchy) -> None:
        self._hierarchy = hierarchy

    def exist(self, path: str) -> bool:
        """Where it matters: systemd takes away what it has no use for, and runtimes make what they need themselves."""
        mounts = self._hierarchy.mounts.items()
        return all(os.path.isdir(mount.rstrip("/") + path) for mount, has in mounts if not has.isdisjoint(_COUNTED))

    def exist_anywhere(self, path: str) -> bool:
        return any(map(os.path.isdir, self._hierarchy.folders(path)))

    def make(self, path: str) -> None:
        """With those above it. Raises OSError."""
        words = path.strip("/").split("/")
        for mount, controllers in self._hierarchy.mounts.items():
            folder = mount.rstrip("/")
            for word in words:
                above, folder = folder, f"{folder}/{word}"
                if self._hierarchy.unified:
                    self._hand_down(above)
                with suppress(FileExistsError):
                    os.mkdir(folder, 0o755)
                if not self._hierarchy.unified:
                    _inherit(above, folder, controllers)

    def limit(self, path: str, limits: GroupLimits) -> None:
        """Raises Retry."""
        wanted = unified_values if self._hierarchy.unified else legacy_values
        later: list[Value] = []
        for value in wanted(limits, self._hierarchy.page_sizes):
            # A period may not fit the quota of before, and does fit the new one.
            if not self._put(path, value, may_wait=value.file == "cpu.cfs_period_us"):
                later.append(value)
        for value in later:
            self._put(path, value)

    def entries(self, path: str) -> set[str]:
        """The names of the groups in a group, in any of the trees."""
        names: set[str] = set()
        for folder in self._hierarchy.folders(path):
            with suppress(FileNotFoundError), os.scandir(folder) as entries:
                names.update(entry.name for entry in entries if entry.is_dir(follow_symlinks=False))
        return names

    def is_lived_in(self, path: str) -> bool:
        """Whether there is any process in a group or below it."""
        for top in self._hierarchy.folders(path):
            for folder in _below(top):
                with suppress(OSError):
                    if _read(f"{folder}/cgroup.procs").strip():
                        return True
        return False

    def kill(self, path: str) -> None:
        """Everything in a group and below it. Nothing in it can multiply meanwhile."""
        for folder in self._hierarchy.folders(path):
            with suppress(OSError):
                _write(f"{folder}/pids.max", "0")
            for each in _below(folder):
                _kill(each)

    def remove(self, path: str) -> str:
        """The deepest groups first. -> what is still in use; empty when all is gone. Raises OSError for what does not
        get better by waiting."""
        left = ""
        for top in self._hierarchy.folders(path):
            for folder in _below(top):
                try:
                    os.rmdir(folder)
                except FileNotFoundError:
                    continue
                except OSError as error:
                    if error.errno not in _BUSY:
                        raise
                    left = left or folder
        return left

    def _put(self, path: str, value: Value, *, may_wait: bool = False) -> bool:
        mount = self._hierarchy.mount_of(value.controller)
        if not mount:
            return True  # said at the start, where it matters
        file = f"{mount.rstrip('/')}{path}/{value.file}"
        try:
            _write(file, value.text)
        except OSError as error:
            if may_wait and error.errno == errno.EINVAL:
                return False
            if value.optional and error.errno == errno.ENOENT:
                return True
            raise Retry(f"{file} cannot be set to {value.text}: {_reason(error)}") from error
        return True

    def _hand_down(self, folder: str) -> None:
        """The groups in a folder have the controllers that it hands down to them."""
        with open(f"{folder}/cgroup.subtree_control", encoding="ascii") as file:
            handed = file.read().split()
        for controller in _WANTED:
            if self._hierarchy.mount_of(controller) and controller not in handed:
                try:
                    _write(f"{folder}/cgroup.subtree_control", f"+{controller}")
                except OSError:
                    if controller in NEEDED_UNIFIED:
                        raise


def _reason(error: OSError) -> str:
    if error.errno == errno.EBUSY:
        return "more than that is in use"
    return error.strerror or str(error)


def _inherit(above: str, folder: str, controllers: frozenset[str]) -> None:
    """A group without processors or memory nodes takes in nobody; a new one has none. And what a group of memory
    holds has to count for those above it, too, which old kernels do only when asked."""
    if "cpuset" in controllers:
        for name in _INHERITED:
            if not _read(f"{folder}/{name}").strip("\n\0"):
                _write(f"{folder}/{name}", _read(f"{above}/{name}").strip())
    if "memory" in controllers:
        with suppress(OSError):  # it has children already, or the kernel always counts so
            if _read(f"{folder}/memory.use_hierarchy").strip() == "0":
                _write(f"{folder}/memory.use_hierarchy", "1")


def _below(top: str) -> Iterator[str]:
    """A folder and all in it, the deepest first."""
    for folder, _, _ in os.walk(top, topdown=False):
        yield folder


def _kill(folder: str) -> None:
    """All but ourselves."""
    pids: list[str] = []
    with suppress(OSError):
        pids = _read(f"{folder}/cgroup.procs").split()
    if str(os.getpid()) not in pids:
        with suppress(OSError):
            _write(f"{folder}/cgroup.kill", "1")  # at once, where the kernel can
            return
    with suppress(OSError):
        _write(f"{folder}/freezer.state", "THAWED")  # the frozen do not even die
    for pid in map(int, pids):
        if pid not in (0, os.getpid()):  # 0: somebody whom we cannot see
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def _read(path: str) -> str:
    with open(path, encoding="ascii", errors="replace") as file:
        return file.read()


def _write(path: str, text: str) -> None:
    """In one piece, as the kernel wants it."""
    fd = os.open(path, os.O_WRONLY | os.O_TRUNC | os.O_CLOEXEC)
    try:
        os.write(fd, text.encode())
    except OSError as error:
        raise OSError(error.errno, error.strerror, path) from error
    finally:
        os.close(fd)
