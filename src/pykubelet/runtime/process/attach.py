"""Attaching to a container that runs already: its monitor is found by a socket in the container's folder, whichever
agent has started it."""

import asyncio
import os
import socket
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Final

from pykubelet.base.errors import Invalid, Retry
from pykubelet.runtime.process.known import Container
from pykubelet.runtime.process.pipes import Name, Waiting
from pykubelet.runtime.process.shim import attached

_ANSWERING: Final = 10.0
_NOTING: Final = 2.0  # for the end of a container to be known, after its monitor has gone
_LARGEST: Final = 0xFFFF
_MESSAGE: Final = 128 * 1024
_NAMES: Final[dict[bytes, Name]] = {b"o": "stdout", b"e": "stderr"}


async def open_session(
    container: Container, folder: Path, *, stdin: bool, stdout: bool, stderr: bool
) -> "AttachSession":
    """Returns when everything that the container says from now on will be heard."""
    config = container.record.config
    wishes = (stdout, b"o"), (stderr, b"e"), (stdin, b"i"), (config.stdin_once, b"1")
    hello = b"h" + b"".join(letter for is_wanted, letter in wishes if is_wanted)
    try:
        connection, answer = await asyncio.to_thread(_connect, folder, hello)
    except FileNotFoundError:
        if container.end is not None:
            raise Retry(f"container {config.name} does not run") from None
        raise Invalid(
            f"container {config.name} cannot be attached to: it was started by an earlier version of this agent, "
            "or its folder was full; once it has been started anew it can be"
        ) from None
    except ConnectionError as error:
        reason = "it has just ended, or too many are attached to it already"
        raise Retry(f"container {config.name} cannot be attached to: {reason}") from error
    except OSError as error:
        raise Retry(f"container {config.name} cannot be attached to: {error.strerror or error}") from error
    return AttachSession(container, connection, has_terminal=b"t" in answer)


def _connect(folder: Path, hello: bytes) -> tuple[socket.socket, bytes]:
    """Through the folder's descriptor: the socket's own name may be longer than an address can be."""
    handle = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        connection.settimeout(_ANSWERING)
        connection.connect(f"/proc/self/fd/{handle}/{attached.NAME}")
        connection.send(hello)
        answer = connection.recv(_MESSAGE)
        if not answer.startswith(b"r"):
            raise ConnectionResetError
        connection.setblocking(False)
    except BaseException:
        connection.close()
        raise
    finally:
        os.close(handle)
    return connection, answer


class AttachSession:
    """The Session port. Its container goes on whatever becomes of it."""

    def __init__(self, container: Container, connection: socket.socket, *, has_terminal: bool) -> None:
        self._container = container
        self._connection = connection
        self._has_terminal = has_terminal
        self._waiting = Waiting()
        self._lost: asyncio.Future[object] = asyncio.get_running_loop().create_future()
        self._sending = asyncio.Lock()

    async def output(self) -> AsyncGenerator[tuple[Name, bytes], None]:
        while not self._waiting.is_over():
            try:
                message = self._connection.recv(_MESSAGE)
            except BlockingIOError:
                await self._waiting.ready((self._connection.fileno(),))
                continue
            except OSError:
                message = b""
            if message.startswith(b"x"):
                return
            if not message:
                if not self._lost.done():
                    self._lost.set_result(None)
                return
            if message[:1] in _NAMES:
                yield _NAMES[message[:1]], message[1:]
                await asyncio.sleep(0)

    async def send(self, data: bytes) -> None:
        async with self._sending:
            for start in range(0, len(data), attached.CHUNK):
                await self._tell(b"i" + data[start : start + attached.CHUNK])

    async def close_input(self) -> None:
        async with self._sending:
            await self._tell(b"c")

    async def resize(self, width: int, height: int) -> None:
        if self._has_terminal:
            size = [min(max(each, 0), _LARGEST).to_bytes(2, "big") for each in (width, height)]
            async with self._sending:
                await self._tell(b"w" + b"".join(size))

    async def _tell(self, message: bytes) -> None:
        while not self._waiting.is_over():
            try:
                self._connection.send(message)
                return
            except BlockingIOError:
                await self._waiting.ready(writing=(self._connection.fileno(),))
            except OSError:
                return

    async def exit_code(self) -> int:
        ended: asyncio.Future[object] = asyncio.ensure_future(self._container.ended.wait())
        try:
            await asyncio.wait({ended, self._lost, self._waiting.closing}, return_when=asyncio.FIRST_COMPLETED)
            if self._lost.done():
                await asyncio.wait({ended}, timeout=_NOTING)
        finally:
            ended.cancel()
        if self._container.end is not None:
            return self._container.end.exit_code
        name = self._container.record.config.name
        if self._lost.done():
            raise Retry(f"the connection to container {name} was ended: its output was not taken for too long")
        raise Retry(f"the connection to container {name} was closed")

    @property
    def is_closed(self) -> bool:
        return self._waiting.is_over()

    async def close(self) -> None:
        if not self.is_closed:
            try:
                await self._waiting.end()
            finally:
                self._connection.close()
