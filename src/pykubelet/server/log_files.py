"""A container's log file, read to its end and beyond: while it is written to, moved away and begun anew.

A file that was moved away gets a new name of the same folder, by which files sort by age, and may be packed later. So
the next file to read is the one that comes after ours, even when several were begun while we were busy.
"""

import gzip
import os
from collections.abc import Iterator
from contextlib import suppress
from typing import BinaryIO, Final, cast

BLOCK: Final = 256 << 10
_PACKED: Final = ".gz"
_HALF_PACKED: Final = ".tmp"


class LogFile:
    """All of it blocks: it is used in threads, by one at a time."""

    def __init__(self, path: str, *, tail: int | None = None) -> None:
        """`tail` is the number of lines before the end to begin at. Raises OSError."""
        self._path = path
        self._file = _opened(path)
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
        try:
            opened = _opened(following)
        except OSError:
            return b""  # it was moved just now: the next look finds it
        self._file.close()
        self._file, self._inode = opened, os.fstat(opened.fileno()).st_ino
        return self.read()

    def _following(self) -> str | None:
        there = list(self._files())
        ours = next((place for place, (_, inode) in enumerate(there) if inode == self._inode), None)
        if ours is None:
            ours = self._place_when_packed([path for path, _ in there])
        younger = there[ours + 1 :]
        return younger[0][0] if younger else None

    def _place_when_packed(self, paths: list[str]) -> int:
        """A packed file keeps the time of the plain one. When there is none of that time, ours was removed, being the
        oldest: all that is there is younger."""
        ours = os.fstat(self._file.fileno()).st_mtime_ns
        for place, path in enumerate(paths):
            with suppress(OSError):
                if path.endswith(_PACKED) and os.stat(path).st_mtime_ns == ours:
                    return place
        return -1

    def _files(self) -> Iterator[tuple[str, int]]:
        """Names and inodes, the oldest first, the one that is written to last."""
        folder, base = os.path.split(self._path)
        with os.scandir(folder) as entries:
            rotated = sorted(
                (entry.path, entry.inode())
                for entry in entries
                if entry.name.startswith(f"{base}.") and not entry.name.endswith(_HALF_PACKED)
            )
        yield from rotated
        with suppress(OSError):
            yield self._path, os.stat(self._path).st_ino


def _opened(path: str) -> BinaryIO:
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
