"""The file that a recording is written to, and read from: within a size, for its owner alone, compressed if its name
says so. A disk that is slow, full or gone ends the recording, and disturbs nothing else.
"""

import asyncio
import logging
import os
import stat
import zlib
from collections.abc import Iterator
from typing import IO, Final

from pykubelet.base.errors import Invalid, sentence
from pykubelet.host.threads import in_thread

log = logging.getLogger(__name__)

LIMIT: Final = 256 << 20
"""Bytes of lines. About a day of a node with thirty pods that are left alone."""
_MOST_WAITING: Final = 32 << 20
"""Bytes that may wait for a disk that does not take them."""
_LEFT_FREE: Final = 128 << 20
_GROUP: Final = 0.5
_CHUNK: Final = 1 << 20
_GZIP: Final = 16 + zlib.MAX_WBITS
_MAGIC: Final = b"\x1f\x8b"


class RecordingFile:
    """What is there already is kept as `FILE.1`. Raises Invalid when the file cannot be written.

    `run` writes, until cancelled; `close` the rest.
    """

    def __init__(self, path: str, *, limit: int = LIMIT) -> None:
        self._path = path
        self._limit = limit
        self._file = _opened(path)
        self._deflate = zlib.compressobj(1, wbits=_GZIP) if path.endswith(".gz") else None
        self._waiting: list[bytes] = []
        self._size = 0
        self._written = 0
        self._is_over = False

    def write(self, line: bytes) -> bool:
        """-> False: it takes no more."""
        if self._is_over:
            return False
        self._waiting.append(line)
        self._size += len(line) + 1
        if self._size > self._limit:
            self._end(f"the recording has reached its limit of {self._limit >> 20} MiB")
        elif self._size - self._written > _MOST_WAITING:
            self._end("the disk does not take the recording fast enough")
        return not self._is_over

    async def run(self) -> None:
        while True:
            await asyncio.sleep(_GROUP)
            await self.flush()

    async def flush(self) -> None:
        lines, self._waiting = self._waiting, []
        if not lines or self._file.closed:
            return
        try:
            await in_thread(self._write, b"".join(line + b"\n" for line in lines))
        except OSError as error:
            self._end(f"the recording cannot be written: {sentence(error)}")
            self._file.close()

    async def close(self) -> None:
        await self.flush()
        self._is_over = True
        if not self._file.closed:
            await in_thread(self._finish)

    def _write(self, data: bytes) -> None:
        room = os.fstatvfs(self._file.fileno())
        if room.f_bavail * room.f_frsize < _LEFT_FREE + len(data):
            raise OSError(0, f"less than {_LEFT_FREE >> 20} MiB would be left on the disk", self._path)
        if self._deflate is not None:
            self._file.write(self._deflate.compress(data) + self._deflate.flush(zlib.Z_SYNC_FLUSH))
        else:
            self._file.write(data)
        self._file.flush()
        self._written += len(data)

    def _finish(self) -> None:
        with self._file:
            if self._deflate is not None:
                self._file.write(self._deflate.flush())

    def _end(self, why: str) -> None:
        if not self._is_over:
            self._is_over = True
            self._waiting.append(b'{"end":"%s"}' % why.replace("\\", "/").replace('"', "'").encode())
            log.warning("%s: %s; the agent goes on without it", self._path, why)


def _opened(path: str) -> IO[bytes]:
    try:
        if os.path.lexists(path):
            if not stat.S_ISREG(os.lstat(path).st_mode):
                raise Invalid(f"{path}: is no ordinary file; name another with --record")
            os.replace(path, f"{path}.1")
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        return os.fdopen(os.open(path, flags, 0o600), "wb")
    except OSError as error:
        raise Invalid(f"{path}: cannot be written: {error.strerror}; name another with --record") from None


def recorded_lines(path: str, longest: int) -> Iterator[bytes]:
    """Without their ends. A last one that was torn when the agent was killed is left out, and so is what cannot be
    decompressed. Raises Invalid for a file that cannot be read, and for a line that is longer than `longest`."""
    rest, count = b"", 0
    for piece in _pieces(path):
        *lines, rest = (rest + piece).split(b"\n")
        yield from lines
        count += len(lines)
        if len(rest) > longest:
            raise Invalid(f"{path}: line {count + 1} is longer than {longest >> 20} MiB: this is no recording")


def _pieces(path: str) -> Iterator[bytes]:
    try:
        # A pipe without a writer would keep us waiting for ever, and so would a device that never ends.
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise Invalid(f"{path}: is no ordinary file: write what comes from there to one first")
            data = file.read(_CHUNK)
            if not data.startswith(_MAGIC):
                while data:
                    yield data
                    data = file.read(_CHUNK)
                return
            inflate = zlib.decompressobj(_GZIP)
            while data and not inflate.eof:
                try:
                    piece = inflate.decompress(data, _CHUNK)
                except zlib.error:
                    return
                yield piece
                data = inflate.unconsumed_tail or file.read(_CHUNK)
    except OSError as error:
        raise Invalid(f"{path}: cannot be read: {error.strerror}") from None
