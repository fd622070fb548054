"""Port-forward, served by ourselves: connections into a pod on a client's SPDY or WebSocket connection.

On SPDY each forwarded connection is a pair of streams, one for its bytes and one for what goes wrong; kubectl may wrap
all of that in a WebSocket. The older WebSocket protocol names its ports beforehand and has one connection for each.
"""

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, Final, Protocol

from aiohttp import web

from pykubelet.base.errors import Invalid, PykubeletError
from pykubelet.pod.ports.server import Connection
from pykubelet.server.streaming.channels import Channels
from pykubelet.server.streaming.inbox import Budget, Inbox
from pykubelet.server.streaming.spdy import (
    Carrier,
    SpdyConnection,
    SpdyStream,
    WebSocketCarrier,
    negotiated,
    spdy_carrier,
)
from pykubelet.web.upgrade import (
    offered_protocols,
    surely,
    switched,
    until_silent,
    wait_for_all,
    wants_upgrade,
    web_socket,
)

log = logging.getLogger(__name__)

Connect = Callable[[int], Awaitable[Connection]]

_PROTOCOL: Final = "portforward.k8s.io"
_TUNNELED: Final = f"SPDY/3.1+{_PROTOCOL}"
_CHANNEL_PROTOCOLS: Final = ("v4.channel.k8s.io", "v4.base64.channel.k8s.io", "")
_PAIRING: Final = 30.0
_MOST_PAIRS: Final = 500
"""Of one client at a time. A pair whose streams are given up counts until its connection has ended, too."""


class Bytes(Protocol):
    """The client's end of one forwarded connection."""

    async def receive(self) -> bytes:
        """Empty at the end. Raises ConnectionError when the client has given it up."""
        ...

    async def send(self, data: bytes) -> None: ...

    async def finish(self) -> None:
        """Nothing more comes from the pod."""
        ...


async def forward(request: web.Request, connect: Connect, ports: list[int], *, idle: float) -> web.StreamResponse:
    """Until the client goes, or nobody says anything for `idle` seconds. Ports matter to WebSocket clients alone."""
    if not wants_upgrade(request, "websocket"):
        async with spdy_carrier(request, negotiated(request, (_PROTOCOL,))) as carrier:
            await _spdy(carrier, connect, idle)
        return switched()
    if _TUNNELED in offered_protocols(request):
        socket = await web_socket(request, (_TUNNELED,))
        await _spdy(WebSocketCarrier(request, socket), connect, idle)
        return socket
    if not ports:
        raise Invalid('query parameter "port" is required')
    socket = await web_socket(request, _CHANNEL_PROTOCOLS)
    await _channels(Channels(request, socket), connect, ports, idle)
    return socket


# --- one connection


async def _join(client: Bytes, port: int, connect: Connect, *, half_open: bool) -> str:
    """Carry bytes both ways to the end. -> what went wrong, for the client; empty: nothing did"""
    try:
        connection = await connect(port)
    except (PykubeletError, OSError) as error:
        return f"error forwarding port {port} to pod: {error}"
    up = asyncio.create_task(_up(client, connection))
    down = asyncio.create_task(_down(client, connection))
    try:
        await asyncio.wait([up, down], return_when=asyncio.FIRST_EXCEPTION if half_open else asyncio.FIRST_COMPLETED)
        if not half_open and up.done() and not up.exception():
            await asyncio.wait([down])
        for task in (up, down):
            if task.done():
                task.result()
    except _Gone:
        log.debug("a client has given up a connection to port %d", port)
    except (PykubeletError, OSError) as error:
        return f"error forwarding port {port} to pod: {error}"
    finally:
        for task in (up, down):
            task.cancel()
        await surely(_close_all(connection, up, down))
    return ""


class _Gone(Exception):
    """The client has gone: nothing went wrong, and nobody is there to be told."""


async def _up(client: Bytes, connection: Connection) -> None:
    while True:
        try:
            data = await client.receive()
        except ConnectionError:
            raise _Gone from None
        if not data:
            return await connection.end()
        await connection.send(data)


async def _down(client: Bytes, connection: Connection) -> None:
    while data := await connection.receive():
        try:
            await client.send(data)
        except ConnectionError:
            raise _Gone from None
    with suppress(ConnectionError):
        await client.finish()


async def _close_all(connection: Connection, *tasks: "asyncio.Task[None]") -> None:
    await asyncio.gather(*tasks, return_exceptions=True)
    try:
        await connection.close()
    except (PykubeletError, OSError) as error:
        log.warning("a forwarded connection could not be closed: %s", error)


# --- SPDY


async def _spdy(carrier: Carrier, connect: Connect, idle: float) -> None:
    async with asyncio.TaskGroup() as together:
        pairs = _Pairs(together, connect)
        connection = SpdyConnection(carrier, pairs.accept)
        heard = together.create_task(connection.run())
        try:
            await until_silent(heard, lambda: connection.count, idle, connection.nudge)
        except ConnectionError:
            log.info("a client has gone without a word")
        finally:
            heard.cancel()
            pairs.give_up()
            await connection.close(patience=0.0)


