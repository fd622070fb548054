"""The folders that every container has of its own: /proc, /sys, /dev. And how anything is mounted in its root.

Volumes and images hold what others have put there, and who shares a volume can change it at any moment. So a place in
the root is opened once, without a way out of it, and what is mounted there is put on what was opened.
"""

from __future__ import annotations

import errno
import os
import stat

from . import kernel
from .kernel import MS_NODEV, MS_NOEXEC, MS_NOSUID, MS_PRIVATE, MS_RDONLY, MS_SLAVE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from .spec import RootSpec

_PATH = os.O_PATH | os.O_CLOEXEC
_OWN_FOLDER = _PATH | os.O_DIRECTORY | os.O_NOFOLLOW
SAFE = MS_NOSUID | MS_NODEV | MS_NOEXEC
_TRIES = 64
DEVICES = tuple(f"/dev/{name}" for name in ("null", "zero", "full", "random", "urandom", "tty"))
_LINKS = (
    ("/proc/self/fd", "fd"),
    ("/proc/self/fd/0", "stdin"),
    ("/proc/self/fd/1", "stdout"),
    ("/proc/self/fd/2", "stderr"),
    ("pts/ptmx", "ptmx"),
)
_MACHINES_MEMORY = "/dev/shm"  # noqa: S108 - who shares it sees all there but the other pods' and the runtime's own
_MASKED = ("acpi", "asound", "kcore", "keys", "latency_stats", "sched_debug", "scsi", "timer_list", "timer_stats")
_MASKED_SYS = ("firmware", "devices/virtual/powercap")
_FIXED = ("bus", "fs", "irq", "sys", "sysrq-trigger")


def point(root: int, path: str, *, folder: bool) -> int:
    """Something to mount on, opened; what is missing is made. Often a link is in the way, to what is not there."""
    for _ in range(_TRIES):
        try:
            return kernel.open_inside(root, path, os.O_PATH)
        except FileNotFoundError:
            path = _made(root, path, folder=folder)
    raise OSError(errno.ELOOP, f"cannot mount at {path}: what is there changes all the time")


def _made(root: int, path: str, *, folder: bool) -> str:
    """One step more of the way is there. -> the way, which is another one when that step was a link"""
    steps = [step for step in path.split("/") if step]
    count, parent = len(steps), -1
    while parent < 0:
        count -= 1
        try:
            parent = kernel.open_inside(root, "/".join(steps[:count]) or ".", os.O_PATH | os.O_DIRECTORY)
        except FileNotFoundError:
            continue
    name, rest = steps[count], steps[count + 1 :]
    try:
        if rest or folder:
            os.mkdir(name, 0o755, dir_fd=parent)
        else:
            os.close(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644, dir_fd=parent))
    except FileExistsError:
        try:
            target = os.readlink(name, dir_fd=parent)
        except OSError:  # somebody was faster
            return path
        return "/".join([*([] if target.startswith("/") else steps[:count]), target, *rest])
    finally:
        os.close(parent)
    return path


def own_folder(root: int, name: str) -> int:
    """One at the top, where no link is followed: /proc may not be elsewhere."""
    try:
        os.mkdir(name, 0o755, dir_fd=root)
    except OSError as error:  # it is there, or the root is for reading only: then opening it tells
        if error.errno not in (errno.EEXIST, errno.EROFS):
            raise
    return os.open(name, _OWN_FOLDER, dir_fd=root)


def is_folder(source: int) -> bool:
    return stat.S_ISDIR(os.fstat(source).st_mode)


def copy(source: int, forbidden: int = 0, *, follow: bool = False, recursive: bool = True) -> int:
    """What is somewhere already, to be put somewhere else too."""
    mounted = kernel.copy_mount(source, recursive=recursive)
    kernel.restrict(mounted, forbidden, recursive=True, propagation=MS_SLAVE if follow else MS_PRIVATE)
    return mounted


def put(mounted: int, target: int) -> None:
    """Where it belongs; both descriptors are used up."""
    try:
        kernel.attach(mounted, target)
    finally:
        os.close(mounted)
        os.close(target)


def renew_proc(root: int, proc: int) -> None:
    """The one of a pid namespace in place of this machine's: our own's, if there is none yet. Where the machine's is
    visible, the kernel lets ordinary users mount theirs."""
    fresh = proc if proc >= 0 else kernel.new_mount("proc", SAFE)
    kernel.unmount("/proc")
    put(fresh, own_folder(root, "proc"))


def guard_proc(root: int, null: int) -> None:
    """Whoever is root in there is not to read or change what is the whole machine's."""
    proc = own_folder(root, "proc")
    _cover(proc, _MASKED, null)
    for name in _FIXED:
        target = _known(proc, name)
        if target >= 0:
            put(copy(target, MS_RDONLY), target)
    os.close(proc)


def make_sys(root: int, machine: int, groups: int, null: int) -> None:
    """Control groups are mounted below it. Where that is a mount by itself, all others are left out: tracing and the
    like are nobody's business in there."""
    mounted = os.dup(machine)
    put(machine, own_folder(root, "sys"))
    if groups >= 0:
        put(groups, _known(mounted, "fs/cgroup"))
        _cover(mounted, _MASKED_SYS, null)
    os.close(mounted)


def make_device_folder(root: int, machine: dict[str, int], spec: RootSpec) -> None:
    if spec["privileged"]:
        put(machine["/dev"], own_folder(root, "dev"))
        return
    made = kernel.new_mount("tmpfs", SAFE, mode="755", size="64k")  # its nodes are mounts, so it need not have any
    put(os.dup(made), own_folder(root, "dev"))
    for path in DEVICES:
        name = os.path.basename(path)
        os.close(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666, dir_fd=made))
        put(machine[path], _known(made, name))
    for link, name in _LINKS:
        os.symlink(link, name, dir_fd=made)
    owner = {} if spec["in_user_namespace"] else {"gid": "5"}
    os.mkdir("pts", 0o755, dir_fd=made)
    terminals = kernel.new_mount("devpts", MS_NOSUID | MS_NOEXEC, ptmxmode="0666", mode="620", **owner)
    put(terminals, _known(made, "pts"))
    os.mkdir("shm", 0o1777, dir_fd=made)
    if spec["shm"]:
        shared = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=machine[spec["shm"]])
        put(machine[spec["shm"]], _known(made, "shm"))
        if spec["shm"] == _MACHINES_MEMORY:
            null = _known(made, "null")
            _cover(shared, [name for name in os.listdir(shared) if name.startswith("pykubelet-")], null)
            os.close(null)
        os.close(shared)
    os.close(made)


def _cover(folder: int, names: Iterable[str], null: int) -> None:
    """Nothing is to be seen of them."""
    for name in names:
        target = _known(folder, name)
        if target >= 0 and is_folder(target):
            put(kernel.new_mount("tmpfs", SAFE | MS_RDONLY, mode="555", size="4k"), target)
        elif target >= 0:
            put(copy(null), target)


def _known(folder: int, name: str) -> int:
    """Something in a folder that is the kernel's or ours; -1: it is not there."""
    try:
        return os.open(name, _PATH | os.O_NOFOLLOW, dir_fd=folder)
    except FileNotFoundError:
        return -1
