"""Giving a whole volume to the group that a pod's containers run with."""

import errno
import os
import stat
from contextlib import suppress
from typing import Final

from pykubelet.api.pod import Pod
from pykubelet.host.threads import in_thread
from pykubelet.pod.container.projected_volumes import fs_group

_DEEPEST: Final = 256  # each level keeps a file open, and whoever uses the volume decides how many there are
_SHARED_FILE: Final = 0o660
_SHARED_FOLDER: Final = 0o2770
_OPEN: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


async def give_to_pod(path: str, pod: Pod) -> None:
    """The group of the pod's files, if it has one, as soon and as often as the pod says. Raises OSError."""
    group, context = fs_group(pod), pod.spec.security_context
    if group is not None:
        gently = context is not None and context.fs_group_change_policy == "OnRootMismatch"
        await in_thread(lambda: give_to_group(path, group, only_if_root_differs=gently))


def give_to_group(path: str, group: int, *, only_if_root_differs: bool = False) -> None:
    """Everything below belongs to the group, which may read and write it, and so does what is made there later. Links
    are not followed, and other file systems not entered. Raises OSError. Blocks."""
    top = os.open(path, _OPEN)
    try:
        found = os.fstat(top)
        if only_if_root_differs and _is_given(found, group):
            return
        _give_all(top, found.st_dev, group, 1)
        os.fchown(top, -1, group)  # last: whoever sees it given knows that all of it is
        os.fchmod(top, stat.S_IMODE(found.st_mode) | _SHARED_FOLDER)
    finally:
        os.close(top)


def _is_given(found: os.stat_result, group: int) -> bool:
    return found.st_gid == group and stat.S_IMODE(found.st_mode) & _SHARED_FOLDER == _SHARED_FOLDER


def _give_all(folder: int, device: int, group: int, depth: int) -> None:
    """What is in the folder that is open, the inner ones first."""
    if depth > _DEEPEST:
        raise OSError(errno.ELOOP, f"more than {_DEEPEST} folders lie inside each other: remove some of them")
    with os.scandir(folder) as entries:
        found = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
    for name, is_folder in found:
        with suppress(FileNotFoundError):  # others may use the volume at the same time
            if is_folder:
                inner = os.open(name, _OPEN, dir_fd=folder)
                try:
                    if os.fstat(inner).st_dev == device:
                        _give_all(inner, device, group, depth + 1)
                finally:
                    os.close(inner)
            _give(name, folder, group)


def _give(name: str, parent: int, group: int) -> None:
    found = os.stat(name, dir_fd=parent, follow_symlinks=False)
    if stat.S_ISLNK(found.st_mode):
        os.chown(name, -1, group, dir_fd=parent, follow_symlinks=False)
        return
    if not (stat.S_ISREG(found.st_mode) or stat.S_ISDIR(found.st_mode)):
        return
    flags = _OPEN if stat.S_ISDIR(found.st_mode) else os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    file = os.open(name, flags, dir_fd=parent)
    try:
        found = os.fstat(file)
        os.fchown(file, -1, group)
        more = _SHARED_FOLDER if stat.S_ISDIR(found.st_mode) else _SHARED_FILE
        os.fchmod(file, stat.S_IMODE(found.st_mode) | more)
    finally:
        os.close(file)
