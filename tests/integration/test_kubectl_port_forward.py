"""Port-forward on our own connections, asked for by the real kubectl over both of its protocols."""

import asyncio
import os
from contextlib import suppress
from pathlib import Path

import aiohttp
import pytest

from kit.certificates import Authority, server_context
from kit.kubectl import SPDY, WEB_SOCKET, kubectl_for
from kit.streaming_nodes import ForwardNode, count_all, echo, exchanged, listening
from kit.waiting import eventually

BOTH = pytest.mark.parametrize("environment", [WEB_SOCKET, SPDY], ids=["websocket", "spdy"])


@BOTH
async def test_connections_are_forwarded_whole_and_side_by_side(tmp_path: Path, environment: dict[str, str]) -> None:
    node = ForwardNode()
    data = [os.urandom(1 << 20) * (number + 1) for number in range(8)]
    async with listening(echo) as port, kubectl_for(tmp_path, environment, forward=node.handler) as k:
        async with k.forwarding(port) as local:
            assert await asyncio.gather(*(exchanged(local, each) for each in data)) == data
        await eventually(lambda: len(node.connections) == 8 and all(each.is_closed for each in node.connections))
        await eventually(lambda: node.is_done)
    assert node.protocols == ["SPDY/3.1+portforward.k8s.io" if environment is WEB_SOCKET else "SPDY/3.1"]


@BOTH
async def test_a_client_may_say_all_and_then_listen(tmp_path: Path, environment: dict[str, str]) -> None:
    async with (
        listening(count_all) as port,
        kubectl_for(tmp_path, environment, forward=ForwardNode().handler) as k,
        k.forwarding(port) as local,
    ):
        assert await exchanged(local, bytes(3_000_000)) == b"3000000"


@BOTH
async def test_connections_are_forwarded_through_tls(tmp_path: Path, environment: dict[str, str]) -> None:
    tls = server_context(Authority().issue("node", hosts=("127.0.0.1",)))
    data = os.urandom(1 << 20) * 8
    async with (
        listening(echo) as port,
        kubectl_for(tmp_path, environment, forward=ForwardNode().handler, tls=tls) as k,
        k.forwarding(port) as local,
    ):
        assert await asyncio.gather(*(exchanged(local, data) for _ in range(2))) == [data, data]


@BOTH
async def test_an_http_server_in_the_pod_is_reached_again_and_again(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nhi")

    node = ForwardNode()
    async with (
        listening(answer) as port,
        kubectl_for(tmp_path, environment, forward=node.handler) as k,
        k.forwarding(port) as local,
        aiohttp.ClientSession() as session,
    ):
        for _ in range(20):
            async with session.get(f"http://127.0.0.1:{local}/") as response:
                assert await response.text() == "hi"
        await eventually(lambda: len(node.connections) == 20 and all(each.is_closed for each in node.connections))


@BOTH
async def test_a_port_on_which_nobody_listens_is_told_to_the_user(tmp_path: Path, environment: dict[str, str]) -> None:
    async with listening(echo) as port:
        pass
    async with kubectl_for(tmp_path, environment, forward=ForwardNode().handler) as k:
        process = await k.start("port-forward", "pod/x", f":{port}", stdout=-1, stderr=-1)
        assert process.stdout is not None
        assert process.stderr is not None
        local = int((await process.stdout.readline()).split(b" -> ")[0].rpartition(b":")[2])
        with suppress(ConnectionError):
            assert await exchanged(local, b"hello?") == b""
        async with asyncio.timeout(30):
            assert f"error forwarding port {port} to pod: nobody listens" in (await process.stderr.read()).decode()
            assert await process.wait() == 1  # kubectl has it that the connection is lost
