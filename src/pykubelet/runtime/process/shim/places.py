"""The folders that every container has of its own: /proc, /sys, /dev. And how anything is mounted in its root.

All but `renew_proc` runs when the new root is in place and the old one not yet gone; the working folder is the old
root's /proc/self/fd, so that a source is named by the number of its descriptor.
"""

from __future__ import annotations

import os
import stat

from . import kernel
from .kernel import MS_BIND, MS_NODEV, MS_NOEXEC, MS_NOSUID, MS_PRIVATE, MS_RDONLY, MS_REC, MS_SLAVE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .spec import RootSpec

_SAFE = MS_NOSUID | MS_NODEV | MS_NOEXEC
_DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
_LINKS = (
    ("/proc/self/fd", "/dev/fd"),
    ("/proc/self/fd/0", "/dev/stdin"),
    ("/proc/self/fd/1", "/dev/stdout"),
    ("/proc/self/fd/2", "/dev/stderr"),
    ("pts/ptmx", "/dev/ptmx"),
)
_SHARED_MEMORY = "/dev/shm"  # noqa: S108 - the kernel's place for it
_MASKED = ("acpi", "asound", "kcore", "keys", "latency_stats", "sched_debug", "scsi", "timer_list", "timer_stats")
_FIXED = ("bus", "fs", "irq", "sys", "sysrq-trigger")


def point(path: str, *, folder: bool) -> str:
    """Something to mount on. -> its path, without links: /etc/resolv.conf often is one, to what is not there."""
    path = os.path.realpath(path)
    if folder:
        os.makedirs(path, 0o755, exist_ok=True)
    elif not os.path.exists(path):
        os.makedirs(os.path.dirname(path), 0o755, exist_ok=True)
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644))
    return path


def is_folder(source: int) -> bool:
    return stat.S_ISDIR(os.fstat(source).st_mode)


def bind(source: int, target: str, *, follow: bool = False) -> None:
    kernel.mount(str(source), target, flags=MS_BIND | MS_REC)
    kernel.mount("none", target, flags=MS_REC | (MS_SLAVE if follow else MS_PRIVATE))


def hide(path: str) -> None:
    """The agent's own folders hold other pods' secrets. What cannot be reached need not be hidden."""
    try:
        if os.path.isdir(path):
            kernel.mount("tmpfs", path, "tmpfs", _SAFE | MS_RDONLY, "mode=555,size=4k")
    except PermissionError:
        return


def make_proc(machine: int) -> None:
    """This machine's for now: where another one is visible, the kernel lets ordinary users mount theirs."""
    point("/proc", folder=True)
    bind(machine, "/proc")


def renew_proc(proc: int, *, masks: bool, null: int) -> None:
    """The one of a pid namespace in its place: our own's, if there is none yet."""
    fresh = proc if proc >= 0 else kernel.new_mount("proc", _SAFE)
    kernel.unmount("/proc")
    kernel.attach(fresh, "/proc")
    os.close(fresh)
    if masks:
        for name in _MASKED:
            _mask(f"/proc/{name}", null)
        for name in _FIXED:
            _fix(f"/proc/{name}")


def make_sys(machine: int, *, read_only: bool, masks: bool) -> None:
    point("/sys", folder=True)
    bind(machine, "/sys")
    if read_only:
        kernel.make_read_only("/sys", recursive=True)
    if masks:
        hide("/sys/firmware")


def make_device_folder(sources: dict[str, int], spec: RootSpec) -> None:
    point("/dev", folder=True)
    machine = sources["/dev"]
    if spec["privileged"]:
        bind(machine, "/dev")
        return
    kernel.mount("tmpfs", "/dev", "tmpfs", MS_NOSUID | MS_NOEXEC, "mode=755,size=64k")
    for name in _DEVICES:
        device = os.open(name, os.O_PATH | os.O_CLOEXEC, dir_fd=machine)
        bind(device, point(f"/dev/{name}", folder=False))
        os.close(device)
    for target, path in _LINKS:
        os.symlink(target, path)
    os.mkdir("/dev/pts", 0o755)
    owner = "" if spec["in_user_namespace"] else ",gid=5"
    kernel.mount("devpts", "/dev/pts", "devpts", MS_NOSUID | MS_NOEXEC, f"newinstance,ptmxmode=0666,mode=620{owner}")
    os.mkdir(_SHARED_MEMORY, 0o1777)
    if spec["shm"]:
        bind(sources[spec["shm"]], _SHARED_MEMORY)


def _mask(path: str, null: int) -> None:
    if os.path.isdir(path):
        hide(path)
    elif os.path.exists(path):
        copy = kernel.copy_mount(null, recursive=False)
        kernel.attach(copy, path)
        os.close(copy)


def _fix(path: str) -> None:
    if os.path.exists(path):
        kernel.mount(path, path, flags=MS_BIND | MS_REC)
        kernel.make_read_only(path, recursive=True)
