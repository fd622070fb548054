"""An upgraded connection between a client and a kubelet, byte for byte.

SPDY or WebSocket, exec or port-forward: what is said on it is between the two ends. We see to it that neither floods
the other, and that the end of one is the end of the other.
"""

import asyncio
import logging
import ssl
from typing import Final

from aiohttp import web
from multidict import CIMultiDict

from pykubelet.base.errors import Retry

log = logging.getLogger(__name__)

_CONNECTING: Final = 10.0
_ANSWERING: Final = 60.0
_FLUSHING: Final = 30.0
_LARGEST_HEAD: Final = 64 << 10
_OURS_ALONE: Final = frozenset(("host", "authorization", "cookie"))
_OURS_BY_BEGIN: Final = ("impersonate-", "x-remote-")


class Refusal(Exception):
    """The other side does not change the protocol. What it says instead."""

    def __init__(self, status: int, text: str, content_type: str = "text/plain") -> None:
        super().__init__(text)
        self.status = status
        self.text = text
        self.content_type = content_type


def is_ours_alone(header: str) -> bool:
    """Who somebody is to us is not the kubelet's business: it knows us alone."""
    return header.lower() in _OURS_ALONE or header.lower().startswith(_OURS_BY_BEGIN)


def wants_upgrade(request: web.Request) -> bool:
    asked = any("upgrade" in value.lower() for value in request.headers.getall("Connection", []))
    return asked and bool(request.headers.get("Upgrade"))


async def tunnel(
    request: web.Request, host: str, port: int, target: str, context: ssl.SSLContext | None
) -> web.StreamResponse:
    """Until either side ends it. Raises Refusal, or Retry when nobody answers."""
    far = await _connected(host, port, context)
    try:
        head = await _asked(far, request, host, port, target)
        _check(head, request)
        await _joined(request, far, head)
    finally:
        far.transport.abort()
    return web.Response(status=101)  # for our own books: the client has had its answer long ago


async def _joined(request: web.Request, far: "_End", head: bytes) -> None:
    front, http = request.transport, request.protocol
    if front is None or front.is_closing():
        raise Retry("the connection is gone")
    near = _End()
    near.transport = front
    early = bytes(getattr(http, "_message_tail", b""))
    front.set_protocol(near)
    if not front.is_reading():
        front.resume_reading()
    near.other, far.other = far, near
    try:
        front.write(head)
        if early:
            far.transport.write(early)
        far.transport.resume_reading()
        await asyncio.wait([near.lost, far.lost], return_when=asyncio.FIRST_COMPLETED)
        if far.lost.done() and not near.lost.done():
            front.close()  # what was written still goes out
            await asyncio.wait([near.lost], timeout=_FLUSHING)
    finally:
        front.abort()
        http.connection_lost(None)  # so that the library forgets about it


class _End(asyncio.Protocol):
    """One end. Until it has another, it keeps what it hears: that is the head of the answer."""

    transport: asyncio.Transport

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self.other: _End | None = None
        self.lost: asyncio.Future[None] = loop.create_future()
        self.head: asyncio.Future[bytes] = loop.create_future()
        self._heard = bytearray()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        if self.other is not None:
            self.other.transport.write(data)
            return
        self._heard += data
        if b"\r\n\r\n" in self._heard or len(self._heard) > _LARGEST_HEAD:
            self.transport.pause_reading()
            if not self.head.done():
                self.head.set_result(bytes(self._heard))

    def eof_received(self) -> bool:
        """TLS knows no half connections, so neither do we: who has said all is gone once it has got all."""
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.head.done():
            self.head.set_exception(Retry("the kubelet hung up"))
            self.head.exception()  # perhaps nobody waits for it any more
        if not self.lost.done():
            self.lost.set_result(None)
        if self.other is not None and not self.other.transport.is_closing():
            self.other.transport.close()

    def pause_writing(self) -> None:
        if self.other is not None and not self.other.transport.is_closing():
            self.other.transport.pause_reading()

    def resume_writing(self) -> None:
        if self.other is not None and not self.other.transport.is_closing():
            self.other.transport.resume_reading()


async def _connected(host: str, port: int, context: ssl.SSLContext | None) -> _End:
    name = host if context is not None else None
    try:
        async with asyncio.timeout(_CONNECTING):
            _, end = await asyncio.get_running_loop().create_connection(
                _End, host, port, ssl=context, server_hostname=name
            )
    except ssl.SSLError as error:
        raise Retry(f"its certificate is not believed: {error.reason or error}") from None
    except TimeoutError:
        raise Retry(f"it does not answer within {_CONNECTING:g} s") from None
    except OSError as error:
        raise Retry(error.strerror or str(error) or "it hung up") from None
    return end


async def _asked(far: _End, request: web.Request, host: str, port: int, target: str) -> bytes:
    """The request as it came, less what is ours alone. -> the head of the answer, and what came with it"""
    shown = f"[{host}]" if ":" in host else host
    lines = [f"{request.method} {target} HTTP/1.1", f"Host: {shown}:{port}"]
    lines += [f"{name}: {value}" for name, value in request.headers.items() if not is_ours_alone(name)]
    far.transport.write("\r\n".join([*lines, "", ""]).encode("utf-8", "surrogateescape"))
    try:
        async with asyncio.timeout(_ANSWERING):
            return await far.head
    except TimeoutError:
        raise Retry(f"it does not answer within {_ANSWERING:g} s") from None


def _check(head: bytes, request: web.Request) -> None:
    """That the other side speaks what the client wants. If not, the client is told so, and tries another protocol."""
    first, _, body = head.partition(b"\r\n\r\n")
    line, *rest = first.decode("latin-1").split("\r\n")
    words = line.split(" ", 2)
    headers = CIMultiDict((name.strip(), value.strip()) for name, _, value in (each.partition(":") for each in rest))
    status = int(words[1]) if len(words) > 1 and words[1].isdigit() else 502
    if status != 101:
        kind = headers.get("Content-Type", "text/plain").partition(";")[0]
        raise Refusal(status if status >= 400 else 502, body.decode(errors="replace"), kind)
    listed = ",".join(request.headers.getall("Sec-WebSocket-Protocol", []))
    offered = [text.strip() for text in listed.split(",") if text.strip()]
    if offered and headers.get("Sec-WebSocket-Protocol", "") not in offered:
        raise Refusal(403, f"none of the protocols {offered} is spoken by the runtime")
