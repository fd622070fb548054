"""Somebody holds all connections: idle ones, refused ones, ones that dribble. Everybody else is still served."""

import asyncio
import resource
import socket
import ssl
import threading
import time
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, asynccontextmanager, contextmanager
from functools import cache
from pathlib import Path
from typing import Final

import pytest
from aiohttp import web

from kit.apiserver_process import ApiServerProcess, request
from kit.certificates import Authority, server_context
from kit.waiting import wait_for
from pykubelet.pod.ports.server import Decision, Identity
from pykubelet.server.application import Route, application
from pykubelet.web.serving import Limits, serving

_MANY: Final = 1100
_PROMPTLY: Final = 5.0
_STRANGER: Final = b"GET /api/v1/pods HTTP/1.1\r\nHost: a\r\n\r\n"


@pytest.fixture(autouse=True)
def many_files() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < 4 * _MANY:
        pytest.skip("too few files may be open here")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 4 * _MANY), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServerProcess]:
    server = ApiServerProcess(tmp_path_factory.mktemp("api"), "--controllers=*,-kube-scheduler")
    server.start()
    try:
        yield server
    finally:
        server.kill()


@cache
def trusting() -> ssl.SSLContext:
    """A client that believes every server, and has no certificate of its own."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


@contextmanager
def idle(port: int, count: int) -> Iterator[list[socket.socket]]:
    with ExitStack() as stack:
        yield [stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=30)) for _ in range(count)]


def asked_by_admin(api: ApiServerProcess) -> float:
    """-> the seconds until the answer, with a connection of its own"""
    began = time.monotonic()
    with api.connected() as connection:
        connection.sendall(request(b"GET", "/api/v1/namespaces/default"))
        assert connection.recv(12) == b"HTTP/1.1 200"
    return time.monotonic() - began


@pytest.mark.timeout(120)
def test_idle_connections_keep_nobody_out_of_the_api_server(api: ApiServerProcess) -> None:
    with idle(api.port, _MANY), idle(api.port, _MANY):
        for _ in range(5):
            assert asked_by_admin(api) < _PROMPTLY


@pytest.mark.timeout(120)
def test_a_watch_goes_on_while_strangers_come_and_go(api: ApiServerProcess) -> None:
    with api.connected() as watching:
        watching.sendall(
            request(
                b"GET",
                "/api/v1/namespaces/default/configmaps?watch=1&sendInitialEvents=false&resourceVersionMatch=NotOlderThan",
            )
        )
        assert b" 200 " in watching.recv(400)
        with idle(api.port, _MANY), idle(api.port, _MANY):
            with api.connected() as writing:
                body = b'{"metadata":{"name":"seen"}}'
                writing.sendall(request(b"POST", "/api/v1/namespaces/default/configmaps", body))
                assert writing.recv(12) == b"HTTP/1.1 201"
            told = b""
            while b'"seen"' not in told:
                part = watching.recv(4096)
                assert part
                told += part


@pytest.mark.timeout(120)
def test_a_flood_of_refused_requests_keeps_nobody_out_of_the_api_server(api: ApiServerProcess) -> None:
    over, context, refused = threading.Event(), trusting(), []

    def attack() -> None:
        held: list[ssl.SSLSocket] = []
        while not over.is_set():
            try:
                held.append(api.connected(context))
                held[-1].sendall(_STRANGER)
                refused.append(held[-1].recv(12))
            except OSError:
                pass  # it had to make room
        for each in held:
            each.close()

    with ThreadPoolExecutor(2) as attackers:
        attacks = [attackers.submit(attack) for _ in range(2)]
        try:
            wait_for(lambda: len(refused) > 100, seconds=30)
            for _ in range(10):
                assert asked_by_admin(api) < _PROMPTLY
        finally:
            over.set()
        for each in attacks:
            each.result()
    assert set(refused) <= {b"HTTP/1.1 403", b""}


@pytest.mark.timeout(60)
def test_who_says_nothing_or_dribbles_does_not_stay(api: ApiServerProcess) -> None:
    with api.connected(trusting()) as silent, api.connected(trusting()) as dribbling:
        dribbling.sendall(b"GET / HTTP/1.1\r\nX-A: a")
        for connection in (silent, dribbling):
            connection.settimeout(0.5)
        wait_for(lambda: _has_ended(dribbling, b"a"), seconds=30)
        wait_for(lambda: _has_ended(silent, b""), seconds=5)  # it came at the same time


def _has_ended(connection: ssl.SSLSocket, more: bytes) -> bool:
    try:
        connection.sendall(more)
        got = connection.recv(100)
        return got == b"" or got.startswith(b"HTTP/1.")
    except TimeoutError:
        return False
    except OSError:
        return True


# --- the kubelet's port


class ByToken:
    async def identify(self, request: web.Request) -> Identity | None:
        token = request.headers.get("Authorization", "").removeprefix("Bearer ")
        return Identity(name=token) if token else None

    async def check(self, identity: Identity, method: str, path: str) -> Decision:
        return Decision(allowed=True)


@asynccontextmanager
async def kubelet_port(limits: Limits | None = None) -> AsyncIterator[int]:
    async def fine(_: web.Request) -> web.Response:
        return web.Response(text="fine")

    tls = server_context(Authority().issue("n1", hosts=["127.0.0.1"]))
    app = application([Route("GET", "/pods", fine)], ByToken())
    async with serving(app, "127.0.0.1", 0, tls=tls, limits=limits) as port:
        yield port


async def asked(port: int, token: str) -> bytes:
    async with asyncio.timeout(_PROMPTLY):
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=trusting())
        given = f"Authorization: Bearer {token}\r\n" if token else ""
        writer.write(f"GET /pods HTTP/1.1\r\nHost: a\r\n{given}Connection: close\r\n\r\n".encode())
        answer = await reader.read()
        writer.close()
    return answer.partition(b"\r\n")[0]


@pytest.mark.timeout(120)
async def test_idle_connections_keep_nobody_out_of_the_kubelets_port() -> None:
    async with kubelet_port() as port:
        held = [await asyncio.open_connection("127.0.0.1", port) for _ in range(_MANY)]
        for _ in range(5):
            assert await asked(port, "admin") == b"HTTP/1.1 200 OK"
        for _, writer in held:
            writer.close()


@pytest.mark.timeout(120)
async def test_connections_that_were_refused_keep_nobody_out_of_the_kubelets_port() -> None:
    async with kubelet_port() as port:
        held = []
        for _ in range(300):
            reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=trusting())
            writer.write(b"GET /pods HTTP/1.1\r\nHost: a\r\n\r\n")
            assert b"401" in await reader.readuntil(b"\r\n\r\n")
            held.append(writer)
        assert await asked(port, "admin") == b"HTTP/1.1 200 OK"
        for writer in held:
            writer.close()


@pytest.mark.timeout(120)
async def test_one_who_is_known_does_not_keep_out_others_who_are(tmp_path: Path) -> None:
    async with kubelet_port(Limits(connections=64)) as port:
        held = []
        for _ in range(100):
            reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=trusting())
            writer.write(b"GET /pods HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer greedy\r\n\r\n")
            assert b"200" in await reader.readuntil(b"\r\n\r\n")
            held.append(writer)
        assert await asked(port, "admin") == b"HTTP/1.1 200 OK"
        for writer in held:
            writer.close()
