"""The agent's end of the spawner: it starts that process when needed, asks it for others, and hears what they say."""

import asyncio
import logging
import marshal
import os
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from pykubelet.api.codec import DecodeError, decode_any
from pykubelet.base.errors import Retry
from pykubelet.runtime.process.interpreter import sealed_copy
from pykubelet.runtime.process.process import Identity, Process

log = logging.getLogger(__name__)

_START: Final = "import sys; sys.path.append(sys.argv[1]); from shim.spawner import main; main()"
_ENVIRONMENT: Final = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8"}
_CHUNK: Final = 65536
_STARTING: Final = 30.0
_CLOSING: Final = 5.0


class Answer:
    """What one of the spawner's processes reports, line by line, until it has no more to say."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, dict[str, Any]]] = []
        self._data = b""

    def feed(self, data: bytes) -> None:
        *lines, self._data = (self._data + data).split(b"\n")
        for line in lines:
            try:
                what, facts = decode_any(line)
                self.lines.append((what, facts))
            except (DecodeError, ValueError):
                log.warning("the spawner said %r", line)

    def get(self, what: str) -> dict[str, Any] | None:
        return next((facts for each, facts in self.lines if each == what), None)

    @property
    def failure(self) -> str:
        facts = self.get("failed") or self.get("refused")
        return str(facts["message"]) if facts else ""

    def kill(self) -> None:
        """Whoever has said who it is, but takes too long for anybody to note it."""
        facts = self.get("pid")
        process = Process.open(Identity(**facts)) if facts else None
        if process is not None:
            process.kill_and_close()


class Spawner:
    def __init__(self, python: str) -> None:
        self._python = python
        self._process: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None
        self._starting = asyncio.Lock()

    async def ask(
        self,
        verb: str,
        spec: Any,
        *,
        descriptors: tuple[int, ...] = (),
        answer: Answer | None = None,
        within: float,
    ) -> Answer:
        """Have it done. -> the answer, whole. Given one, it is filled as it comes, for who does not wait to the end."""
        answer = answer or Answer()
        reader, writer = os.pipe()
        question = os.memfd_create("spec", os.MFD_CLOEXEC)
        try:
            _fill(question, marshal.dumps((verb, spec)))
            async with asyncio.timeout(within):
                await self._send([question, writer, *descriptors])
                os.close(writer)
                writer = -1
                await read_to_end(reader, answer.feed)
        except TimeoutError:
            raise Retry(f"starting a process took longer than {within:.0f} s") from None
        finally:
            for descriptor in (reader, writer, question):
                if descriptor >= 0:
                    os.close(descriptor)
        return answer

    async def close(self) -> None:
        """What was started goes on."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None
        if self._process is not None:
            process, self._process = self._process, None
            await asyncio.to_thread(_end, process)

    async def _send(self, descriptors: list[int]) -> None:
        for attempt in (1, 2):
            connection = await self._connect()
            try:
                while True:
                    try:
                        socket.send_fds(connection, [b"!"], descriptors)
                        return
                    except BlockingIOError:
                        await asyncio.sleep(0.005)
            except OSError as error:  # it has died: start another one
                if attempt == 2:
                    raise Retry(f"no process can be started: {error}") from error
                await self.close()

    async def _connect(self) -> socket.socket:
        async with self._starting:
            if self._socket is None:
                await asyncio.to_thread(self._start)
            assert self._socket is not None
            return self._socket

    def _start(self) -> None:
        try:
            with sealed_copy(self._python) as copy:
                self._start_from(f"/proc/self/fd/{copy}", copy)
        except OSError as error:
            log.warning(
                "no sealed copy of %s can be run (%s): containers are entered by that file itself, and one whose "
                "programs are its owner may find a way to change it",
                self._python,
                error,
            )
            try:
                self._start_from(self._python)
            except OSError as refusal:
                raise Retry(f"cannot start {self._python}: {refusal}") from refusal

    def _start_from(self, file: str, *handed: int) -> None:
        """Returns when it runs. It knows by its name where its library is."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        process = None
        try:
            with theirs:
                process = subprocess.Popen(  # noqa: S603 - our own interpreter and our own code
                    [self._python, "-I", "-S", "-c", _START, str(Path(__file__).parent)],
                    executable=file,
                    pass_fds=handed,
                    stdin=theirs.fileno(),
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    env=_ENVIRONMENT,
                    start_new_session=True,
                )
            ours.settimeout(_STARTING)
            if not ours.recv(1):
                raise OSError(f"it ended with code {process.wait()}")
        except BaseException:
            ours.close()
            if process is not None:
                process.kill()
                process.wait()
            raise
        ours.setblocking(False)
        self._process, self._socket = process, ours


def _fill(descriptor: int, data: bytes) -> None:
    with open(descriptor, "wb", closefd=False) as file:
        file.write(data)


def _end(process: subprocess.Popen[bytes]) -> None:
    try:
        process.wait(_CLOSING)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


async def read_to_end(descriptor: int, feed: Callable[[bytes], None]) -> None:
    """Everything that comes out of a pipe until its other end is closed. The descriptor stays the caller's."""
    os.set_blocking(descriptor, False)
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[None] = loop.create_future()

    def ready() -> None:
        try:
            data = os.read(descriptor, _CHUNK)
        except BlockingIOError:
            return
        if data:
            feed(data)
        elif not ended.done():
            ended.set_result(None)

    loop.add_reader(descriptor, ready)
    try:
        await ended
    finally:
        loop.remove_reader(descriptor)
