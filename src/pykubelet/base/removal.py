"""Taking away a folder that its users may have filled with anything: links out of it, read-only folders, or a thousand
folders inside each other."""

import os
import stat
from contextlib import suppress
from typing import Final

from pykubelet.base.errors import Retry

_DEEPEST: Final = 64  # each level keeps a file open
_MOST_ROUNDS: Final = 1000
_OPEN: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def sweep(path: str) -> None:
    """Remove a folder and all that is in it. Harmless when it is gone.

    Links are removed, never followed. Other file systems are not entered: Retry is raised. Raises OSError for what
    cannot be removed.
    """
    parent, name = os.path.split(path.rstrip("/"))
    try:
        parent_fd = os.open(parent or ".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        _remove(parent_fd, name, path)
    finally:
        os.close(parent_fd)


def _remove(parent_fd: int, name: str, path: str) -> None:
    try:
        top = _open_folder(parent_fd, name)
    except FileNotFoundError:
        return
    except NotADirectoryError:
        os.unlink(name, dir_fd=parent_fd)
        return
    try:
        _Sweep(top, path).run()
    finally:
        os.close(top)
    os.rmdir(name, dir_fd=parent_fd)


class _Sweep:
    """Empties one folder."""

    def __init__(self, top: int, path: str) -> None:
        self._top = top
        self._path = path
        self._device = os.fstat(top).st_dev
        self._moved = 0

    def run(self) -> None:
        for _ in range(_MOST_ROUNDS):
            before = self._moved
            self._empty(self._top, 0)
            if self._moved == before:
                return
        raise Retry(f"{self._path} cannot be removed: somebody makes folders in it all the time")

    def _empty(self, fd: int, depth: int) -> None:
        with os.scandir(fd) as entries:
            found = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
        for name, is_folder in found:
            if not is_folder:
                with suppress(FileNotFoundError):
                    os.unlink(name, dir_fd=fd)
            elif depth < _DEEPEST:
                self._remove_folder(fd, name, depth)
            else:
                self._lift(fd, name)

    def _remove_folder(self, parent: int, name: str, depth: int) -> None:
        try:
            fd = _open_folder(parent, name)
        except FileNotFoundError:
            return
        try:
            if os.fstat(fd).st_dev != self._device:
                raise Retry(f"{self._path} cannot be removed, for something is still mounted at {name} in it")
            self._empty(fd, depth + 1)
        finally:
            os.close(fd)
        os.rmdir(name, dir_fd=parent)

    def _lift(self, fd: int, name: str) -> None:
        """What lies too deep is brought to the top, and is found there in the next round."""
        self._moved += 1
        os.rename(name, f".deep-{os.getpid()}-{self._moved}", src_dir_fd=fd, dst_dir_fd=self._top)


def _open_folder(parent: int, name: str) -> int:
    """A folder that can be read and emptied: whoever made it may have forbidden that even to its owner."""
    try:
        fd = os.open(name, _OPEN, dir_fd=parent)
    except PermissionError:
        _allow(parent, name)
        return os.open(name, _OPEN, dir_fd=parent)
    if os.geteuid() != 0 and stat.S_IMODE(os.fstat(fd).st_mode) & 0o700 != 0o700:
        with suppress(PermissionError):
            os.fchmod(fd, 0o700)
    return fd


def _allow(parent: int, name: str) -> None:
    fd = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=parent)
    try:
        os.chmod(f"/proc/self/fd/{fd}", 0o700)
    finally:
        os.close(fd)
