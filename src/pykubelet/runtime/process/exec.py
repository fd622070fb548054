"""Running a command in a container: to bring home what it said, or with its input and output held open."""

import asyncio
import contextlib
import fcntl
import os
import socket
import struct
import termios
from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, Final

from pykubelet.base.errors import Invalid, Retry
from pykubelet.pod.ports.runtime import ExecResult
from pykubelet.runtime.process.pipes import Name, Pipe, Waiting, is_hung_up, null, output_of, pipes
from pykubelet.runtime.process.spawner import Answer, Spawner, read_to_end

if TYPE_CHECKING:
    from pykubelet.runtime.process.shim.spec import ExecSpec

_MOST_OUTPUT: Final = 16 * 1024 * 1024
_STARTING: Final = 30.0
_ENDING: Final = 5.0
_TRAILING: Final = 0.5  # for output of what the command left in the background
_FOR_EVER: Final = 10 * 365 * 86400.0
_KILLED: Final = 137
_LARGEST: Final = 0xFFFF


async def run(spawner: Spawner, spec: "ExecSpec", timeout: float) -> ExecResult:
    """The shim kills it when we let go of the lifeline: at the timeout, when cancelled, when the agent dies."""
    command = _text(spec)
    with pipes(3) as (out, err, lifeline), null() as nothing:
        stdout, stderr = _Kept(), _Kept()
        readers = [
            asyncio.create_task(read_to_end(out[0], stdout.feed)),
            asyncio.create_task(read_to_end(err[0], stderr.feed)),
        ]
        answer = Answer()
        asking = asyncio.create_task(
            spawner.ask(
                "exec",
                spec,
                descriptors=(lifeline[0], nothing, out[1], err[1]),
                answer=answer,
                within=timeout + _STARTING + _ENDING,
            )
        )
        try:
            done, _ = await asyncio.wait([asking], timeout=timeout)
            if not done:
                raise Retry(f"command {command!r} timed out after {timeout:g} s")
            await asking
            out.close_writer()
            err.close_writer()
            await asyncio.wait(readers, timeout=_TRAILING)
        finally:
            lifeline.close_writer()
            await _wait_for_end(asking)
            for reader in readers:
                reader.cancel()
            await asyncio.gather(*readers, return_exceptions=True)
    return ExecResult(exit_code=_code(answer, command), stdout=stdout.data, stderr=stderr.data)


async def _wait_for_end(asking: "asyncio.Task[Answer]") -> None:
    await asyncio.wait([asking], timeout=_ENDING)
    asking.cancel()
    await asyncio.gather(asking, return_exceptions=True)


def _code(answer: Answer, command: str) -> int:
    if answer.failure:
        raise Invalid(f"command {command!r} cannot be run: {answer.failure}")
    facts = answer.get("ended")
    if facts is None:
        raise Retry(f"command {command!r} was lost")
    return int(facts["exit_code"])


def _text(spec: "ExecSpec") -> str:
    return " ".join(spec["program"]["argv"])


class _Kept:
    """What is said beyond the limit is lost."""

    def __init__(self) -> None:
        self._data = bytearray()

    def feed(self, data: bytes) -> None:
        self._data += data[: _MOST_OUTPUT - len(self._data)]

    @property
    def data(self) -> bytes:
        return bytes(self._data)


# --- held open


async def open_session(
    spawner: Spawner,
    spec: "ExecSpec",
    *,
    stdin: bool,
    stdout: bool,
    stderr: bool,
    tty: bool,
    container_ended: asyncio.Event,
) -> "ExecSession":
    """Returns when the program runs."""
    session = ExecSession(_text(spec))
    with contextlib.ExitStack() as theirs:
        try:
            if tty:
                spec["program"]["env"].setdefault("TERM", "xterm")
                way_back, their_end = socket.socketpair()
                theirs.callback(way_back.close)
                theirs.callback(their_end.close)
                session.start(spawner, "exec-terminal", spec, (their_end.fileno(),), container_ended)
                await session.wait_until_started()
                session.take_terminal(_received(way_back), wants_input=stdin, wants_output=stdout)
            else:
                nothing = theirs.enter_context(null(os.O_RDWR))
                ends = (
                    session.make_input(theirs) if stdin else nothing,
                    session.make_output("stdout", theirs) if stdout else nothing,
                    session.make_output("stderr", theirs) if stderr else nothing,
                )
                session.start(spawner, "exec", spec, ends, container_ended)
                await session.wait_until_started()
        except BaseException:
            await session.close()  # before `theirs` are closed: they may not have been sent yet
            raise
    return session


def _received(way_back: socket.socket) -> int:
    """It was sent before the program ran, and so before we heard of that."""
    way_back.setblocking(False)
    try:
        _, descriptors, _, _ = socket.recv_fds(way_back, 1, 1)
        return descriptors[0]
    except (OSError, IndexError) as error:
        raise Retry("the terminal was lost") from error


class _Heard(Answer):
    """Wakes who waits for the first word."""

    def __init__(self) -> None:
        super().__init__()
        self.spoken = asyncio.Event()

    def feed(self, data: bytes) -> None:
        super().feed(data)
        self.spoken.set()


