"""An upgraded connection, handed on byte for byte to another server: SPDY or WebSocket, exec or port-forward.

What is said on the connection is between the two ends. We only see to it that neither floods the other, and that the
end of one is the end of the other.
"""

import asyncio
import ssl
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from aiohttp import web
from msgspec import Struct
from multidict import CIMultiDict

from pykubelet.base.errors import Retry
from pykubelet.web.upgrade import no_nudge, switched, taken_over, until_silent, wait_until_received

_CONNECTING: Final = 10.0
_LINGER: Final = 5.0
_LARGEST_HEAD: Final = 64 << 10

Headers = Mapping[str, str]


class Destination(Struct, frozen=True, kw_only=True):
    """What to ask for, and where."""

    host: str
    port: int
    target: str
    tls: ssl.SSLContext | None = None
    name: str = ""
    """Whose certificate has to be at the other end; empty: that of the host."""


class Refusal(Exception):
    """The other side does not change the protocol. What it says instead."""

    def __init__(self, status: int, text: str, content_type: str = "text/plain") -> None:
        super().__init__(text)
        self.status = status
        self.text = text
        self.content_type = content_type

    def response(self) -> web.Response:
        return web.Response(status=self.status, text=self.text, content_type=self.content_type)


async def tunnel(
    request: web.Request,
    to: Destination,
    headers: Iterable[tuple[str, str]],
    *,
    answering: float,
    patience: float,
    idle: float = 0.0,
    check: Callable[[Headers], None] = lambda headers: None,
) -> web.StreamResponse:
    """Until either side ends it, or nothing was said for `idle` seconds; 0: that is no matter.

    The other side gets these `headers`, and has `answering` seconds for its own, at which `check` may look before the
    client hears of them. Its last words are given up when the client takes none of them for `patience` seconds.
    Raises Refusal, or Retry when nobody answers.
    """
    far = await _connect(to)
    try:
        far.transport.write(_head(request.method, to, headers))
        try:
            async with asyncio.timeout(answering):
                head = await far.head
        except TimeoutError:
            raise Retry(f"it does not answer within {answering:g} s") from None
        check(_switching(head))
        await _join(request, far, head, idle, patience)
    finally:
        far.transport.close()
    return switched()


async def _join(request: web.Request, far: "_End", head: bytes, idle: float, patience: float) -> None:
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
                await near.close(patience)
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
        """-> whether the connection stays open. One side has said all it has to say; it may still listen, unless the
        other one has said all, too, or its connection is one by TLS, which knows no half."""
        self.has_ended = True
        other = self.other
        if other is None or other.transport.is_closing() or other.has_ended or not other.transport.can_write_eof():
            return False
        other.transport.write_eof()
        return self.transport.can_write_eof()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.head.done():
            self.head.set_exception(Retry("it hung up"))
            self.head.exception()  # perhaps nobody waits for it any more
        if not self.lost.done():
            self.lost.set_result(None)

    async def close(self, patience: float) -> None:
        """Nothing more will be written; what was, should arrive, so what the other side still says is read over."""
        self.other = None
        self._is_closing = True
        if self.transport.is_closing():
            return
        if self.transport.can_write_eof() and not self.has_ended:
            self.transport.write_eof()
            self.transport.resume_reading()
            await wait_until_received(self.transport, patience)
        else:
            await wait_until_received(self.transport, patience)
            self.transport.close()
        await asyncio.wait([self.lost], timeout=min(patience, _LINGER))

    def pause_writing(self) -> None:
        if self.other is not None and not self.other.transport.is_closing():
            self.other.transport.pause_reading()

    def resume_writing(self) -> None:
        if self.other is not None and not self.other.transport.is_closing():
            self.other.transport.resume_reading()


async def _connect(to: Destination) -> _End:
    name = (to.name or to.host) if to.tls is not None else None
    try:
        async with asyncio.timeout(_CONNECTING):
            _, end = await asyncio.get_running_loop().create_connection(
                _End, to.host, to.port, ssl=to.tls, server_hostname=name
            )
    except ssl.SSLError as error:
        raise Retry(f"its certificate is not believed: {error.reason or error}") from None
    except TimeoutError:
        raise Retry(f"it does not answer within {_CONNECTING:g} s") from None
    except OSError as error:
        raise Retry(error.strerror or str(error) or "it hung up") from None
    return end


def _head(method: str, to: Destination, headers: Iterable[tuple[str, str]]) -> bytes:
    host = f"[{to.host}]" if ":" in to.host else to.host
    lines = [f"{method} {to.target} HTTP/1.1", f"Host: {host}:{to.port}"]
    lines += [f"{name}: {value}" for name, value in headers]
    return "\r\n".join([*lines, "", ""]).encode("utf-8", "surrogateescape")


def _switching(head: bytes) -> Headers:
    """The headers of an answer that changes the protocol. Raises Refusal for any other."""
    first, _, body = head.partition(b"\r\n\r\n")
    line, *rest = first.decode("latin-1").split("\r\n")
    words = line.split(" ", 2)
    headers = CIMultiDict((name.strip(), value.strip()) for name, _, value in (each.partition(":") for each in rest))
    status = int(words[1]) if len(words) > 1 and words[1].isdigit() else 502
    if status != 101:
        kind = headers.get("Content-Type", "text/plain").partition(";")[0]
        raise Refusal(status if status >= 400 else 502, body.decode(errors="replace"), kind)
    return headers
