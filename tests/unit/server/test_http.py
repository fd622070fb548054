"""The web server under the kubelet's API: who comes in, what errors look like, and what nobody may do to it."""

import asyncio
import io
import logging
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from kit.certificates import Authority, server_context
from pykubelet.base.errors import Conflict, Invalid, NotFound, Retry
from pykubelet.pod.ports.server import Decision, Identity
from pykubelet.server import http
from pykubelet.server.http import Route, application, plain, serving
from pykubelet.server.metrics.metrics import Metrics


class Doorman:
    """Knows everybody who says a name, and lets only `root` in."""

    async def identify(self, request: web.Request) -> Identity | None:
        name = request.headers.get("X-Name", "")
        if name == "ghost":
            raise Retry("nobody can say")
        return Identity(name=name) if name else None

    async def check(self, identity: Identity, method: str, path: str) -> Decision:
        if identity.name == "maybe":
            raise Retry("nobody can say")
        return Decision(allowed=identity.name == "root", reason=f"Forbidden (user={identity.name})")


def raising(error: Exception) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    async def handler(_: web.Request) -> web.StreamResponse:
        raise error

    return handler


async def fine(_: web.Request) -> web.Response:
    return plain(200, "fine")


async def echo(request: web.Request) -> web.Response:
    return web.Response(body=await request.read())


ROUTES = (
    Route("GET", "/fine", fine),
    Route("GET", "/open", fine, is_open=True),
    Route("POST", "/echo", echo),
    Route("GET", "/missing", raising(NotFound("no such pod"))),
    Route("GET", "/bad", raising(Invalid("no such stream"))),
    Route("GET", "/later", raising(Retry("the runtime does not answer"))),
    Route("GET", "/other", raising(Conflict("another pod"))),
    Route("GET", "/broken", raising(RuntimeError("secret"))),
)


@asynccontextmanager
async def server(**options: Any) -> AsyncIterator[int]:
    app = application(ROUTES, options.pop("gate", Doorman()), **options)
    async with serving(app, "127.0.0.1", 0) as port:
        yield port


async def get(port: int, path: str, name: str = "root", method: str = "GET", **extra: Any) -> tuple[int, str]:
    headers = {"X-Name": name} if name else {}
    async with (
        aiohttp.ClientSession() as session,
        session.request(method, f"http://127.0.0.1:{port}{path}", headers=headers, **extra) as answer,
    ):
        return answer.status, await answer.text()


@pytest.mark.parametrize("path", ["/fine", "/open", "/missing", "/broken", "/nowhere"])
async def test_nobody_gets_further_than_the_door_without_a_name_or_a_right(path: str) -> None:
    async with server() as port:
        assert await get(port, path, name="") == (401, "Unauthorized")
        assert await get(port, path, name="ghost") == (401, "Unauthorized")
        assert await get(port, path, name="mallory") == (403, "Forbidden (user=mallory)")
        assert (await get(port, path, name="maybe"))[0] == 500


async def test_errors_say_what_to_do() -> None:
    async with server() as port:
        assert await get(port, "/fine") == (200, "fine")
        assert await get(port, "/missing") == (404, "no such pod")
        assert await get(port, "/bad") == (400, "no such stream")
        assert await get(port, "/later") == (503, "the runtime does not answer")
        assert await get(port, "/other") == (409, "another pod")
        assert await get(port, "/nowhere") == (404, "404 page not found\n")
        assert await get(port, "/broken") == (500, "internal error: the agent's log has more")
        assert (await get(port, "/fine", method="DELETE"))[0] == 405


async def test_a_read_only_port_has_what_is_open_and_nothing_else() -> None:
    async with server(gate=None) as port:
        assert await get(port, "/open", name="") == (200, "fine")
        assert (await get(port, "/fine", name=""))[0] == 404


async def test_a_body_that_is_too_large_is_refused() -> None:
    async with server() as port:
        assert (await get(port, "/echo", method="POST", data=b"x" * 1000))[0] == 200
        assert (await get(port, "/echo", method="POST", data=io.BytesIO(b"x" * (2 << 20))))[0] == 413


async def test_headers_that_are_too_large_are_refused() -> None:
    async with server() as port:
        status, _ = await get(port, "/fine", name="r" * (100 << 10))
        assert status == 400


