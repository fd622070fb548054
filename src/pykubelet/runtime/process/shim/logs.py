"""A container's output as the log file that kubectl and every log collector read: one writer, which also rotates it."""

from __future__ import annotations

import os
import time

from .files import now

LONGEST = 16 * 1024  # of one line in the file; a longer one is cut into parts marked P


class Log:
    """The file. It is opened when first written to, and a full disk loses lines but never stops the container."""

    def __init__(self, path: str, *, size: int, files: int) -> None:
        self._path = path
        self._size = size
        self._files = files
        self._descriptor = -1
        self._written = 0
        self.reopen()

    def reopen(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
            self._descriptor = os.open(self._path, flags, 0o640)
            self._written = os.fstat(self._descriptor).st_size
        except OSError:
            return

    def write(self, lines: list[bytes]) -> None:
        """Whole lines. They are never split between two files."""
        batch: list[bytes] = []
        size = 0
        for line in lines:
            if self._size and batch and self._written + size + len(line) > self._size:
                self._append(b"".join(batch))
                batch, size = [], 0
            if self._size and self._written and self._written + size + len(line) > self._size:
                self._rotate()
            batch.append(line)
            size += len(line)
        self._append(b"".join(batch))

    def _append(self, data: bytes) -> None:
        if self._descriptor < 0:
            self.reopen()
        view = memoryview(data)
        try:
            while view and self._descriptor >= 0:
                count = os.write(self._descriptor, view)
                self._written += count
                view = view[count:]
        except OSError:
            return

    def _rotate(self) -> None:
        """Named as the kubelet names them, which sorts them by age."""
        moment = time.time_ns()
        stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime(moment // 10**9)) + f".{moment // 1000 % 10**6:06d}"
        try:
            os.rename(self._path, f"{self._path}.{stamp}")
        except FileNotFoundError:
            pass  # somebody moved it away: a new one begins all the same
        except OSError:
            return
        self.reopen()
        self._remove_oldest()

    def _remove_oldest(self) -> None:
        folder, name = os.path.split(self._path)
        older = sorted(each for each in os.listdir(folder) if each.startswith(name + "."))
        for each in older[: max(0, len(older) - (self._files - 1))]:
            try:
                os.unlink(os.path.join(folder, each))
            except OSError:
                continue


class Stream:
    """What comes out of one pipe, cut into lines."""

    def __init__(self, name: str, log: Log) -> None:
        self.name = name
        self._full = f" {name} F ".encode()
        self._part = f" {name} P ".encode()
        self._log = log
        self._rest = b""

    def feed(self, data: bytes) -> None:
        stamp = now().encode()
        *lines, self._rest = (self._rest + data).split(b"\n")
        out: list[bytes] = []
        for line in lines:
            line = self._cut(stamp, line, out)
            out.append(b"%b%b%b\n" % (stamp, self._full, line))
        self._rest = self._cut(stamp, self._rest, out)
        if out:
            self._log.write(out)

    def end(self) -> None:
        """The last line had no end."""
        if self._rest:
            self._log.write([b"%b%b%b\n" % (now().encode(), self._part, self._rest)])
            self._rest = b""

    def _cut(self, stamp: bytes, line: bytes, out: list[bytes]) -> bytes:
        """Put all but the last part of a long line into `out`. -> that last part, which fits."""
        start = 0
        while len(line) - start > LONGEST:
            out.append(b"%b%b%b\n" % (stamp, self._part, line[start : start + LONGEST]))
            start += LONGEST
        return line[start:] if start else line
