"""The tunnel between two sockets, with TLS on either side. What a streaming server may do to it is told elsewhere."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

from kit.certificates import Authority, server_context
from kit.waiting import eventually
from pykubelet.base.errors import Retry
from pykubelet.web.serving import serving
from pykubelet.web.tunnel import Destination, Headers, Refusal, tunnel

AUTHORITY = Authority()
UPGRADE = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\nX-Said: yes\r\n\r\n"

Reader = asyncio.StreamReader
Writer = asyncio.StreamWriter
Serve = Callable[[Reader, Writer], Awaitable[None]]


def trusting(authority: Authority = AUTHORITY) -> ssl.SSLContext:
    return ssl.create_default_context(cadata=authority.pem.decode())


class Front:
    """What hands the connection on. `error` is what came of it."""

    def __init__(self, to: Destination) -> None:
        self.to = to
        self.seen: list[Headers] = []
        self.error: Exception | None = None
        self.is_done = False

    async def handle(self, request: web.Request) -> web.StreamResponse:
        try:
            headers = [("X-Ours", "1")]
            return await tunnel(request, self.to, headers, answering=5.0, patience=30.0, check=self.seen.append)
        except (Refusal, Retry) as error:
            self.error = error
            return web.Response(status=500)
        finally:
            self.is_done = True


@asynccontextmanager
async def joined(
    serve: Serve, *, near: bool = False, far: bool = False, trusted: Authority = AUTHORITY
) -> AsyncIterator[tuple[Front, Reader, Writer]]:
    """A client that has asked for an upgrade, and a server at the other end; with TLS `near` the client, or `far`."""
    tls = server_context(AUTHORITY.issue("both", hosts=["127.0.0.1"]))

    async def serve_and_close(reader: Reader, writer: Writer) -> None:
        try:
            await reader.readuntil(b"\r\n\r\n")
            await serve(reader, writer)
            writer.close()
            await writer.wait_closed()
        except ConnectionError:
            writer.transport.abort()

    server = await asyncio.start_server(serve_and_close, "127.0.0.1", 0, ssl=tls if far else None, limit=1 << 20)
    port = server.sockets[0].getsockname()[1]
    front = Front(Destination(host="127.0.0.1", port=port, target="/a?b", tls=trusting(trusted) if far else None))
    app = web.Application()
    app.router.add_get("/", front.handle)
    async with serving(app, "127.0.0.1", 0, tls=tls if near else None) as port:
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", port, ssl=trusting() if near else None, limit=1 << 16
        )
        writer.write(b"GET / HTTP/1.1\r\nHost: us\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n")
        try:
            yield front, reader, writer
        finally:
            writer.transport.abort()
            await eventually(lambda: front.is_done)
            server.close()


EVERY_WAY = pytest.mark.parametrize(
    ("near", "far"), [(False, False), (True, False), (False, True), (True, True)], ids=["plain", "near", "far", "both"]
)


@EVERY_WAY
async def test_both_sides_hear_each_other(near: bool, far: bool) -> None:
    async def echo(reader: Reader, writer: Writer) -> None:
        writer.write(UPGRADE)
        while data := await reader.read(1 << 18):
            writer.write(data)
            await writer.drain()

    async with joined(echo, near=near, far=far) as (front, reader, writer):
        assert await reader.readuntil(b"\r\n\r\n") == UPGRADE
        much = bytes(range(256)) * 8192

        async def speak() -> None:
            writer.write(much)
            await writer.drain()

        async with asyncio.timeout(30), asyncio.TaskGroup() as together:
            together.create_task(speak())
            assert await reader.readexactly(len(much)) == much
        assert [headers["x-said"] for headers in front.seen] == ["yes"]


@EVERY_WAY
async def test_the_last_words_arrive_however_slowly_they_are_taken(near: bool, far: bool) -> None:
    async def speech(_: Reader, writer: Writer) -> None:
        writer.write(UPGRADE + bytes(16 << 20))

    async with joined(speech, near=near, far=far) as (_, reader, _), asyncio.timeout(60):
        whole = 0
        while data := await reader.read(1 << 16):
            whole += len(data)
            await asyncio.sleep(0.001)
        assert whole == len(UPGRADE) + (16 << 20)


@EVERY_WAY
async def test_a_client_that_is_gone_is_gone_for_the_other_side(near: bool, far: bool) -> None:
    ended = asyncio.Event()

    async def wait(reader: Reader, writer: Writer) -> None:
        writer.write(UPGRADE)
        try:
            await reader.read()
        finally:
            ended.set()

    async with joined(wait, near=near, far=far) as (front, reader, writer), asyncio.timeout(10):
        await reader.readuntil(b"\r\n\r\n")
        writer.close()
        await ended.wait()
        await eventually(lambda: front.is_done)


@EVERY_WAY
async def test_last_words_for_a_client_that_is_gone_are_not_waited_for(near: bool, far: bool) -> None:
    async def answer_at_the_end(reader: Reader, writer: Writer) -> None:
        writer.write(UPGRADE)
        await reader.read()
        writer.write(bytes(1000))

    async with joined(answer_at_the_end, near=near, far=far) as (front, reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        writer.close()
        await eventually(lambda: front.is_done, seconds=10.0)


@pytest.mark.parametrize(
    ("answer", "status", "text"),
    [
        (b"HTTP/1.1 404 Not Found\r\nContent-Type: text/html; charset=utf-8\r\n\r\nno", 404, "no"),
        (b"HTTP/1.1 200 OK\r\n\r\nnothing to see", 502, "nothing to see"),
        (b"rubbish\r\n\r\n", 502, ""),
    ],
)
async def test_what_is_no_change_of_protocol_is_a_refusal(answer: bytes, status: int, text: str) -> None:
    async def refuse(_: Reader, writer: Writer) -> None:
        writer.write(answer)

    async with joined(refuse) as (front, reader, _):
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 500")
        assert isinstance(front.error, Refusal)
        assert (front.error.status, front.error.text) == (status, text)
        assert front.seen == []


async def test_a_certificate_that_nobody_vouches_for_is_told() -> None:
    async def never(_: Reader, writer: Writer) -> None:
        raise AssertionError

    async with joined(never, far=True, trusted=Authority()) as (front, reader, _):
        await reader.readuntil(b"\r\n\r\n")
    assert isinstance(front.error, Retry)
    assert "its certificate is not believed" in str(front.error)
