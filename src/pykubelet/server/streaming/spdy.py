"""The server's side of a SPDY/3.1 connection: its streams, each to be read and written, on a socket or a WebSocket.

There are no windows (`spdy_frames`), so a stream that nobody takes from holds up the whole connection once its share of
the budget is full: memory stays bounded, and the client feels it as a full socket.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Final, Protocol

from aiohttp import WSMsgType, web

from pykubelet.server.streaming.inbox import Budget, Inbox
from pykubelet.server.streaming.spdy_frames import (
    CANCEL,
    PROTOCOL_ERROR,
    REFUSED_STREAM,
    Data,
    Event,
    Framing,
    GoAway,
    Opened,
    Ping,
    ProtocolError,
    Replied,
    Reset,
    Told,
    data_frame,
    empty_settings_frame,
    go_away_frame,
    ping_frame,
    reset_frame,
)
from pykubelet.web.upgrade import close_web_socket, taken_over, wait_until_received, wants_upgrade

log = logging.getLogger(__name__)

_MOST_STREAMS: Final = 1000
_MOST_HEADERS: Final = 256 << 10
"""Characters in the headers of all open streams together."""
_AT_ONCE: Final = 100
"""Frames that are read before everybody else has a turn: a small one may take long to unpack."""
_LARGEST_SENT: Final = 1 << 20
_READ_AHEAD: Final = 256 << 10
_WRITE_BEHIND: Final = 512 << 10
_SMALL: Final = 1024
_LINGER: Final = 5.0
"""Seconds in which the other side may take what was said last."""
_PROTOCOLS: Final = "X-Stream-Protocol-Version"


class Carrier(Protocol):
    """What carries SPDY's bytes. Writing raises ConnectionError once the other side has gone."""

    async def read(self) -> bytes:
        """Empty at the end."""
        ...

    async def write(self, data: bytes) -> None:
        """Goes out in the order of the calls; waits while too much is on its way."""
        ...

    async def close(self, patience: float) -> None:
        """After what was written has arrived; sooner when none of it did for `patience` seconds."""
        ...


class SpdyStream:
    def __init__(
        self, connection: "SpdyConnection", stream_id: int, headers: Mapping[str, str], budget: Budget
    ) -> None:
        self.id = stream_id
        self.headers = headers
        self.inbox = Inbox(budget)
        self.size = sum(len(name) + len(value) for name, value in headers.items())
        self.has_heard_all = False
        self.has_said_all = False
        self._connection = connection

    async def receive(self) -> bytes:
        """Empty at the end. Raises ConnectionResetError when the other side has given it up."""
        return await self.inbox.receive()

    async def send(self, data: bytes) -> None:
        for at in range(0, len(data), _LARGEST_SENT):
            self._check()
            part = data if len(data) <= _LARGEST_SENT else data[at : at + _LARGEST_SENT]
            await self._connection.write(data_frame(self.id, part))

    async def finish(self) -> None:
        """Nothing more will be sent."""
        if not self.has_said_all:
            self.has_said_all = True
            self._connection.forget_if_done(self)
            await self._connection.write(data_frame(self.id, b"", ended=True))

    async def reset(self) -> None:
        self.inbox.shut()
        if not (self.has_said_all and self.has_heard_all):
            self.has_said_all = self.has_heard_all = True
            self._connection.forget_if_done(self)
            await self._connection.write(reset_frame(self.id, CANCEL))

    def _check(self) -> None:
        if self.has_said_all:
            raise ConnectionResetError("the stream has ended")


