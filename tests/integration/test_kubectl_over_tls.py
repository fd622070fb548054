"""The real kubectl with a certificate of its own, the API server, and a kubelet behind it. All over TLS."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import suppress
from pathlib import Path

import pytest

from kit.kubectl import SPDY, WEB_SOCKET, ended
from kit.tls_world import World
from kit.waiting import eventually


@pytest.fixture
async def world(tmp_path: Path) -> AsyncGenerator[World, None]:
    async with World(tmp_path).running() as running:
        yield running


async def test_who_acts_as_somebody_else_may_no_more_than_he(world: World, tmp_path: Path) -> None:
    kubectl = world.kubectl(tmp_path)
    assert (await kubectl.run("auth", "can-i", "delete", "nodes", "--as", "bob")).stdout == b"no\n"
    done = await kubectl.run("get", "pods", "--as", "system:serviceaccount:default:default")
    assert b'User "system:serviceaccount:default:default" cannot list resource "pods"' in done.stderr, done


async def test_kubectl_can_ask_what_it_may(world: World, tmp_path: Path) -> None:
    kubectl = world.kubectl(tmp_path)
    assert (await kubectl.run("auth", "can-i", "delete", "nodes")).stdout == b"yes\n"
    done = await kubectl.run("auth", "can-i", "--list")
    assert b"*.*" in done.stdout, done
    done = await kubectl.run("auth", "whoami")
    assert b"kubernetes-admin" in done.stdout, done


@pytest.mark.parametrize("environment", [SPDY, WEB_SOCKET], ids=["spdy", "web socket"])
@pytest.mark.parametrize("streams", [True, False], ids=["kubelet with web sockets", "kubelet without"])
async def test_kubectl_runs_a_program_and_gets_its_words_and_its_code(
    world: World, tmp_path: Path, environment: dict[str, str], streams: bool
) -> None:
    world.streams = streams
    kubectl = world.kubectl(tmp_path, environment)
    done = await kubectl.run(
        "exec", "-i", "x", "--", "sh", "-c", "cat; echo oops >&2; exit 3", typed=b"hello " * 300_000
    )

    assert done.stdout == b"hello " * 300_000, done.stderr
    assert b"oops" in done.stderr
    assert done.code == 3


@pytest.mark.parametrize("environment", [SPDY, WEB_SOCKET], ids=["spdy", "web socket"])
async def test_when_kubectl_is_killed_the_kubelet_hears_of_it(
    world: World, tmp_path: Path, environment: dict[str, str]
) -> None:
    process = await world.kubectl(tmp_path, environment).start("exec", "x", "--", "sleep", "1000")
    try:
        await eventually(lambda: world.sessions)
    finally:
        await ended(process)
    await eventually(lambda: world.sessions[0].is_closed)


@pytest.mark.parametrize("environment", [SPDY, WEB_SOCKET], ids=["spdy", "web socket"])
async def test_kubectl_forwards_a_port(world: World, tmp_path: Path, environment: dict[str, str]) -> None:
    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            writer.write(b"heard " + await reader.readline())
            await writer.drain()
            writer.close()

    server = await asyncio.start_server(echo, "127.0.0.1", 0)
    async with server, world.kubectl(tmp_path, environment).forwarding(server.sockets[0].getsockname()[1]) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"you\n")
        async with asyncio.timeout(30):
            assert await reader.read() == b"heard you\n"
        writer.close()
        await writer.wait_closed()
