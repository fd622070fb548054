"""Programs and ports of this machine, as what a runtime gives for exec, attach and port-forward."""

import asyncio
import os
import pty
import struct
import subprocess
import termios
from collections.abc import AsyncGenerator, Sequence
from contextlib import suppress
from fcntl import ioctl
from typing import Any, Literal

from pykubelet.base.errors import Retry


class LocalSession:
    """A program on this machine, with pipes or a terminal."""

    def __init__(self, process: asyncio.subprocess.Process, terminal: int | None) -> None:
        self.process = process
        self.sizes: list[tuple[int, int]] = []
        self.is_closed = False
        self._terminal = terminal

    @classmethod
    async def start(cls, command: Sequence[str], *, tty: bool = False) -> "LocalSession":
        if not tty:
            pipe = subprocess.PIPE
            return cls(await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe, stderr=pipe), None)
        ours, theirs = pty.openpty()
        try:
            process = await asyncio.create_subprocess_exec(
                "setsid", "--ctty", "--wait", *command, stdin=theirs, stdout=theirs, stderr=theirs
            )
        finally:
            os.close(theirs)
        os.set_blocking(ours, False)
        return cls(process, ours)

    async def output(self) -> AsyncGenerator[tuple[Literal["stdout", "stderr"], bytes], None]:
        queue: asyncio.Queue[tuple[Literal["stdout", "stderr"], bytes]] = asyncio.Queue(2)
        if self._terminal is not None:
            while data := await self._typed():
                yield "stdout", data
            return
        stdout, stderr = self.process.stdout, self.process.stderr
        assert stdout is not None
        assert stderr is not None
        tasks = [
            asyncio.create_task(_copied("stdout", stdout, queue)),
            asyncio.create_task(_copied("stderr", stderr, queue)),
        ]
        try:
            open_ends = 2
            while open_ends:
                name, data = await queue.get()
                if data:
                    yield name, data
                else:
                    open_ends -= 1
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _typed(self) -> bytes:
        assert self._terminal is not None
        while True:
            try:
                return os.read(self._terminal, 65536)
            except BlockingIOError:
                await _ready(self._terminal, reading=True)
            except OSError:  # nobody has the other end any more
                return b""

    async def send(self, data: bytes) -> None:
        if self._terminal is None:
            assert self.process.stdin is not None
            with suppress(ConnectionError):
                self.process.stdin.write(data)
                await self.process.stdin.drain()
            return
        while data:
            try:
                data = data[os.write(self._terminal, data) :]
            except BlockingIOError:
                await _ready(self._terminal, reading=False)
            except OSError:
                return

    async def close_input(self) -> None:
        if self.process.stdin is not None:
            self.process.stdin.close()

    async def resize(self, width: int, height: int) -> None:
        self.sizes.append((width, height))
        if self._terminal is not None:
            ioctl(self._terminal, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))

    async def exit_code(self) -> int:
        return await self.process.wait()

    async def close(self) -> None:
        assert not self.is_closed, "it was closed twice"
        self.is_closed = True
        with suppress(ProcessLookupError):
            self.process.kill()
        await self.process.wait()
        if self.process.stdin is not None:
            self.process.stdin.close()
        if self._terminal is not None:
            os.close(self._terminal)


async def _copied(name: Any, reader: asyncio.StreamReader, queue: "asyncio.Queue[Any]") -> None:
    while data := await reader.read(256 << 10):
        await queue.put((name, data))
    await queue.put((name, b""))


async def _ready(descriptor: int, *, reading: bool) -> None:
    loop = asyncio.get_running_loop()
    ready: asyncio.Future[None] = loop.create_future()

    def tell() -> None:
        if not ready.done():
            ready.set_result(None)

    (loop.add_reader if reading else loop.add_writer)(descriptor, tell)
    try:
        await ready
    finally:
        (loop.remove_reader if reading else loop.remove_writer)(descriptor)


class LocalConnection:
    """A connection to a port of this machine."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self.is_closed = False

    @classmethod
    async def to(cls, port: int) -> "LocalConnection":
        try:
            return cls(*await asyncio.open_connection("127.0.0.1", port, limit=512 << 10))
        except OSError as error:
            raise Retry(f"nobody listens on port {port}: {error.strerror}") from None

    async def receive(self) -> bytes:
        return await self._reader.read(512 << 10)

    async def send(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()

    async def end(self) -> None:
        self._writer.write_eof()

    async def close(self) -> None:
        self.is_closed = True
        self._writer.close()
        try:
            async with asyncio.timeout(2.0):
                await self._writer.wait_closed()
        except TimeoutError:
            self._writer.transport.abort()
        except OSError:
            pass
