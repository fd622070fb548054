"""A container's log file, read to its end and beyond: while it is written to, moved away and begun anew.

A file that was moved away gets a new name of the same folder, by which files sort by age, and may be packed later. So
the next file to read is the one that comes after ours, even when several were begun while we were busy.
"""

import gzip
import os
from contextlib import suppress
from typing import BinaryIO, Final, cast

BLOCK: Final = 256 << 10
_PACKED: Final = ".gz"
_HALF_PACKED: Final = ".tmp"
_MOST_LOOKS: Final = 100


class LogFile:
    """All of it blocks: it is used in threads, by one at a time."""

    def __init__(self, path: str, *, tail: int | None = None) -> None:
        """`tail` is the number of lines before the end to begin at. Raises OSError."""
        self._path = path
        self._file = _open(path)
        self._inode = os.fstat(self._file.fileno()).st_ino
        if tail is not None:
            self._file.seek(_tail_start(self._file, tail))

    def close(self) -> None:
        self._file.close()

    def read(self) -> bytes:
        """The next block; empty at the end of what there is."""
        return self._file.read(BLOCK) or b""

    def read_on(self) -> bytes:
        """At the end of what there was: the next block, if need be of the file that was begun after this one; empty
        when there is nothing more for now."""
        following = self._following()
        if following is None:
            return self.read()
        if block := self.read():  # written after our last look, before the other one was begun
            return block
        path, inode = following
        try:
            opened = _open(path)
        except OSError:
            return b""  # it was moved just now: the next look finds it
        if os.fstat(opened.fileno()).st_ino != inode:  # and another has taken its name
            opened.close()
            return b""
        self._file.close()
        self._file, self._inode = opened, inode
        return self.read()

    def _following(self) -> tuple[str, int] | None:
        there = self._files()
        ours = next((place for place, (_, inode) in enumerate(there) if inode == self._inode), None)
        if ours is None:
            ours = self._place_when_packed([path for path, _ in there])
        younger = there[ours + 1 :]
        return younger[0] if younger else None

    def _place_when_packed(self, paths: list[str]) -> int:
        """A packed file keeps the time of the plain one. When there is none of that time, ours was removed, being the
        oldest: all that is there is younger."""
        ours = os.fstat(self._file.fileno()).st_mtime_ns
        for place, path in enumerate(paths):
            with suppress(OSError):
                if path.endswith(_PACKED) and os.stat(path).st_mtime_ns == ours:
                    return place
        return -1

    def _files(self) -> list[tuple[str, int]]:
        """Names and inodes, the oldest first, the one that is written to last. Of one moment: when the log is rotated
        while we look, a file could have been in neither place, so we look again."""
        before, rotated = _inode(self._path), self._find_rotated()
        for _ in range(_MOST_LOOKS):
            if _inode(self._path) == before:
                break
            before, rotated = _inode(self._path), self._find_rotated()
        return [*rotated, *([(self._path, before)] if before is not None else [])]

    def _find_rotated(self) -> list[tuple[str, int]]:
        folder, base = os.path.split(self._path)
        try:
            with os.scandir(folder) as entries:
                return sorted(
                    (entry.path, entry.inode())
                    for entry in entries
                    if entry.name.startswith(f"{base}.") and not entry.name.endswith(_HALF_PACKED)
                )
        except FileNotFoundError:
            return []  # the pod was removed, with all its logs: what we hold open is all there is


def _inode(path: str) -> int | None:
    try:
        return os.stat(path).st_ino
    except OSError:
        return None


def _open(path: str) -> BinaryIO:
    if path.endswith(_PACKED):
        return cast(BinaryIO, gzip.open(path, "rb"))
    return open(path, "rb", buffering=0)


def _tail_start(file: BinaryIO, lines: int) -> int:
    """Where the last `lines` lines begin. A last line without an end counts."""
    end = position = file.seek(0, os.SEEK_END)
    if lines == 0:
        return end
    left = lines + 1
    while position > 0:
        start = max(0, position - BLOCK)
        file.seek(start)
        block = file.read(position - start)
        if position == end and not block.endswith(b"\n"):
            left -= 1
        count = block.count(b"\n")
        if count >= left:
            place = len(block)
            for _ in range(left):
                place = block.rindex(b"\n", 0, place)
            return start + place + 1
        left -= count
        position = start
    return 0