async def test_who_connects_and_says_nothing_is_shown_the_door(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "_HEAD_SECONDS", 0.2)
    async with server() as port:
        silent, dribbling = [await asyncio.open_connection("127.0.0.1", port) for _ in range(2)]
        dribbling[1].write(b"GET /fine HTTP/1.1\r\nX-Na")
        async with asyncio.timeout(10):
            assert await silent[0].read() == b""
            assert b"200" not in await dribbling[0].read()
        assert await get(port, "/fine") == (200, "fine")
        for _, writer in (silent, dribbling):
            writer.close()


async def test_who_rests_between_two_requests_may_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "_HEAD_SECONDS", 0.2)
    async with server() as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for _ in range(2):
            writer.write(b"GET /fine HTTP/1.1\r\nHost: a\r\nX-Name: root\r\n\r\n")
            async with asyncio.timeout(10):
                assert b"200" in await reader.readuntil(b"fine")
            await asyncio.sleep(0.4)  # longer than anybody has for the first request
        writer.close()


async def test_more_connections_than_we_can_bear_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "_MOST_CONNECTIONS", 2)
    async with server() as port:
        held = [await asyncio.open_connection("127.0.0.1", port) for _ in range(2)]
        await asyncio.sleep(0.05)
        with pytest.raises(aiohttp.ClientError):
            await get(port, "/fine")
        for _, writer in held:
            writer.close()
            await writer.wait_closed()
        async with asyncio.timeout(10):
            while True:
                try:
                    assert await get(port, "/fine") == (200, "fine")
                    break
                except aiohttp.ClientError:
                    await asyncio.sleep(0.01)


async def test_who_never_begins_with_tls_counts_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "_MOST_CONNECTIONS", 2)
    monkeypatch.setattr(http, "_HEAD_SECONDS", 1.0)
    tls = server_context(Authority().issue("n1", hosts=["127.0.0.1"]))
    async with serving(application(ROUTES, Doorman()), "127.0.0.1", 0, tls=tls) as port:
        held = [await asyncio.open_connection("127.0.0.1", port) for _ in range(2)]
        refused = await asyncio.open_connection("127.0.0.1", port)
        async with asyncio.timeout(0.5):
            assert await refused[0].read() == b""  # at once, although it has not said a word either
        async with asyncio.timeout(10):
            for reader, _ in held:
                assert await reader.read() == b""  # after its second
        trusting = ssl.create_default_context()
        trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=trusting)
        writer.write(b"GET /fine HTTP/1.1\r\nHost: n1\r\nX-Name: root\r\nConnection: close\r\n\r\n")
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
        return plain(200, "")

    async with serving(application([Route("GET", "/", look, is_open=True)], None), "127.0.0.1", 0) as port:
        await get(port, "/")
    assert seen[0] == 1
    assert seen[1] <= 180


async def test_what_is_no_http_gets_one_line_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    async with server() as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /fine HTTP/1.1\r\nHost : a\r\n\r\n")
        assert (await reader.read()).startswith(b"HTTP/1.0 400")
        writer.close()
    (record,) = caplog.records
    assert record.exc_info is None
    assert "\n" not in record.getMessage()
    assert record.getMessage().startswith("a request from 127.0.0.1 cannot be read: Invalid header token")


async def test_an_address_that_is_taken_is_told() -> None:
    async with server() as port:
        with pytest.raises(Invalid, match=f"cannot serve on 127.0.0.1 port {port}: "):
            async with serving(application(ROUTES, None), "127.0.0.1", port):
                pass


async def test_every_request_is_counted_whatever_becomes_of_it() -> None:
    metrics = Metrics("n1")
    app = application((*ROUTES, *metrics.routes()), Doorman())
    metrics.attend(app)
    async with serving(app, "127.0.0.1", 0) as port:
        assert [
            (await get(port, "/fine"))[0],
            (await get(port, "/fine", name=""))[0],
            (await get(port, "/broken"))[0],
            (await get(port, "/nowhere"))[0],
        ] == [200, 401, 500, 404]
        _, text = await get(port, "/metrics")
    lines = [line for line in text.splitlines() if line.startswith("kubelet_http_requests_total{")]
    assert [line.rpartition(" ")[2] for line in lines if 'path="other"' in line and 'method="GET"' in line] == ["4"]
