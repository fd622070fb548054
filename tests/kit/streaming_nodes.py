"""The kubelet's streaming handlers on programs and ports of this machine, and clients of such ports."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

from aiohttp import web

from kit.local_streams import LocalConnection, LocalSession
from kit.spdy import SpdyClient, spdy_client
from kit.waiting import eventually
from pykubelet.pod.ports.server import Session
from pykubelet.server.application import Route, application
from pykubelet.server.streaming.port_forward import forward
from pykubelet.server.streaming.remote_command import serve_session
from pykubelet.web.serving import serving

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class SessionNode:
    """Runs on this machine what is asked for."""

    def __init__(self) -> None:
        self.sessions: list[Any] = []
        self.upgrades: list[str] = []
        self.idle = 60.0
        self.attached_to: list[str] = []

    async def execute(self, request: web.Request) -> web.StreamResponse:
        return await self._served(request, request.query.getall("command"))

    async def attach(self, request: web.Request) -> web.StreamResponse:
        return await self._served(request, self.attached_to, attached=True)

    async def _served(self, request: web.Request, command: list[str], *, attached: bool = False) -> web.StreamResponse:
        self.upgrades.append(request.headers.get("Upgrade", ""))
        tty = request.query.get("tty") == "true"
        session = await self.session(command, tty)
        self.sessions.append(session)
        return await serve_session(request, session, tty=tty, idle=self.idle, attached=attached)

    async def session(self, command: list[str], tty: bool) -> Session:
        return await LocalSession.start(command, tty=tty)

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[int]:
        async with serving(application([Route("GET", "/exec", self.execute, True)], None), "127.0.0.1", 0) as port:
            yield port

    async def all_closed(self, count: int = 1) -> None:
        await eventually(lambda: [session.is_closed for session in self.sessions] == [True] * count)


class ForwardNode:
    def __init__(self) -> None:
        self.connections: list[LocalConnection] = []
        self.protocols: list[str] = []
        self.idle = 60.0
        self.is_done = 0

    async def connect(self, port: int) -> LocalConnection:
        self.connections.append(await LocalConnection.to(port))
        return self.connections[-1]

    async def handler(self, request: web.Request) -> web.StreamResponse:
        self.protocols.append(request.headers.get("Sec-WebSocket-Protocol", "") or request.headers.get("Upgrade", ""))
        try:
            ports = [int(text) for text in request.query.getall("port", [])]
            return await forward(request, self.connect, ports, idle=self.idle)
        finally:
            self.is_done += 1

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[int]:
        routes = [Route(method, "/pf", self.handler, True) for method in ("GET", "POST")]
        async with serving(application(routes, None), "127.0.0.1", 0) as port:
            yield port

    @asynccontextmanager
    async def client(self) -> AsyncIterator[SpdyClient]:
        async with self.serving() as port, spdy_client(port, "/pf", "portforward.k8s.io") as client:
            yield client


@asynccontextmanager
async def listening(serve: Serve) -> AsyncIterator[int]:
    """A program in a pod. -> its port"""
    tasks: set[asyncio.Task[Any]] = set()

    async def run(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        with suppress(ConnectionError, asyncio.CancelledError):
            await serve(reader, writer)
        writer.close()

    server = await asyncio.start_server(run, "127.0.0.1", 0, limit=512 << 10)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        for task in tasks:
            task.cancel()
        server.close()
        await asyncio.gather(*tasks, return_exceptions=True)


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(256 << 10):
        writer.write(data)
        await writer.drain()


async def count_all(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answers only once the other side has said all."""
    writer.write(b"%d" % len(await reader.read(-1)))


async def never_reads(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await asyncio.Event().wait()


async def exchanged(port: int, data: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)

    async def send() -> None:
        writer.write(data)
        await writer.drain()
        writer.write_eof()

    sending = asyncio.create_task(send())
    async with asyncio.timeout(45):
        answer = await reader.read(-1)
    await sending
    writer.close()
    return answer
