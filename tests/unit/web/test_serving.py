"""The web server under both HTTP APIs, and what nobody may do to it."""

import asyncio
import logging
import socket
import ssl
from asyncio import sslproto
from collections.abc import Awaitable, Callable

import aiohttp
import pytest
from aiohttp import web

from kit.certificates import Authority, server_context
from pykubelet.base.errors import Invalid
from pykubelet.web.serving import Limits, serving


async def fine(_: web.Request) -> web.Response:
    return web.Response(text="fine")


def app(handler: Callable[[web.Request], Awaitable[web.StreamResponse]] = fine) -> web.Application:
    made = web.Application()
    made.router.add_get("/", handler)
    return made


async def get(port: int, **headers: str) -> tuple[int, str]:
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"http://127.0.0.1:{port}/", headers=headers) as answer,
    ):
        return answer.status, await answer.text()


async def test_headers_that_are_too_large_are_refused() -> None:
    async with serving(app(), "127.0.0.1", 0) as port:
        assert (await get(port, X="r" * (60 << 10)))[0] == 200
        assert (await get(port, X="r" * (100 << 10)))[0] == 400
    async with serving(app(), "127.0.0.1", 0, limits=Limits(longest_line=256 << 10)) as port:
        assert (await get(port, X="r" * (100 << 10)))[0] == 200


async def test_who_connects_and_says_nothing_is_shown_the_door() -> None:
    async with serving(app(), "127.0.0.1", 0, limits=Limits(head_seconds=0.2)) as port:
        silent, dribbling = [await asyncio.open_connection("127.0.0.1", port) for _ in range(2)]
        dribbling[1].write(b"GET / HTTP/1.1\r\nX-Na")
        async with asyncio.timeout(10):
            assert await silent[0].read() == b""
            assert b"200" not in await dribbling[0].read()
        assert await get(port) == (200, "fine")
        for _, writer in (silent, dribbling):
            writer.close()


async def test_who_rests_between_two_requests_may_stay() -> None:
    async with serving(app(), "127.0.0.1", 0, limits=Limits(head_seconds=0.2)) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for _ in range(2):
            writer.write(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            async with asyncio.timeout(10):
                assert b"200" in await reader.readuntil(b"fine")
            await asyncio.sleep(0.4)  # longer than anybody has for the first request
        writer.close()


async def test_more_connections_than_we_can_bear_are_refused() -> None:
    async with serving(app(), "127.0.0.1", 0, limits=Limits(connections=2)) as port:
        held = [await asyncio.open_connection("127.0.0.1", port) for _ in range(2)]
        await asyncio.sleep(0.05)
        with pytest.raises(aiohttp.ClientError):
            await get(port)
        for _, writer in held:
            writer.close()
            await writer.wait_closed()
        async with asyncio.timeout(10):
            while True:
                try:
                    assert await get(port) == (200, "fine")
                    break
                except aiohttp.ClientError:
                    await asyncio.sleep(0.01)


async def test_who_never_begins_with_tls_counts_too() -> None:
    limits = Limits(connections=2, head_seconds=1.0)
    tls = server_context(Authority().issue("n1", hosts=["127.0.0.1"]))
    async with serving(app(), "127.0.0.1", 0, tls=tls, limits=limits) as port:
        held = [await asyncio.open_connection("127.0.0.1", port) for _ in range(2)]
        refused = await asyncio.open_connection("127.0.0.1", port)
        ends = [asyncio.ensure_future(reader.read()) for reader, _ in (refused, *held)]
        async with asyncio.timeout(10):
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            assert [end.done() for end in ends] == [True, False, False]  # although it has not said a word either
            assert await asyncio.gather(*ends) == [b"", b"", b""]  # the others after their second
        trusting = ssl.create_default_context()
        trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=trusting)
        writer.write(b"GET / HTTP/1.1\r\nHost: n1\r\nConnection: close\r\n\r\n")
        assert (await reader.read()).endswith(b"fine")
        for _, each in (*held, refused, (reader, writer)):
            each.close()


async def test_a_client_that_vanishes_without_a_word_is_missed_within_minutes() -> None:
    seen: list[int] = []

    async def look(request: web.Request) -> web.Response:
        raw = request.get_extra_info("socket")
        seen.append(raw.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE))
        idle, interval, count = (
            raw.getsockopt(socket.IPPROTO_TCP, option)
            for option in (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT)
        )
        seen.append(idle + interval * count)
        return web.Response()

    async with serving(app(look), "127.0.0.1", 0) as port:
        await get(port)
    assert seen[0] == 1
    assert seen[1] <= 180


async def test_what_is_no_http_gets_one_line_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    async with serving(app(), "127.0.0.1", 0) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET / HTTP/1.1\r\nHost : a\r\n\r\n")
        assert (await reader.read()).startswith(b"HTTP/1.0 400")
        writer.close()
    (record,) = caplog.records
    assert record.exc_info is None
    assert "\n" not in record.getMessage()
    assert record.getMessage().startswith("a request from 127.0.0.1 cannot be read: Invalid header token")


async def test_an_address_that_is_taken_is_told() -> None:
    async with serving(app(), "127.0.0.1", 0) as port:
        with pytest.raises(Invalid, match=f"cannot serve on 127.0.0.1 port {port}: "):
            async with serving(app(), "127.0.0.1", port):
                pass


async def test_what_asyncio_keeps_for_a_tls_connection_is_what_the_limits_say(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sslproto.SSLProtocol, "max_size", sslproto.SSLProtocol.max_size)  # put back afterwards
    tls = server_context(Authority().issue("n1", hosts=["127.0.0.1"]))
    kept: list[int] = []

    async def look(request: web.Request) -> web.Response:
        kept.append(len(request.transport._ssl_protocol._ssl_buffer))  # type: ignore[union-attr]
        return web.Response()

    trusting = aiohttp.TCPConnector(ssl=False)
    async with (
        serving(app(look), "127.0.0.1", 0, tls=tls, limits=Limits(tls_buffer=8 << 10)) as port,
        aiohttp.ClientSession(connector=trusting) as session,
        session.get(f"https://127.0.0.1:{port}/") as answer,
    ):
        assert answer.status == 200
    assert kept == [8 << 10]
