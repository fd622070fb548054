"""kubectl, handed on to the streaming server of a real containerd."""

import asyncio
import hashlib
import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from kit.containerd import Containerd
from kit.cri import cleared
from kit.cri_node import CriNode
from kit.kubectl import SPDY, WEB_SOCKET, Kubectl, Terminal, ended, kubectl_for
from kit.waiting import eventually
from pykubelet.pod.ports.server import StreamUrl
from pykubelet.runtime.cri.streaming import CriStreams
from pykubelet.server.streaming.runtime_tunnel import tunnel_to_runtime
from pykubelet.server.streaming.session_lines import wanted
from pykubelet.web.grpc_channel import Channel

BOTH = pytest.mark.parametrize("environment", [WEB_SOCKET, SPDY], ids=["websocket", "spdy"])
PROGRAM = "nc -ll -p 8080 -e cat & while read line; do echo got $line; [ $line != end ] || exit 6; done; sleep 1000"


class Node:
    """A pod on containerd, and doors to it."""

    def __init__(self, streams: CriStreams, container_id: str, sandbox_id: str) -> None:
        self._streams = streams
        self._container_id = container_id
        self._sandbox_id = sandbox_id
        self.count = 0

    async def execute(self, request: web.Request) -> web.StreamResponse:
        asked, command = wanted(request), request.query.getall("command")
        made = await self._streams.exec(
            self._container_id,
            command,
            stdin=asked.stdin,
            stdout=asked.stdout,
            stderr=asked.stderr and not asked.tty,
            tty=asked.tty,
        )
        return await self._tunnel(request, made)

    async def attach(self, request: web.Request) -> web.StreamResponse:
        asked = wanted(request)
        made = await self._streams.attach(
            self._container_id, stdin=asked.stdin, stdout=asked.stdout, stderr=asked.stderr, tty=asked.tty
        )
        return await self._tunnel(request, made)

    async def forward(self, request: web.Request) -> web.StreamResponse:
        ports = [int(text) for text in request.query.getall("port", [])]
        return await self._tunnel(request, await self._streams.port_forward(self._sandbox_id, ports))

    async def _tunnel(self, request: web.Request, made: Any) -> web.StreamResponse:
        assert isinstance(made, StreamUrl)
        self.count += 1
        try:
            return await tunnel_to_runtime(request, made.url, idle=60.0)
        finally:
            self.count -= 1

    @asynccontextmanager
    async def kubectl(self, home: Path, environment: dict[str, str]) -> AsyncIterator[Kubectl]:
        async with kubectl_for(
            home, environment, execute=self.execute, attach=self.attach, forward=self.forward
        ) as made:
            yield made
            await eventually(lambda: self.count == 0)


@pytest.fixture
async def node(containerd: Containerd, tmp_path: Path) -> AsyncIterator[Node]:
    pods, channel = CriNode(containerd, tmp_path / "logs"), Channel(containerd.endpoint)
    sandbox = pods.sandbox()
    sandbox_id = (await pods.runtime.run_sandbox(sandbox)).id
    container_id = await pods.add(sandbox_id, sandbox, PROGRAM, stdin=True)
    yield Node(CriStreams(channel), container_id, sandbox_id)
    await channel.close()
    await cleared(pods.runtime)


@BOTH
async def test_commands_run_with_their_input_output_and_exit_code(
    node: Node, tmp_path: Path, environment: dict[str, str]
) -> None:
    async with node.kubectl(tmp_path, environment) as k:
        done = await k.run("exec", "x", "--", "sh", "-c", "hostname; echo err >&2; exit 3")
        assert done == (3, b"web\n", b"err\ncommand terminated with exit code 3\n")
        assert await k.run("exec", "-i", "x", "--", "wc", "-c", typed=bytes(300_000)) == (0, b"300000\n", b"")


@BOTH
async def test_sixty_four_megabytes_go_there_and_back_whole(
    node: Node, tmp_path: Path, environment: dict[str, str]
) -> None:
    much = os.urandom(1 << 20) * 64
    async with node.kubectl(tmp_path, environment) as k:
        done = await k.run("exec", "-i", "x", "--", "cat", typed=much)
        assert (done.code, done.stderr, done.stdout == much) == (0, b"", True)


@BOTH
async def test_a_person_sits_at_a_terminal(node: Node, tmp_path: Path, environment: dict[str, str]) -> None:
    terminal = Terminal()
    terminal.resize(91, 33)
    async with node.kubectl(tmp_path, environment) as k:
        process = await k.at(terminal, "exec", "-it", "x", "--", "sh")
        try:
            terminal.type(b"until stty size | grep '33 91'; do sleep 0.05; done; echo is so\r")
            await eventually(lambda: terminal.shows(b"\nis so\r\n"))
            terminal.type(b"exit 5\r")
            async with asyncio.timeout(30):
                assert await process.wait() == 5
        finally:
            await ended(process)
            terminal.close()


@BOTH
async def test_attaching_reaches_the_program_itself(node: Node, tmp_path: Path, environment: dict[str, str]) -> None:
    async with node.kubectl(tmp_path, environment) as k:
        process = await k.start("attach", "-i", "x", stdin=-1, stdout=-1, stderr=-1)
        try:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(b"something\n")
            async with asyncio.timeout(30):
                assert await process.stdout.readline() == b"got something\n"
                process.stdin.write(b"end\n")
                assert await process.stdout.read() == b"got end\n"
                assert await process.wait() == 0  # the container's own exit code is told by its status
        finally:
            await ended(process)


@BOTH
async def test_files_are_copied_both_ways(node: Node, tmp_path: Path, environment: dict[str, str]) -> None:
    data = os.urandom(3_000_000)
    (tmp_path / "here").write_bytes(data)
    async with node.kubectl(tmp_path, environment) as k:
        assert (await k.run("cp", str(tmp_path / "here"), "x:/tmp/there")).code == 0
        done = await k.run("exec", "x", "--", "sha256sum", "/tmp/there")
        assert done.stdout.split()[0].decode() == hashlib.sha256(data).hexdigest()
        assert (await k.run("cp", "x:/tmp/there", str(tmp_path / "back"))).code == 0
    assert (tmp_path / "back").read_bytes() == data


@BOTH
async def test_ports_are_forwarded(node: Node, tmp_path: Path, environment: dict[str, str]) -> None:
    data = os.urandom(1 << 20) * 8
    async with node.kubectl(tmp_path, environment) as k, k.forwarding(8080) as local:
        for _ in range(3):
            reader, writer = await asyncio.open_connection("127.0.0.1", local)
            writer.write(data)
            async with asyncio.timeout(30):
                assert await reader.readexactly(len(data)) == data
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()


async def test_the_fourth_version_on_a_web_socket(node: Node, tmp_path: Path) -> None:
    path = "/api/v1/namespaces/ns/pods/x/exec?command=sh&command=-c&command=echo%20hi;%20exit%203&stdout=true"
    async with node.kubectl(tmp_path, WEB_SOCKET) as k, aiohttp.ClientSession(f"http://127.0.0.1:{k.port}") as session:
        async with session.ws_connect(path, protocols=["v4.channel.k8s.io"]) as socket:
            assert socket.protocol == "v4.channel.k8s.io"
            heard = [message.data async for message in socket]
        assert b"".join(each[1:] for each in heard if each[0] == 1) == b"hi\n"
        (status,) = [json.loads(each[1:]) for each in heard if each[0] == 3]
        assert status["details"]["causes"] == [{"reason": "ExitCode", "message": "3"}]
