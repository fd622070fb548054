"""An upgraded connection, handed on byte for byte to the runtime's own streaming server.

SPDY or WebSocket, exec or port-forward: what is said on the connection is between the two ends. We only see to it that
neither floods the other, and that the end of one is the end of the other.
"""

import asyncio
import logging
import math
from collections.abc import Iterator
from typing import Final
from urllib.parse import urlsplit

from aiohttp import web

from pykubelet.base.errors import Invalid, Retry
from pykubelet.server.auth.auth import TOKEN_PROTOCOL
from pykubelet.server.http import plain
from pykubelet.web.upgrade import arrived, no_nudge, switched, taken_over, until_silent, wants_upgrade

log = logging.getLogger(__name__)

_CONNECTING: Final = 10.0
_ANSWERING: Final = 30.0
_LINGER: Final = 5.0
_LARGEST_HEAD: Final = 64 << 10
_NOT_HANDED_ON: Final = frozenset({"host", "authorization", "cookie"})
"""Who somebody is to us is not the runtime's business."""


async def tunnel(request: web.Request, url: str, *, idle: float = 14400.0) -> web.StreamResponse:
    """Until either side ends it, or nothing was said for `idle` seconds. Raises base.errors before it has begun."""
    if not wants_upgrade(request, ""):
        raise Invalid("Upgrade request required")
    far = await _connected(url)
    try:
        head = await _asked(far, request, url)
        if not head.startswith(b"HTTP/1.1 101"):
            return _refusal(head)
        await _joined(request, far, head, idle)
    finally:
        far.transport.close()
    return switched()


async def _joined(request: web.Request, far: "_End", head: bytes, idle: float) -> None:
    near = _End()
    with taken_over(request, near) as (front, early):
        near.transport = front
        near.other, far.other = far, near
        either = asyncio.ensure_future(asyncio.wait([near.lost, far.lost], return_when=asyncio.FIRST_COMPLETED))
        try:
            front.write(head)
            if early:
                far.transport.write(early)
            far.transport.resume_reading()
            await until_silent(either, lambda: near.count + far.count, idle, no_nudge)
            if far.lost.done():
                await near.close(idle or math.inf)
        finally:
            either.cancel()
            front.abort()


class _End(asyncio.Protocol):
    """One end. Until it has another, it keeps what it hears: that is the head of the answer."""

    transport: asyncio.Transport

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self.other: _End | None = None
        self.lost: asyncio.Future[None] = loop.create_future()
        self.head: asyncio.Future[bytes] = loop.create_future()
        self.count = 0
        self.has_ended = False
        self._heard = bytearray()
        self._is_closing = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        if self._is_closing:
            return
        if self.other is not None:
            self.count += len(data)
            self.other.transport.write(data)
            return
        self._heard += data
        if b"\r\n\r\n" in self._heard or len(self._heard) > _LARGEST_HEAD:
            self.transport.pause_reading()
            if not self.head.done():
                self.head.set_result(bytes(self._heard))

    def eof_received(self) -> bool:
        """One side has said all it has to say; it may still listen, unless the other one has said all, too."""
        self.has_ended = True
        other = self.other
        if other is None or other.transport.is_closing():
            return False
        if other.has_ended or not other.transport.can_write_eof():  # TLS knows no half
            other.transport.close()
            return False
        other.transport.write_eof()
        return self.transport.can_write_eof()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.head.done():
            self.head.set_exception(Retry("the runtime's streaming server hung up"))
            self.head.exception()  # perhaps nobody waits for it any more
        if not self.lost.done():
            self.lost.set_result(None)

    async def close(self, patience: float) -> None:
        """Nothing more will be written; what was, should arrive, so what the other side still says is read over."""
        self.other = None
        self._is_closing = True
        if self.transport.is_closing():
            return
        if not self.transport.can_write_eof():
            await arrived(self.transport, patience)
            self.transport.close()
        else:
            self.transport.write_eof()
            self.transport.resume_reading()
            await arrived(self.transport, patience)
        await asyncio.wait([self.lost], timeout=min(patience, _LINGER))

    def pause_writing(self) -> None:
        if self.other is not None:
            self.other.transport.pause_reading()

    def resume_writing(self) -> None:
        if self.other is not None and not self.other.transport.is_closing():
            self.other.transport.resume_reading()


async def _connected(url: str) -> _End:
    parts = urlsplit(url)
    if parts.scheme != "http" or not parts.hostname or not parts.port:
        raise Invalid(f"the runtime's streaming server has an address that we cannot use: {parts.scheme}://...")
    try:
        async with asyncio.timeout(_CONNECTING):
            _, end = await asyncio.get_running_loop().create_connection(_End, parts.hostname, parts.port)
    except (OSError, TimeoutError) as error:
        raise Retry(f"the runtime's streaming server does not answer: {error}") from None
    return end


async def _asked(far: _End, request: web.Request, url: str) -> bytes:
    """The request as it came, less what is ours alone. -> the head of the answer, and what came with it"""
    parts = urlsplit(url)
    target = parts.path + (f"?{parts.query}" if parts.query else "")
    lines = [f"{request.method} {target} HTTP/1.1", f"Host: {parts.netloc}"]
    lines += [f"{name}: {value}" for name, value in _handed_on(request)]
    far.transport.write("\r\n".join([*lines, "", ""]).encode("utf-8", "surrogateescape"))
    try:
        async with asyncio.timeout(_ANSWERING):
            return await far.head
    except TimeoutError:
        raise Retry("the runtime's streaming server does not answer") from None


def _handed_on(request: web.Request) -> Iterator[tuple[str, str]]:
    for name, value in request.headers.items():
        if name.lower() == "sec-websocket-protocol":
            offered = [each for each in value.split(",") if not each.strip().startswith(TOKEN_PROTOCOL)]
            if offered:
                yield name, ",".join(offered)
        elif name.lower() not in _NOT_HANDED_ON:
            yield name, value


def _refusal(head: bytes) -> web.Response:
    first, _, body = head.partition(b"\r\n\r\n")
    words = first.split(b" ", 2)
    status = int(words[1]) if len(words) > 1 and words[1].isdigit() else 502
    return plain(status, body.decode(errors="replace"))
