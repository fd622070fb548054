"""Connections that were HTTP and become something else: taking the socket over, and noticing that nobody is there."""

import asyncio
import fcntl
import logging
import math
import socket
import sys
import termios
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from aiohttp import WSCloseCode, WSMsgType, web

from pykubelet.base.errors import Retry

log = logging.getLogger(__name__)

_LARGEST_MESSAGE: Final = 1 << 20
"""Held as a whole before it is handed on; kubectl's messages have 32 KiB."""
_LEAVING: Final = 0.5
_CLOSING: Final = 5.0
_TCP_CLOSE: Final = 7
"""The kernel's number for the state of a connection that is no more."""
_LOOK: Final = 10.0
"""Seconds between two looks whether a client that does not get on is still there."""


@contextmanager
def taken_over(request: web.Request, protocol: asyncio.Protocol) -> Iterator[tuple[asyncio.Transport, bytes]]:
    """The socket is the protocol's from here on, for good. -> it, and what had already been read from it

    The other side must hear of it only afterwards: what it then sends must not come to the HTTP library.
    """
    transport, http = request.transport, request.protocol
    if transport is None or transport.is_closing():
        raise Retry("the connection is gone")
    early = bytes(getattr(http, "_message_tail", b""))
    transport.set_protocol(protocol)
    if not transport.is_reading():
        transport.resume_reading()
    try:
        yield transport, early
    finally:
        http.connection_lost(None)  # so that the library forgets about it


def switched() -> web.Response:
    """What became of the request, for our own books: the other side has had its answer long ago."""
    return web.Response(status=101)


def wants_upgrade(request: web.BaseRequest, kind: str = "") -> bool:
    """Whether the client asks for another protocol: any, or `websocket` for example."""
    asks = any("upgrade" in value.lower() for value in request.headers.getall("Connection", []))
    wanted = request.headers.get("Upgrade", "").lower()
    return asks and bool(wanted) and kind in wanted


def offered_protocols(request: web.BaseRequest) -> list[str]:
    """What a WebSocket client would speak, in its order."""
    listed = ",".join(request.headers.getall("Sec-WebSocket-Protocol", []))
    return [text.strip() for text in listed.split(",") if text.strip()]


async def web_socket(request: web.Request, ours: Sequence[str]) -> web.WebSocketResponse:
    """With the first protocol on the client's list that we speak. Raises an HTTPException when there is none."""
    theirs = offered_protocols(request)
    if not any(text in ours for text in theirs or [""]):
        raise web.HTTPForbidden(text=f"requested protocol(s) are not supported: {theirs}; supports {list(ours)}")
    socket = web.WebSocketResponse(
        timeout=_CLOSING, protocols=[text for text in ours if text], compress=False, max_msg_size=_LARGEST_MESSAGE
    )
    await socket.prepare(request)
    return socket


async def close_web_socket(request: web.Request, socket: web.WebSocketResponse, *, patience: float) -> None:
    """After a word, and without waiting for one: a client that keeps connections has to see that this one is over."""
    transport = request.transport
    if transport is None or socket.closed:
        return
    try:
        await _wait_until_gone(transport, patience, transport.get_write_buffer_size)
        async with asyncio.timeout(_CLOSING):  # at once: who waits for it may take a while to say what it has got
            await socket.send_frame(WSCloseCode.OK.to_bytes(2), WSMsgType.CLOSE)
        await wait_until_received(transport, patience)
        # It may still be speaking: to close on what nobody has read resets the connection, and takes from it what it
        # has got and not looked at yet. Who has understood the last word leaves by itself.
        transport.resume_reading()
        await _wait_until_gone(transport, _LEAVING, lambda: 1)
        transport.close()
    except (TimeoutError, ConnectionError):
        transport.abort()


async def wait_until_received(transport: asyncio.Transport, patience: float) -> None:
    """Wait until the other side has got what was written, as long as it gets any of it every `patience` seconds."""
    await _wait_until_gone(transport, patience, lambda: _on_its_way(transport))


async def _wait_until_gone(transport: asyncio.Transport, patience: float, count: Callable[[], int]) -> None:
    loop, pause = asyncio.get_running_loop(), 0.01
    left, since = count(), loop.time()
    while left and not transport.is_closing() and loop.time() < since + patience:
        await asyncio.sleep(pause)
        pause = min(pause * 1.5, 0.5)
        before, left = left, count()
        if left != before:
            since = loop.time()


def _on_its_way(transport: asyncio.Transport) -> int:
    """Bytes that we still hold, or the kernel does; none when the other side has reset the connection, which shows by
    itself only to those who still read or write."""
    ours = transport.get_write_buffer_size()
    try:
        connection = transport.get_extra_info("socket")
        if connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0] == _TCP_CLOSE:
            return 0
        raw = fcntl.ioctl(connection.fileno(), termios.TIOCOUTQ, bytes(4))
    except (OSError, ValueError, AttributeError):
        return ours
    return ours + int.from_bytes(raw, sys.byteorder)


async def until_silent(
    work: "asyncio.Future[Any]", count: Callable[[], int], idle: float, nudge: Callable[[], Awaitable[None]]
) -> bool:
    """Wait for the work. -> False when nothing was counted for `idle` seconds before it was done; 0: that is no matter

    Now and then there is a nudge, by which whoever waits for a client finds out that it has gone.
    """
    loop = asyncio.get_running_loop()
    seen, since, idle = count(), loop.time(), idle or math.inf
    while True:
        await asyncio.wait([work], timeout=max(0.0, min(_LOOK, since + idle - loop.time())))
        if work.done():
            return True
        if count() != seen:
            seen, since = count(), loop.time()
        elif loop.time() >= since + idle:
            log.info("a stream was silent for %g s, and is ended", idle)
            return False
        else:
            await nudge()


async def no_nudge() -> None:
    """For connections that show by themselves when their other side has gone."""


async def surely(work: Awaitable[None]) -> None:
    """Do it to its end, even if we are cancelled meanwhile: clients hang up just when things are tidied up."""
    task = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled
    task.result()


async def wait_for_all(*tasks: "asyncio.Future[Any]") -> None:
    """All have ended. That a client has gone is no news; anything else that broke one of them is."""
    for result in await asyncio.gather(*tasks, return_exceptions=True):
        if isinstance(result, Exception) and not isinstance(result, ConnectionError):
            log.error("a stream broke", exc_info=result)
