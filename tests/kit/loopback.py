"""Real servers on the loopback interface: an HTTP server made of one handler, and a forward proxy."""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from pykubelet.kube.client import ApiClient
from pykubelet.kube.credentials import Credentials
from pykubelet.kube.kubeconfig import ClientConfig, Cluster, User

Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


@asynccontextmanager
async def serving(handler: Handler, *, tls: ssl.SSLContext | None = None) -> AsyncIterator[int]:
    """An HTTP server. -> its port."""
    runner = web.ServerRunner(web.Server(handler, handler_cancellation=True, access_log=None), shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls)
    try:
        await site.start()
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


@asynccontextmanager
async def client_of(handler: Handler) -> AsyncIterator[ApiClient]:
    """Of an API server that is nothing but a handler."""
    async with serving(handler) as port:
        config = ClientConfig(Cluster(server=f"http://127.0.0.1:{port}"), User())
        async with ApiClient(Credentials(config, environ={})) as server:
            yield server


Asked = list[tuple[str, str, str, Any]]
"""Method, path, content type and decoded body of each request."""


def always(answer: dict[str, Any], asked: Asked) -> Handler:
    """The same answer to all that is asked, which is written down."""

    async def answered(request: web.BaseRequest) -> web.Response:
        body = await request.text()
        asked.append((request.method, request.path, request.content_type, json.loads(body) if body else None))
        return web.json_response(answer)

    return answered


@dataclass
class ForwardProxy:
    """A proxy that sends every connection to the loopback interface, whatever the name, and notes what it was asked."""

    port: int = 0
    asked: list[str] = field(default_factory=list)
    authorizations: list[str] = field(default_factory=list)
    answer: str = "200 Connection established"


@asynccontextmanager
async def forwarding() -> AsyncIterator[ForwardProxy]:
    proxy = ForwardProxy()
    tasks: set[asyncio.Task[None]] = set()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        task.add_done_callback(tasks.discard)
        try:
            with suppress(ConnectionError, asyncio.IncompleteReadError):
                await _forward(proxy, reader, writer)
        finally:
            writer.close()

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    proxy.port = server.sockets[0].getsockname()[1]
    try:
        yield proxy
    finally:
        server.close()
        for task in tuple(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _forward(proxy: ForwardProxy, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    head = await reader.readuntil(b"\r\n\r\n")
    first, *headers = head.decode().split("\r\n")
    method, target, _ = first.split(" ")
    proxy.asked.append(f"{method} {target}")
    proxy.authorizations += [
        line.partition(":")[2].strip() for line in headers if line.lower().startswith("proxy-authorization:")
    ]
    if not proxy.answer.startswith("200"):
        writer.write(f"HTTP/1.1 {proxy.answer}\r\nContent-Length: 0\r\n\r\n".encode())
        await writer.drain()
        return
    port = int(target.removeprefix("http://").partition("/")[0].rpartition(":")[2])
    upstream_reader, upstream_writer = await asyncio.open_connection("127.0.0.1", port)
    if method == "CONNECT":
        writer.write(f"HTTP/1.1 {proxy.answer}\r\n\r\n".encode())
    else:
        upstream_writer.write(head)
    try:
        async with asyncio.TaskGroup() as both:
            both.create_task(_copy(reader, upstream_writer))
            both.create_task(_copy(upstream_reader, writer))
    finally:
        upstream_writer.close()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
        writer.close()