class ExecSession:
    """The Session port. Nothing is read before somebody asks for it, so the program waits for who listens."""

    def __init__(self, command: str) -> None:
        self._command = command
        self._answer = _Heard()
        self._lifeline = Pipe()
        self._asking: asyncio.Task[object] | None = None
        self._following: asyncio.Task[None] | None = None
        self._waiting = Waiting()
        self._was_started = False
        self._outputs: dict[int, Name] = {}
        self._discards = False
        self._input = -1
        self._terminal = -1
        self._sending = asyncio.Lock()  # so that two who send do not mix their bytes

    # --- the beginning

    def make_input(self, theirs: contextlib.ExitStack) -> int:
        """-> the program's end"""
        end, self._input = os.pipe()
        theirs.callback(os.close, end)
        os.set_blocking(self._input, False)
        return end

    def make_output(self, name: Name, theirs: contextlib.ExitStack) -> int:
        ours, end = os.pipe()
        self._outputs[ours] = name
        theirs.callback(os.close, end)
        os.set_blocking(ours, False)
        return end

    def take_terminal(self, ours: int, *, wants_input: bool, wants_output: bool) -> None:
        os.set_blocking(ours, False)
        self._terminal = ours
        self._outputs[ours] = "stdout"
        self._discards = not wants_output  # it still has to be taken: a full terminal stops its program
        self._input = ours if wants_input else -1

    def start(
        self,
        spawner: Spawner,
        verb: str,
        spec: "ExecSpec",
        ends: tuple[int, ...],
        container_ended: asyncio.Event,
    ) -> None:
        descriptors = (self._lifeline[0], *ends)
        asked = spawner.ask(verb, spec, descriptors=descriptors, answer=self._answer, within=_FOR_EVER)
        self._asking = asyncio.create_task(asked)
        self._following = asyncio.create_task(self._follow(container_ended))

    async def wait_until_started(self) -> None:
        assert self._asking is not None
        spoken = asyncio.create_task(self._answer.spoken.wait())
        try:
            done, _ = await asyncio.wait({self._asking, spoken}, timeout=_STARTING, return_when=asyncio.FIRST_COMPLETED)
        finally:
            spoken.cancel()
        if not done:
            raise Retry(f"command {self._command!r} was not started within {_STARTING:.0f} s")
        if self._asking in done:
            self._asking.result()
        if self._answer.failure or self._answer.get("started") is None:
            _code(self._answer, self._command)
        self._was_started = True
        self._lifeline.close_reader()

    async def _follow(self, container_ended: asyncio.Event) -> None:
        """In a container without a pid namespace nobody else would end it together with the container."""
        assert self._asking is not None
        gone = asyncio.create_task(container_ended.wait())
        try:
            await asyncio.wait({self._asking, gone}, return_when=asyncio.FIRST_COMPLETED)
            if not self._asking.done():
                self._lifeline.close_writer()
        finally:
            gone.cancel()

    # --- the port

    async def output(self) -> AsyncGenerator[tuple[Name, bytes], None]:
        assert self._asking is not None
        async with contextlib.aclosing(
            output_of(self._outputs, self._asking, self._waiting, trailing=_TRAILING)
        ) as chunks:
            async for chunk in chunks:
                if not self._discards:
                    yield chunk

    async def send(self, data: bytes) -> None:
        assert self._asking is not None
        async with self._sending:
            view = memoryview(data)
            while view and self._input >= 0 and not self._asking.done():
                try:
                    view = view[os.write(self._input, view) :]
                except BlockingIOError:
                    if self._input == self._terminal and is_hung_up(self._terminal):
                        return
                    await self._waiting.ready(writing=(self._input,), unless=self._asking)
                except OSError:  # nobody reads it any more
                    self._close_input()

    async def close_input(self) -> None:
        async with self._sending:
            self._close_input()

    def _close_input(self) -> None:
        """A terminal's end is the end of its output too: that stays."""
        if self._input >= 0 and self._input != self._terminal:
            os.close(self._input)
        self._input = -1

    async def resize(self, width: int, height: int) -> None:
        if self._terminal >= 0:
            size = struct.pack("HHHH", min(max(height, 0), _LARGEST), min(max(width, 0), _LARGEST), 0, 0)
            with contextlib.suppress(OSError):
                fcntl.ioctl(self._terminal, termios.TIOCSWINSZ, size)

    async def exit_code(self) -> int:
        assert self._asking is not None
        await asyncio.wait({self._asking})
        if self.is_closed and self._answer.get("ended") is None:
            return _KILLED
        if not self._asking.cancelled():
            self._asking.result()
        return _code(self._answer, self._command)

    @property
    def is_closed(self) -> bool:
        return self._waiting.is_over()

    async def close(self) -> None:
        if self.is_closed:
            return
        self._lifeline.close_writer()
        try:
            await self._waiting.end()
            if self._asking is not None and self._was_started:
                await asyncio.wait({self._asking}, timeout=_ENDING)
        finally:
            tasks = [task for task in (self._asking, self._following) if task is not None]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self._lifeline.close()
            self._close_input()
            for descriptor in self._outputs:
                os.close(descriptor)
            self._outputs, self._terminal = {}, -1