class _Pair:
    def __init__(self) -> None:
        self.streams: dict[str, SpdyStream] = {}
        self.is_complete = asyncio.Event()


class _Pairs:
    """The forwarded connections of one client. A pair is known by the id that its two streams have in common."""

    def __init__(self, together: asyncio.TaskGroup, connect: Connect) -> None:
        self._together = together
        self._connect = connect
        self._incomplete: dict[str, _Pair] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def accept(self, stream: SpdyStream) -> bool:
        kind, port = stream.headers.get("streamtype", ""), stream.headers.get("port", "")
        if kind not in ("data", "error") or not (port.isdecimal() and 0 < int(port) < 65536):
            log.info("a client opens a stream that cannot be forwarded: type %.40r, port %.40r", kind, port)
            return False
        # a client of old gives no id, but opens the stream for data right after the one for errors
        request_id = stream.headers.get("requestid") or f"#{stream.id - (2 if kind == 'data' else 0)}"
        pair = self._incomplete.get(request_id)
        if pair is None:
            if len(self._tasks) >= _MOST_PAIRS:
                log.warning("a client has %d connections to forward at once: more are refused", _MOST_PAIRS)
                return False
            pair = self._incomplete[request_id] = _Pair()
            task = self._together.create_task(self._serve(request_id, pair))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        if kind in pair.streams:
            return False
        pair.streams[kind] = stream
        if kind == "error":
            stream.inbox.shut()
        if len(pair.streams) == 2:
            del self._incomplete[request_id]
            pair.is_complete.set()
        return True

    def give_up(self) -> None:
        for task in self._tasks:
            task.cancel()

    async def _serve(self, request_id: str, pair: _Pair) -> None:
        try:
            message = await self._serve_pair(request_id, pair)
            if (error := pair.streams.get("error")) is not None:
                await error.send(message.encode())
                await error.finish()
        except ConnectionError:
            log.debug("a client has given up request %.40r", request_id)
        except Exception:
            log.exception("a forwarded connection broke")  # the others of this client go on
        finally:
            for stream in pair.streams.values():
                with suppress(ConnectionError):
                    await stream.reset()

    async def _serve_pair(self, request_id: str, pair: _Pair) -> str:
        try:
            async with asyncio.timeout(_PAIRING):
                await pair.is_complete.wait()
        except TimeoutError:
            self._incomplete.pop(request_id, None)
            return f"timed out waiting for the streams of request {request_id}"
        data = pair.streams["data"]
        return await _join(
            _Ending(data, pair.streams["error"]), int(data.headers["port"]), self._connect, half_open=True
        )


class _Ending:
    """kubectl lets go of a connection whose pod has said all only when the stream for errors is at its end, too."""

    def __init__(self, data: SpdyStream, error: SpdyStream) -> None:
        self._data = data
        self._error = error
        self.receive = data.receive
        self.send = data.send

    async def finish(self) -> None:
        await self._data.finish()
        await self._error.finish()


# --- WebSocket channels


class _Channel:
    """One port: the connection's bytes on one channel, what goes wrong on the next."""

    def __init__(self, channels: Channels, number: int, port: int, budget: Budget) -> None:
        self.inbox = Inbox(budget)
        self._channels = channels
        self._number = number
        self._port = port

    async def serve(self, connect: Connect) -> None:
        for number in (self._number, self._number + 1):
            await self._channels.send(number, self._port.to_bytes(2, "little"))
        message = await _join(self, self._port, connect, half_open=False)
        self.inbox.shut()
        if message:
            await self._channels.send(self._number + 1, message.encode())

    async def receive(self) -> bytes:
        return await self.inbox.receive()

    async def send(self, data: bytes) -> None:
        await self._channels.send(self._number, data)

    async def finish(self) -> None:
        """There is no word for it."""


async def _channels(channels: Channels, connect: Connect, ports: list[int], idle: float) -> None:
    """Until the last connection has ended, too: there will be no other."""
    budget = Budget()
    clients = [_Channel(channels, 2 * index, port, budget) for index, port in enumerate(ports)]

    async def hear() -> None:
        try:
            while heard := await channels.receive():
                number, data = heard
                if number % 2 == 0 and number < 2 * len(clients) and data:
                    clients[number // 2].inbox.put(data)
                    await budget.room()
        finally:
            for client in clients:
                client.inbox.break_off()

    async def nudge() -> None:
        if budget.is_spent:
            await channels.nudge()

    hearing: asyncio.Future[Any] = asyncio.ensure_future(hear())
    serving: asyncio.Future[Any] = asyncio.gather(*(client.serve(connect) for client in clients))
    either = asyncio.ensure_future(asyncio.wait([hearing, serving], return_when=asyncio.FIRST_COMPLETED))
    patience = 0.0
    try:
        await until_silent(either, lambda: channels.count, idle, nudge)
        patience = (idle or math.inf) if serving.done() else 0.0
    except ConnectionError:
        log.info("a client has gone without a word")
    finally:
        for task in (hearing, serving, either):
            task.cancel()
        await surely(wait_for_all(hearing, serving, either))
    await channels.close(patience)
