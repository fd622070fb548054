"""The audit log as a file: one line for each event, in order, renamed with the time when it has grown too large.

Lines are written in a thread. Who makes more than the disk takes waits: nothing is left out.
"""

import asyncio
import gzip
import logging
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import BinaryIO, Final

import msgspec

from pykubelet.base.errors import Invalid

log = logging.getLogger(__name__)

_MOST_WAITING: Final = 16 << 20
"""Bytes. Beyond that, requests wait until there is room."""
_LAST: Final = 5.0
"""Seconds that a server which ends waits for the disk."""
_AGAIN: Final = 1.0
_STAMP: Final = "%Y-%m-%dT%H-%M-%S.%f"


class AuditFile(msgspec.Struct, frozen=True):
    """Where it is and how long what was renamed is kept: days, files, megabytes. 0: without a bound, as upstream."""

    path: str
    """`-` is the standard output."""
    most_days: int = 0
    most_files: int = 0
    most_megabytes: int = 100
    compress: bool = False


class AuditLog:
    def __init__(self, file: AuditFile, *, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._file = file
        self._now = now
        self._lines: list[bytes] = []
        self._waiting = 0
        self._has_lines = asyncio.Event()
        self._has_room = asyncio.Event()
        self._has_room.set()
        self._open: BinaryIO | None = None

    def open(self) -> None:
        """Raises Invalid: a server that is to be audited does not start without. Blocks."""
        try:
            self._open = _opened(self._file.path)
        except OSError as error:
            raise Invalid(f"--audit-log-path: {self._file.path} cannot be written: {error.strerror}") from None

    def write(self, line: bytes) -> None:
        self._lines.append(line)
        self._waiting += len(line)
        self._has_lines.set()
        if self._waiting > _MOST_WAITING:
            self._has_room.clear()

    async def room(self) -> None:
        """For the events of another request."""
        if not self._has_room.is_set():
            await self._has_room.wait()

    async def run(self) -> None:
        """Until cancelled; what was said until then is written, unless the disk does not take it for some seconds."""
        writing: asyncio.Task[None] | None = None
        try:
            while True:
                await self._has_lines.wait()
                writing = asyncio.create_task(self._write_waiting(), name="audit log")
                await asyncio.shield(writing)
        finally:
            try:
                async with asyncio.timeout(_LAST):
                    if writing is not None:
                        await writing
                    await self._write_waiting()
            except TimeoutError:
                log.error("the end of the audit log %s is lost", self._file.path)
            if self._open is not None and self._file.path != "-":
                self._open.close()

    async def _write_waiting(self) -> None:
        lines, self._lines, self._waiting = self._lines, [], 0
        self._has_lines.clear()
        data = memoryview(b"".join(lines))
        while data:
            try:
                data = data[await asyncio.to_thread(self._append, data) :]
            except OSError as error:
                log.error("the audit log %s cannot be written: %s; requests wait", self._file.path, error.strerror)
                await asyncio.sleep(_AGAIN)
        self._has_room.set()

    def _append(self, data: memoryview) -> int:
        if self._open is None:
            self._open = _opened(self._file.path)
        most = self._file.most_megabytes << 20
        if most and self._file.path != "-" and self._open.tell() and self._open.tell() + len(data) > most:
            self._rotate()
        return os.write(self._open.fileno(), data)

    def _rotate(self) -> None:
        path, moment = Path(self._file.path), self._now()
        stamp = moment.strftime(_STAMP)[:-3]
        older = path.with_name(f"{path.stem}-{stamp}{path.suffix}")
        if self._open is not None:
            self._open.close()
        self._open = None
        path.rename(older)
        self._open = _opened(self._file.path)
        if self._file.compress:
            _compress(older)
        for each in self._outdated(moment):
            each.unlink(missing_ok=True)

    def _outdated(self, moment: datetime) -> Iterator[Path]:
        """Of what was renamed, newest first."""
        path = Path(self._file.path)
        name = re.compile(rf"{re.escape(path.stem)}-(\d{{4}}-\S+){re.escape(path.suffix)}(\.gz)?")
        found = {each: match[1] for each in path.parent.iterdir() if (match := name.fullmatch(each.name))}
        for index, (each, stamp) in enumerate(sorted(found.items(), key=lambda item: item[1], reverse=True)):
            try:
                made = datetime.strptime(stamp, _STAMP).replace(tzinfo=UTC)
            except ValueError:
                continue
            is_old = bool(self._file.most_days) and made < moment - timedelta(days=self._file.most_days)
            if is_old or (self._file.most_files and index >= self._file.most_files):
                yield each


def _opened(path: str) -> BinaryIO:
    if path == "-":
        return sys.stdout.buffer
    return open(os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600), "ab", buffering=0)


def _compress(path: Path) -> None:
    packed = path.with_name(f"{path.name}.gz")
    packed.touch(mode=0o600, exist_ok=False)
    with path.open("rb") as source, gzip.open(packed, "wb", 6) as writer:
        shutil.copyfileobj(source, writer)
    path.unlink()
