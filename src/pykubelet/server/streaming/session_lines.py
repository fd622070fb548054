"""A client's end of an exec or attach session, the same to the session whether it speaks SPDY or WebSocket."""

import asyncio
import logging
from collections.abc import Callable
from typing import Final, Literal, Protocol

from aiohttp import web
from msgspec import Struct

from pykubelet.api.struct import changed
from pykubelet.base.errors import Invalid
from pykubelet.server.streaming.channels import Channels
from pykubelet.server.streaming.inbox import Budget, Inbox
from pykubelet.server.streaming.spdy import Carrier, SpdyConnection, SpdyStream

log = logging.getLogger(__name__)

Output = Literal["stdout", "stderr", "error"]

_OPENING: Final = 30.0
_V4: Final = "v4.channel.k8s.io"
SPDY_PROTOCOLS: Final = (_V4, "v3.channel.k8s.io", "v2.channel.k8s.io", "channel.k8s.io")
_RESIZABLE: Final = SPDY_PROTOCOLS[:2]
WEB_SOCKET_PROTOCOLS: Final = (
    "v5.channel.k8s.io",
    _V4,
    "v4.base64.channel.k8s.io",
    "channel.k8s.io",
    "base64.channel.k8s.io",
    "",
)
_STRUCTURED: Final = ("v5.", "v4.")
_STDIN, _RESIZE = 0, 4
_OUTPUTS: Final[dict[Output, int]] = {"stdout": 1, "stderr": 2, "error": 3}


class Wanted(Struct, frozen=True):
    """Which of a program's streams somebody wants to hold."""

    stdin: bool
    stdout: bool
    stderr: bool
    tty: bool


def wanted(request: web.Request) -> Wanted:
    """As the API server passes it on, or as people write it. A terminal has no stderr of its own."""

    def said(*names: str) -> bool:
        return any(request.query.get(name, "").lower() in ("1", "true") for name in names)

    found = Wanted(
        stdin=said("input", "stdin"),
        stdout=said("output", "stdout"),
        stderr=said("error", "stderr"),
        tty=said("tty"),
    )
    if not (found.stdin or found.stdout or found.stderr):
        raise Invalid("you must specify at least 1 of stdin, stdout, stderr")
    return changed(found, stderr=found.stderr and not found.tty)


class Receiver(Protocol):
    async def receive(self) -> bytes:
        """Empty at the end. Raises ConnectionResetError when the other side has given it up."""
        ...


class Line(Protocol):
    """A client's end of a session."""

    is_structured: bool
    """Whether it takes a Status, or a sentence."""
    stdin: Receiver | None
    resizes: Receiver | None

    @property
    def count(self) -> int: ...

    async def run(self) -> None:
        """Hear the client out. Until it has gone."""
        ...

    async def say(self, output: Output, data: bytes) -> None:
        """Raises ConnectionError once the client has gone."""
        ...

    async def end(self) -> None:
        """After the last word: every output is at its end."""
        ...

    async def nudge(self) -> None: ...

    async def close(self, patience: float) -> None:
        """After what was said has arrived; sooner when none of it did for `patience` seconds."""
        ...


class ChannelsLine:
    """The channels of a WebSocket are there from the beginning."""

    def __init__(self, channels: Channels, streams: Wanted) -> None:
        self._channels = channels
        self._budget = Budget()
        self.is_structured = channels.protocol.startswith(_STRUCTURED)
        self._inboxes = {_RESIZE: Inbox(self._budget)}
        if streams.stdin:
            self._inboxes[_STDIN] = Inbox(self._budget)
        self.stdin: Receiver | None = self._inboxes.get(_STDIN)
        self.resizes: Receiver | None = self._inboxes[_RESIZE]
        self._wanted: set[Output] = {"error"}
        if streams.stdout:
            self._wanted.add("stdout")
        if streams.stderr:
            self._wanted.add("stderr")

    @property
    def count(self) -> int:
        return self._channels.count

    async def run(self) -> None:
        try:
            # an empty message on the first channel shows the client that the connection stands
            await self._channels.send(min(_OUTPUTS[output] for output in self._wanted), b"")
            while heard := await self._channels.receive():
                channel, data = heard
                inbox = self._inboxes.get(channel)
                if inbox is not None and data is None:
                    inbox.end()
                elif inbox is not None and data is not None:
                    inbox.put(data)
                    await self._budget.room()
        finally:
            for inbox in self._inboxes.values():
                inbox.break_off()

    async def say(self, output: Output, data: bytes) -> None:
        if output in self._wanted:
            await self._channels.send(_OUTPUTS[output], data)

    async def end(self) -> None:
        """The end of the connection is the end of all."""

    async def nudge(self) -> None:
        if self._budget.is_spent:
            await self._channels.nudge()

    async def close(self, patience: float) -> None:
        await self._channels.close(patience)


class SpdyLine:
    """The client opens a stream for each thing that it wants to hold, and names it."""

    def __init__(self, carrier: Carrier, protocol: str, streams: Wanted) -> None:
        self._connection = SpdyConnection(carrier, self._accept)
        self.is_structured = protocol == _V4
        self._awaited = {"error"}
        for name, is_wanted in (
            ("stdin", streams.stdin),
            ("stdout", streams.stdout),
            ("stderr", streams.stderr),
            ("resize", streams.tty and protocol in _RESIZABLE),
        ):
            if is_wanted:
                self._awaited.add(name)
        self._streams: dict[str, SpdyStream] = {}
        self._is_open = asyncio.Event()
        self.stdin: Receiver | None = _Later(self._is_open, lambda: self._streams.get("stdin"))
        self.resizes: Receiver | None = _Later(self._is_open, lambda: self._streams.get("resize"))

    @property
    def count(self) -> int:
        return self._connection.count

    def _accept(self, stream: SpdyStream) -> bool:
        kind = stream.headers.get("streamtype", "")
        if kind not in self._awaited or kind in self._streams:
            log.info("a client opens a stream that nobody awaits: %.40r", kind)
            return False
        self._streams[kind] = stream
        if kind in _OUTPUTS:
            stream.inbox.shut()
        if len(self._streams) == len(self._awaited):
            self._is_open.set()
        return True

    async def run(self) -> None:
        hearing = asyncio.create_task(self._connection.run())
        opening = asyncio.create_task(self._is_open.wait())
        try:
            await asyncio.wait([hearing, opening], timeout=_OPENING, return_when=asyncio.FIRST_COMPLETED)
            if not self._is_open.is_set() and not hearing.done():
                lacking = ", ".join(sorted(self._awaited - self._streams.keys()))
                log.warning("a client did not open these streams in time: %s", lacking)
                return
            await hearing
        finally:
            for task in (hearing, opening):
                task.cancel()
            await asyncio.wait([hearing, opening])

    async def say(self, output: Output, data: bytes) -> None:
        await self._is_open.wait()
        if stream := self._streams.get(output):
            await stream.send(data)

    async def end(self) -> None:
        for output in _OUTPUTS:
            if stream := self._streams.get(output):
                await stream.finish()

    async def nudge(self) -> None:
        await self._connection.nudge()

    async def close(self, patience: float) -> None:
        await self._connection.close(patience)


class _Later:
    """A stream that the client has yet to open."""

    def __init__(self, is_open: asyncio.Event, stream: Callable[[], SpdyStream | None]) -> None:
        self._is_open = is_open
        self._stream = stream

    async def receive(self) -> bytes:
        await self._is_open.wait()
        stream = self._stream()
        if stream is None:
            raise ConnectionResetError("the client has not asked for this stream")
        return await stream.receive()
