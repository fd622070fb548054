"""A part of a volume, shown to a container as a whole.

The container's own processes can write into the volume, so they could replace any step of the way by a link to
somewhere else on this machine, at any moment. Therefore each step is opened without following links, and what was
opened is bound to a place that no container can reach; who may not mount leaves it to the runtime to open it so.
"""

import logging
import os
import stat
from contextlib import suppress
from typing import Final

from pykubelet.base.errors import Invalid
from pykubelet.host import mount
from pykubelet.pod.container.mounts import VolumePart

log = logging.getLogger(__name__)

_STEP: Final = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
_PRIVATE: Final = 0o750


def prepare_sub_path(volume_path: str, sub_path: str, target: str) -> VolumePart:
    """-> what to mount into the container.

    That is `target`, with the part of the volume bound to it, or, where mounting is not permitted, the way to it from
    the volume on. Missing folders are made, with the mode of the volume. May be called again. Raises Invalid when the
    way leads out of the volume, and OSError.
    """
    root = os.path.realpath(volume_path, strict=True)
    # Links that stay inside of the volume are fine: config maps are made of them.
    wanted = os.path.realpath(os.path.join(root, sub_path))
    if wanted != root and not wanted.startswith(root.rstrip("/") + "/"):
        raise Invalid(f"{sub_path} leads out of the volume")
    steps = () if wanted == root else tuple(os.path.relpath(wanted, root).split("/"))
    opened = _open(root, steps)
    try:
        return VolumePart(target) if _bound(opened, target) else VolumePart(root, sub_path)
    finally:
        os.close(opened)


def _open(root: str, steps: tuple[str, ...]) -> int:
    fd = os.open(root, _STEP)
    try:
        mode = stat.S_IMODE(os.fstat(fd).st_mode)
        for step in steps:
            fd = _swapped(fd, _step(fd, step, mode))
    except BaseException:
        os.close(fd)
        raise
    return fd


def _swapped(old: int, new: int) -> int:
    os.close(old)
    return new


def _step(parent: int, name: str, mode: int) -> int:
    try:
        fd = os.open(name, _STEP, dir_fd=parent)
    except FileNotFoundError:
        os.mkdir(name, mode, dir_fd=parent)
        fd = os.open(name, _STEP | os.O_DIRECTORY, dir_fd=parent)
        os.chmod(f"/proc/self/fd/{fd}", mode)  # whatever the umask says
    if stat.S_ISLNK(os.fstat(fd).st_mode):
        os.close(fd)
        raise Invalid(f"{name} was replaced by a link meanwhile")
    return fd


def _bound(fd: int, target: str) -> bool:
    found = os.fstat(fd)
    if mount.is_mount_point(target):
        with suppress(FileNotFoundError):
            there = os.stat(target)
            if (there.st_dev, there.st_ino) == (found.st_dev, found.st_ino):
                return True
        mount.unmount(target)
    _make_target(target, is_folder=stat.S_ISDIR(found.st_mode))
    try:
        mount.bind(f"/proc/self/fd/{fd}", target)
    except OSError as error:
        if not mount.is_forbidden(error):
            raise
        log.debug("cannot bind to %s: %s", target, error)
        _remove_target(target)
        return False
    return True


def _make_target(target: str, *, is_folder: bool) -> None:
    os.makedirs(os.path.dirname(target), _PRIVATE, exist_ok=True)
    if os.path.isdir(target) != is_folder or os.path.islink(target):
        _remove_target(target)
    if is_folder:
        os.makedirs(target, _PRIVATE, exist_ok=True)
    else:
        os.close(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o640))


def _remove_target(target: str) -> None:
    with suppress(FileNotFoundError):
        if os.path.isdir(target) and not os.path.islink(target):
            os.rmdir(target)
        else:
            os.unlink(target)
