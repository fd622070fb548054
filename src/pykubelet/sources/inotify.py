"""Word from the kernel that something in a folder changed.

A little ctypes instead of a library: the ones there are use threads, or take 60 ms where this takes less than one.
"""

import asyncio
import ctypes
import errno
import os
import struct
from collections.abc import Callable
from typing import Final

_CLOSE_WRITE: Final = 0x00000008
_ATTRIB: Final = 0x00000004
_MOVED_FROM: Final = 0x00000040
_MOVED_TO: Final = 0x00000080
_CREATE: Final = 0x00000100
_DELETE: Final = 0x00000200
_DELETE_SELF: Final = 0x00000400
_MOVE_SELF: Final = 0x00000800
_OVERFLOW: Final = 0x00004000
_IGNORED: Final = 0x00008000
_ONLYDIR: Final = 0x01000000
_WATCHED: Final = (
    _CLOSE_WRITE | _ATTRIB | _MOVED_FROM | _MOVED_TO | _CREATE | _DELETE | _DELETE_SELF | _MOVE_SELF | _ONLYDIR
)
_LOST: Final = _DELETE_SELF | _MOVE_SELF | _IGNORED
_HEADER: Final = struct.Struct("iIII")

_libc = ctypes.CDLL(None, use_errno=True)


class FolderWatch:
    """Calls `on_change` soon after anything in a folder was written, moved or deleted, until it is closed.

    A file that is just being created is not reported before its writer closes it, so that nobody reads half of it.
    When the folder itself goes away, `lost` becomes true and a new watch has to be made.
    """

    def __init__(self, folder: str, on_change: Callable[[], None]) -> None:
        """Raises OSError when the folder cannot be watched."""
        self.folder = folder
        self.lost = False
        self._on_change = on_change
        self._removed: set[str] = set()
        self._moved: dict[int, str] = {}
        """By cookie: the old name of what was moved, until it is known where to."""
        self._identity = _identity(folder)
        self._fd = _checked(_libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC))
        try:
            _checked(_libc.inotify_add_watch(self._fd, os.fsencode(folder), _WATCHED))
        except OSError:
            os.close(self._fd)
            raise
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._fd, self._read)

    def covers(self, folder: str) -> bool:
        """Whether what is at that path now is what is watched: folders are moved, and links to them are turned."""
        return not self.lost and self.folder == folder and self._identity == _identity(folder)

    def removed(self) -> frozenset[str]:
        """The names of what was deleted or moved out since this was last asked, also of what is back by now.

        What was moved aside within the folder, as some editors do it before they write, was not removed.
        """
        removed = frozenset(self._removed)
        self._removed.clear()
        self._moved.clear()
        return removed

    def close(self) -> None:
        if self._fd >= 0:
            self._loop.remove_reader(self._fd)
            os.close(self._fd)
            self._fd = -1

    def _read(self) -> None:
        try:
            data = os.read(self._fd, 1 << 16)
        except BlockingIOError:
            return
        changed = False
        offset = 0
        while offset < len(data):
            _, mask, cookie, length = _HEADER.unpack_from(data, offset)
            offset += _HEADER.size
            name = os.fsdecode(data[offset : offset + length].rstrip(b"\0"))
            offset += length
            self.lost = self.lost or bool(mask & _LOST)
            self._note_removal(mask, cookie, name)
            changed = changed or bool(mask & ~_CREATE) or self._is_complete(name)
        if changed:
            self._on_change()

    def _note_removal(self, mask: int, cookie: int, name: str) -> None:
        if mask & (_DELETE | _MOVED_FROM):
            self._removed.add(name)
        if mask & _MOVED_FROM:
            self._moved[cookie] = name
        elif mask & _MOVED_TO and not name.startswith("."):
            self._removed.discard(self._moved.pop(cookie, ""))

    def _is_complete(self, name: str) -> bool:
        """Links are whole as soon as they exist; any other new file is followed by the closing of its writer."""
        path = os.path.join(self.folder, name)
        try:
            return os.path.islink(path) or os.lstat(path).st_nlink > 1
        except OSError:
            return False


def _identity(path: str) -> tuple[int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _checked(result: int) -> int:
    if result < 0:
        code = ctypes.get_errno()
        reason = "out of inotify watches: raise fs.inotify.max_user_watches" if code == errno.ENOSPC else None
        raise OSError(code, reason or os.strerror(code))
    return result
