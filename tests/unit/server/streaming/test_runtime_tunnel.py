"""Upgraded connections that are handed on to a runtime's own streaming server, byte for byte."""

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from kit.waiting import eventually
from pykubelet.server.application import Route, application
from pykubelet.server.streaming import runtime_tunnel as module
from pykubelet.server.streaming.runtime_tunnel import tunnel_to_runtime
from pykubelet.web.serving import serving

UPGRADE = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\n"

Reader = asyncio.StreamReader
Writer = asyncio.StreamWriter
Serve = Callable[[Reader, Writer], Awaitable[None]]


class Front:
    """The kubelet's side: what it hands on, and to where."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.idle = 60.0
        self.is_done = False

    async def handler(self, request: web.Request) -> web.StreamResponse:
        try:
            return await tunnel_to_runtime(request, self.url, idle=self.idle)
        finally:
            self.is_done = True


class Runtime:
    """A streaming server that says yes to everything, and then does what the test wants."""

    def __init__(self, serve: Serve) -> None:
        self.heads: list[str] = []
        self._serve = serve
        self._tasks: set[asyncio.Task[Any]] = set()

    async def __call__(self, reader: Reader, writer: Writer) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            self.heads.append((await reader.readuntil(b"\r\n\r\n")).decode())
            await self._serve(reader, writer)
            writer.close()
            await writer.wait_closed()
        except (ConnectionError, asyncio.CancelledError):
            writer.transport.abort()

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


@asynccontextmanager
async def joined(serve: Serve, **options: Any) -> AsyncIterator[tuple[Front, Runtime, Reader, Writer]]:
    """A client that has asked for an upgrade, and everything between it and a runtime."""
    runtime = Runtime(serve)
    server = await asyncio.start_server(runtime, "127.0.0.1", 0, limit=1 << 20)
    front = Front(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/exec/token?a=b")
    front.idle = options.pop("idle", 60.0)
    try:
        async with serving(application([Route("POST", "/x", front.handler, True)], None), "127.0.0.1", 0) as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 20)
            head = "POST /x?secret=1 HTTP/1.1\r\nHost: us\r\nAuthorization: Bearer abc\r\nCookie: c\r\n"
            head += "Connection: Upgrade\r\nUpgrade: SPDY/3.1\r\nX-Stream-Protocol-Version: v4.channel.k8s.io\r\n"
            head += "".join(f"{line}\r\n" for line in options.pop("headers", []))
            writer.write((head + "Content-Length: 0\r\n\r\n").encode())
            try:
                yield front, runtime, reader, writer
            finally:
                writer.transport.abort()
                await eventually(lambda: front.is_done)
    finally:
        await runtime.stop()
        server.close()


async def echo(reader: Reader, writer: Writer) -> None:
    writer.write(UPGRADE)
    while data := await reader.read(1 << 18):
        writer.write(data)
        await writer.drain()


async def test_both_sides_hear_each_other_and_the_runtime_hears_no_secrets() -> None:
    async with joined(echo) as (_, runtime, reader, writer):
        assert await reader.readuntil(b"\r\n\r\n") == UPGRADE
        much = os.urandom(1 << 20) * 8
        writer.write(much)
        assert await reader.readexactly(len(much)) == much
        writer.write_eof()
        assert await reader.read() == b""
        lines = runtime.heads[0].split("\r\n")
        assert lines[0] == "POST /exec/token?a=b HTTP/1.1"
        assert "Upgrade: SPDY/3.1" in lines
        assert "X-Stream-Protocol-Version: v4.channel.k8s.io" in lines
        assert not any(line.lower().startswith(("authorization", "cookie")) for line in lines)


@pytest.mark.parametrize(
    ("offered", "handed_on"),
    [
        (["base64url.bearer.authorization.k8s.io.YWJj, v4.channel.k8s.io"], ["v4.channel.k8s.io"]),
        (["base64url.bearer.authorization.k8s.io.YWJj", "v5.channel.k8s.io,v4.channel.k8s.io"], ["v5.", "v4."]),
    ],
)
async def test_the_runtime_does_not_hear_the_token_that_a_browser_has_to_put_among_the_protocols(
    offered: list[str], handed_on: list[str]
) -> None:
    async with joined(echo, headers=[f"Sec-WebSocket-Protocol: {each}" for each in offered]) as (_, runtime, reader, _):
        await reader.readuntil(b"\r\n\r\n")
        (line,) = (each for each in runtime.heads[0].split("\r\n") if each.lower().startswith("sec-websocket-protocol"))
        assert "bearer" not in line
        assert all(each in line for each in handed_on)


async def test_what_comes_right_behind_the_answer_is_not_lost() -> None:
    async def eager(_: Reader, writer: Writer) -> None:
        writer.write(UPGRADE + b"at once")

    async with joined(eager) as (_, _, reader, _):
        assert await reader.read() == UPGRADE + b"at once"


async def test_one_side_may_have_said_all_and_still_listen() -> None:
    async def count(reader: Reader, writer: Writer) -> None:
        writer.write(UPGRADE)
        writer.write(b"%d" % len(await reader.read()))

    async with joined(count) as (front, _, reader, writer):
        assert await reader.readuntil(b"\r\n\r\n") == UPGRADE
        writer.write(bytes(100_000))
        writer.write_eof()
        assert await reader.read() == b"100000"
        await eventually(lambda: front.is_done)  # both have said all: nothing is left to wait for


async def test_the_last_words_arrive_however_slowly_they_are_taken() -> None:
    gone = asyncio.Event()

    async def speech(_: Reader, writer: Writer) -> None:
        writer.write(UPGRADE + bytes(4 << 20))
        writer.close()
        await writer.wait_closed()
        gone.set()

    async with joined(speech) as (_, _, reader, _):
        whole = 0
        while data := await reader.read(1 << 14):
            whole += len(data)
            if gone.is_set():
                await asyncio.sleep(0.001)
        assert gone.is_set()
        assert whole == len(UPGRADE) + (4 << 20)


async def test_a_client_that_is_gone_is_gone_for_the_runtime() -> None:
    ended = asyncio.Event()

    async def wait(reader: Reader, writer: Writer) -> None:
        writer.write(UPGRADE)
        with suppress(ConnectionError):
            await reader.read()
        ended.set()

    async with joined(wait) as (front, _, reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        writer.transport.abort()
        async with asyncio.timeout(10):
            await ended.wait()
        await eventually(lambda: front.is_done)


@pytest.mark.parametrize("who", ["client", "runtime"])
async def test_who_never_reads_holds_the_other_up_and_memory_stays_bounded(who: str) -> None:
    sent = 0

    async def flood(writer: Writer) -> None:
        nonlocal sent
        with suppress(ConnectionError):
            while True:
                writer.write(bytes(1 << 18))
                await writer.drain()
                sent += 1 << 18

    async def serve(reader: Reader, writer: Writer) -> None:
        writer.write(UPGRADE)
        await (flood(writer) if who == "client" else asyncio.Event().wait())

    async with joined(serve, idle=1.0) as (front, _, reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        flooding = asyncio.create_task(flood(writer) if who == "runtime" else asyncio.sleep(0))
        await eventually(lambda: front.is_done)  # silent, in the end
        flooding.cancel()
    assert 0 < sent < 64 << 20


async def test_a_silent_connection_is_ended() -> None:
    async with joined(echo, idle=0.3) as (front, _, reader, _):
        with suppress(ConnectionError):
            assert await reader.read() == UPGRADE
        await eventually(lambda: front.is_done)


async def test_a_refusal_is_passed_on() -> None:
    async def refuse(_: Reader, writer: Writer) -> None:
        writer.write(b"HTTP/1.1 404 Not Found\r\nContent-Length: 14\r\n\r\nno such token\n")

    async with joined(refuse) as (_, _, reader, _):
        head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 404")
        assert await reader.readexactly(14) == b"no such token\n"


@pytest.mark.parametrize(
    ("url", "status", "text"),
    [
        ("https://127.0.0.1:1/", 400, "an address that we cannot use"),
        ("http://127.0.0.1/", 400, "an address that we cannot use"),
        ("http://127.0.0.1:1/", 503, "does not answer"),
    ],
)
async def test_a_streaming_server_that_cannot_be_reached_is_told(url: str, status: int, text: str) -> None:
    front = Front(url)
    async with (
        serving(application([Route("GET", "/x", front.handler, True)], None), "127.0.0.1", 0) as port,
        aiohttp.ClientSession() as session,
        session.get(f"http://127.0.0.1:{port}/x", headers={"Connection": "Upgrade", "Upgrade": "SPDY/3.1"}) as answer,
    ):
        assert (answer.status, text in await answer.text()) == (status, True)


@pytest.mark.parametrize("manner", ["hangs up", "says nothing"])
async def test_a_streaming_server_that_gives_no_answer_is_told(manner: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_ANSWERING", 0.2)

    async def serve(_: Reader, writer: Writer) -> None:
        if manner == "says nothing":
            await asyncio.Event().wait()

    async with joined(serve) as (_, _, reader, _):
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 503")


async def test_who_does_not_ask_for_an_upgrade_is_told_so_without_bothering_the_runtime() -> None:
    front = Front("http://127.0.0.1:1/exec/token")
    async with (
        serving(application([Route("POST", "/x", front.handler, True)], None), "127.0.0.1", 0) as port,
        aiohttp.ClientSession() as session,
        session.post(f"http://127.0.0.1:{port}/x", data=b"a body that nobody reads") as answer,
    ):
        assert (answer.status, await answer.text()) == (400, "Upgrade request required")
