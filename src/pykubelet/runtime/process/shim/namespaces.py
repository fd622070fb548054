"""Joining a sandbox's namespaces, and making new ones that an ordinary user may make too."""

from __future__ import annotations

import os

from . import kernel
from .files import is_same

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .spec import Holder, Identity


def join_sandbox(holder: Holder) -> tuple[int, int]:
    """All but the pid namespace, which only children are in, and last of all. -> descriptors of that, and of its /proc;
    -1: there is none, or none yet

    The user namespace comes first: it gives the right to join the others."""
    identity = holder["identity"]
    kinds: list[str] = [kind for kind in ("user", "uts", "ipc", "pid") if kind in holder["namespaces"]]
    handles = open_all(identity, [*kinds, "mnt"])
    if not is_same(identity):
        raise ProcessLookupError("the sandbox's process is gone")
    mounts, pids = handles.pop("mnt"), handles.pop("pid", -1)
    for kind, handle in handles.items():
        kernel.setns(handle, kind)
        os.close(handle)
    proc = _proc_of(mounts, is_empty=True) if pids >= 0 and is_other(mounts, "mnt") else -1
    os.close(mounts)
    return pids, proc


def join_target(identity: Identity, handles: dict[str, int]) -> tuple[int, int]:
    """As `join_sandbox`, of a container among whose processes another one is to be."""
    if not is_same(identity):
        raise ProcessLookupError("the target container's program is gone")
    proc = _proc_of(handles["mnt"], is_empty=False)
    os.close(handles["mnt"])
    return handles["pid"], proc


def _proc_of(mounts: int, *, is_empty: bool) -> int:
    """What the sandbox's process has mounted in the empty root that is its own, or what a container has. Sandboxes of
    before had none."""
    kernel.unshare("mnt")
    ours = os.open("/proc/self/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)
    try:
        kernel.setns(mounts, "mnt")
        if (is_empty and os.listdir("/") != ["proc"]) or os.stat("/proc").st_dev == os.stat("/").st_dev:
            return -1
        place = os.open("/proc", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        proc = kernel.copy_mount(place, recursive=False)
        os.close(place)
        return proc
    except PermissionError:
        return -1
    finally:
        kernel.setns(ours, "mnt")
        os.close(ours)


def open_all(identity: Identity, kinds: list[str]) -> dict[str, int]:
    return {kind: os.open(f"/proc/{identity['pid']}/ns/{kind}", os.O_RDONLY | os.O_CLOEXEC) for kind in kinds}


def is_other(handle: int, kind: str) -> bool:
    """Whether a namespace is not the one that we are in already."""
    ours, theirs = os.stat(f"/proc/self/ns/{kind}"), os.fstat(handle)
    return (ours.st_dev, ours.st_ino) != (theirs.st_dev, theirs.st_ino)


def new_user_namespace(uid: int = 0, gid: int = 0, me: int = -1) -> None:
    """One in which our user is known as `uid`, and nobody else exists. `me`: our folder in /proc, if not in sight."""
    outer_uid, outer_gid = os.geteuid(), os.getegid()
    kernel.unshare("user")
    kernel.prctl(kernel.PR_SET_DUMPABLE, 1)  # else /proc/self belongs to a root that is not ours
    folder = os.open("/proc/self", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC) if me < 0 else me
    _put(folder, "setgroups", "deny")
    _put(folder, "uid_map", f"{uid} {outer_uid} 1")
    _put(folder, "gid_map", f"{gid} {outer_gid} 1")
    if me < 0:
        os.close(folder)


def _put(folder: int, name: str, text: str) -> None:
    descriptor = os.open(name, os.O_WRONLY | os.O_CLOEXEC, dir_fd=folder)
    try:
        os.write(descriptor, text.encode())
    finally:
        os.close(descriptor)