class SpdyConnection:
    def __init__(self, carrier: Carrier, accept: Callable[[SpdyStream], bool]) -> None:
        """`accept` is asked about every stream that the other side opens."""
        self.count = 0
        """Grows with everything that is said or heard."""
        self._carrier = carrier
        self._accept = accept
        self._framing = Framing()
        self._budget = Budget()
        self._streams: dict[int, SpdyStream] = {}
        self._header_size = 0
        self._last_id = 0
        self._answers: list[bytes] = []

    async def run(self) -> None:
        """Hear the other side out, to its end."""
        try:
            while data := await self._carrier.read():
                self.count += 1
                for number, event in enumerate(self._framing.feed(data), 1):
                    if isinstance(event, GoAway):
                        return
                    self._handle(event)
                    if number % _AT_ONCE == 0:
                        await asyncio.sleep(0)
                if self._answers:
                    answers, self._answers = b"".join(self._answers), []
                    await self.write(answers)
                await self._budget.room()
        except ProtocolError as error:
            log.warning("a client's SPDY connection is ended: %s", error)
        except ConnectionError:
            pass
        finally:
            for stream in self._streams.values():
                stream.has_heard_all = stream.has_said_all = True
                stream.inbox.break_off()
            self._streams.clear()

    async def write(self, data: bytes) -> None:
        self.count += 1
        await self._carrier.write(data)

    async def nudge(self) -> None:
        """While nothing is read from it, only a write can show that the other side has gone."""
        if self._budget.is_spent:
            await self._carrier.write(empty_settings_frame())

    async def close(self, patience: float) -> None:
        """Give up what is open, say good-bye, and close."""
        try:
            async with asyncio.timeout(_LINGER):
                for stream in list(self._streams.values()):
                    await stream.reset()
                await self.write(go_away_frame(self._last_id))
        except (ConnectionError, TimeoutError):
            pass
        finally:
            await self._carrier.close(patience)

    def forget_if_done(self, stream: SpdyStream) -> None:
        if stream.has_said_all and stream.has_heard_all and stream.id in self._streams:
            del self._streams[stream.id]
            self._header_size -= stream.size

    # --- what comes

    def _handle(self, event: Event) -> None:
        if isinstance(event, Opened):
            self._open(event)
        elif isinstance(event, Ping):
            if event.ping_id % 2:  # ours would be even
                self._answers.append(ping_frame(event.ping_id))
        elif isinstance(event, Data | Reset | Told | Replied):
            stream = self._streams.get(event.stream_id)
            if stream is None:
                return  # it has just been given up; the other side did not know yet
            if isinstance(event, Reset):
                stream.has_heard_all = stream.has_said_all = True
                stream.inbox.break_off()
            else:
                if isinstance(event, Data):
                    stream.inbox.put(event.data)
                if event.is_ended:
                    stream.has_heard_all = True
                    stream.inbox.end()
            self.forget_if_done(stream)

    def _open(self, event: Opened) -> None:
        stream_id = event.stream_id
        if stream_id <= self._last_id or stream_id % 2 == 0:
            self._answers.append(reset_frame(stream_id, PROTOCOL_ERROR))
            return
        self._last_id = stream_id
        stream = SpdyStream(self, stream_id, event.headers, self._budget)
        if event.is_ended:
            stream.has_heard_all = True
            stream.inbox.end()
        stream.has_said_all = event.is_one_way
        is_full = len(self._streams) >= _MOST_STREAMS or self._header_size + stream.size > _MOST_HEADERS
        if is_full or not self._accept(stream):
            self._answers.append(reset_frame(stream_id, REFUSED_STREAM))
            return
        self._streams[stream_id] = stream
        self._header_size += stream.size
        self.forget_if_done(stream)
        self._answers.append(self._framing.reply(stream_id))


# --- what carries it


