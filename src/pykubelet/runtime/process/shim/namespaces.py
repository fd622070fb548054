"""Joining a sandbox's namespaces, and making new ones that an ordinary user may make too."""

from __future__ import annotations

import os

from . import kernel
from .files import is_same

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .spec import Holder, Identity


def join_sandbox(holder: Holder) -> int:
    """All but the pid namespace, which only children are in, and last of all. -> a descriptor of that; -1: none

    The user namespace comes first: it gives the right to join the others."""
    identity = holder["identity"]
    kinds: list[str] = [kind for kind in ("user", "uts", "ipc", "pid") if kind in holder["namespaces"]]
    handles = open_all(identity, kinds)
    if not is_same(identity):
        raise ProcessLookupError("the sandbox's process is gone")
    pids = handles.pop("pid", -1)
    for kind, handle in handles.items():
        kernel.setns(handle, kind)
        os.close(handle)
    return pids


def open_all(identity: Identity, kinds: list[str]) -> dict[str, int]:
    return {kind: os.open(f"/proc/{identity['pid']}/ns/{kind}", os.O_RDONLY | os.O_CLOEXEC) for kind in kinds}


def is_other(handle: int, kind: str) -> bool:
    """Whether a namespace is not the one that we are in already."""
    ours, theirs = os.stat(f"/proc/self/ns/{kind}"), os.fstat(handle)
    return (ours.st_dev, ours.st_ino) != (theirs.st_dev, theirs.st_ino)


def new_user_namespace(uid: int = 0, gid: int = 0) -> None:
    """One in which our user is known as `uid`, and nobody else exists."""
    outer_uid, outer_gid = os.geteuid(), os.getegid()
    kernel.unshare("user")
    kernel.prctl(kernel.PR_SET_DUMPABLE, 1)  # else /proc/self belongs to a root that is not ours
    _put("/proc/self/setgroups", "deny")
    _put("/proc/self/uid_map", f"{uid} {outer_uid} 1")
    _put("/proc/self/gid_map", f"{gid} {outer_gid} 1")


def _put(path: str, text: str) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(descriptor, text.encode())
    finally:
        os.close(descriptor)