class SocketCarrier(asyncio.Protocol):
    def __init__(self) -> None:
        self.transport: asyncio.Transport
        self._budget = Budget()
        self._inbox = Inbox(self._budget)
        self._can_write = asyncio.Event()
        self._can_write.set()
        self._lost = asyncio.Event()
        self._is_closing = False

    def carry(self, transport: asyncio.Transport, early: bytes) -> None:
        self.transport = transport
        transport.set_write_buffer_limits(high=_WRITE_BEHIND)
        if early:
            self.data_received(early)

    def data_received(self, data: bytes) -> None:
        if self._is_closing:
            return
        self._inbox.put(data)
        if self._budget.waiting >= _READ_AHEAD:
            self.transport.pause_reading()

    def eof_received(self) -> None:
        self._inbox.end()

    def connection_lost(self, exc: Exception | None) -> None:
        self._inbox.end()
        self._lost.set()
        self._can_write.set()

    def pause_writing(self) -> None:
        self._can_write.clear()

    def resume_writing(self) -> None:
        self._can_write.set()

    async def read(self) -> bytes:
        data = await self._inbox.receive()
        if not self.transport.is_reading() and not self.transport.is_closing():
            self.transport.resume_reading()
        return data

    async def write(self, data: bytes) -> None:
        if self.transport.is_closing():
            raise ConnectionResetError("the other side has gone")
        self.transport.write(data)
        if len(data) < _SMALL and self.transport.get_write_buffer_size() < 2 * _WRITE_BEHIND:
            return  # who only answers a ping should go on listening, even while the other side is slow to hear
        await self._can_write.wait()

    async def close(self, patience: float) -> None:
        """Its own end of the socket first: were it closed with anything unread, the kernel would drop what was said."""
        self._is_closing = True
        try:
            if not self.transport.is_closing():
                if self.transport.can_write_eof():
                    self.transport.write_eof()
                self.transport.resume_reading()
                await wait_until_received(self.transport, patience)
                async with asyncio.timeout(min(patience, _LINGER)):
                    await self._lost.wait()
        except (TimeoutError, OSError):
            pass
        finally:
            self.transport.abort()


class WebSocketCarrier:
    """SPDY's bytes in binary messages, as kubectl sends them through proxies."""

    def __init__(self, request: web.Request, socket: web.WebSocketResponse) -> None:
        self._request = request
        self._socket = socket

    async def read(self) -> bytes:
        while True:
            message = await self._socket.receive()
            if message.type is not WSMsgType.BINARY:
                return b""
            if message.data:
                return bytes(message.data)

    async def write(self, data: bytes) -> None:
        await self._socket.send_bytes(data)

    async def close(self, patience: float) -> None:
        await close_web_socket(self._request, self._socket, patience=patience)


# --- how it begins


def negotiated(request: web.Request, ours: Sequence[str]) -> str:
    """The first protocol on the client's list that we speak. Raises an HTTPException when there is none."""
    texts = [text.strip() for value in request.headers.getall(_PROTOCOLS, []) for text in value.split(",")]
    theirs = [text for text in texts if text]
    if not theirs:
        raise web.HTTPBadRequest(text=f"unable to upgrade: {_PROTOCOLS} is required")
    chosen = next((text for text in theirs if text in ours), "")
    if not chosen:
        raise web.HTTPForbidden(
            text=f"unable to upgrade: unable to negotiate protocol: client supports {theirs}, "
            f"server accepts {list(ours)}",
            headers={"X-Accepted-Stream-Protocol-Versions": ",".join(ours)},
        )
    if not wants_upgrade(request, "spdy/3.1"):
        raise web.HTTPBadRequest(text="unable to upgrade: missing upgrade headers in request")
    return chosen


@asynccontextmanager
async def spdy_carrier(request: web.Request, protocol: str) -> AsyncIterator[Carrier]:
    """The request's own socket, upgraded. Nothing can be answered to the request any more."""
    carrier = SocketCarrier()
    with taken_over(request, carrier) as (transport, early):
        carrier.carry(transport, early)
        head = (
            "HTTP/1.1 101 Switching Protocols",
            "Connection: Upgrade",
            "Upgrade: SPDY/3.1",
            f"{_PROTOCOLS}: {protocol}",
        )
        transport.write("\r\n".join((*head, "", "")).encode())
        try:
            yield carrier
        finally:
            transport.abort()
