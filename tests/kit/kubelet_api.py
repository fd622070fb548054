"""The HTTP API of a real agent, as a client on this machine asks it: pages, logs, and streams over WebSockets."""

import json
import re
import socket
import ssl
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple, Self
from urllib.parse import urlencode

import aiohttp
from aiohttp.connector import AddrInfoType

from kit.agent_process import AgentProcess, Node
from kit.waiting import eventually, wait_for

OPEN: Final = "authentication: {anonymous: {enabled: true}}\nauthorization: {mode: AlwaysAllow}\n"
_HEAD: Final = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\naddress: 127.0.0.1\n"


def configured(folder: Path, more: str = OPEN) -> str:
    """A configuration file on loopback. -> its path"""
    path = folder / "kubelet.yaml"
    path.write_text(_HEAD + more)
    return str(path)


def port_of(node: Node, agent: AgentProcess) -> int:
    """Where the agent that was started last serves its API, once it answers."""
    wait_for(agent.answers, seconds=30.0, otherwise=node.told)
    return int(re.findall(r"serving: https on port (\d+)", node.told())[-1])


class Outcome(NamedTuple):
    stdout: bytes
    stderr: bytes
    status: dict[str, Any]
    """As it came on the error channel; empty when nothing did."""

    @property
    def code(self) -> int:
        """-1: it did not end by itself."""
        if self.status.get("status") == "Success":
            return 0
        causes = self.status.get("details", {}).get("causes", [])
        return next((int(each["message"]) for each in causes if each.get("reason") == "ExitCode"), -1)


class Stream:
    """Channels of a WebSocket. What was heard is kept, by channel."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self.heard: dict[int, bytearray] = {}
        self.is_over = False
        self._socket = socket

    async def say(self, data: bytes, channel: int = 0) -> None:
        await self._socket.send_bytes(bytes([channel]) + data)

    async def no_more(self, channel: int = 0) -> None:
        """In the fifth version of the protocol."""
        await self._socket.send_bytes(bytes([255, channel]))

    async def hear(self) -> bool:
        """One message more. -> whether there was one"""
        message = await self._socket.receive()
        if message.type is not aiohttp.WSMsgType.BINARY:
            self.is_over = True
            return False
        self.heard.setdefault(message.data[0], bytearray()).extend(message.data[1:])
        return True

    async def until(self, text: bytes, channel: int = 1) -> None:
        while text not in self.heard.get(channel, b""):
            assert await self.hear(), f"it is over, and {text!r} was not said: {self.heard}"

    async def outcome(self) -> Outcome:
        while await self.hear():
            pass
        out, err, status = (bytes(self.heard.get(number, b"")) for number in (1, 2, 3))
        return Outcome(out, err, json.loads(status) if status else {})


class KubeletApi:
    """To be used as a context."""

    def __init__(self, port: int, *, token: str = "", protocol: str = "v5.channel.k8s.io") -> None:
        self.url = f"https://127.0.0.1:{port}"
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._protocol = protocol
        self._sockets: list[socket.socket] = []
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self._context.check_hostname, self._context.verify_mode = False, ssl.CERT_NONE

    async def __aenter__(self) -> Self:
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=10.0)
        self._connector = aiohttp.TCPConnector(ssl=self._context, limit=0, socket_factory=self._socket)
        self.session = aiohttp.ClientSession(
            self.url, connector=self._connector, headers=self._headers, timeout=timeout, read_bufsize=1 << 20
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        """At once, and not before all is closed: the event loop of a test may end right after."""
        await self._connector.close(abort_ssl=True)
        await self.session.close()
        await eventually(lambda: all(each.fileno() < 0 for each in self._sockets))

    def _socket(self, address: AddrInfoType) -> socket.socket:
        made = socket.socket(*address[:3])
        made.setblocking(False)
        self._sockets.append(made)
        return made

    async def get(self, path: str, method: str = "GET") -> tuple[int, str]:
        async with self.session.request(method, path) as answer:
            return answer.status, await answer.text(errors="replace")

    async def json(self, path: str) -> Any:
        status, text = await self.get(path)
        assert status == 200, text
        return json.loads(text)

    @asynccontextmanager
    async def stream(self, path: str, query: Sequence[tuple[str, str]], protocol: str = "") -> AsyncIterator[Stream]:
        protocols = [protocol or self._protocol]
        async with self.session.ws_connect(
            f"{path}?{urlencode(query)}", protocols=protocols, max_msg_size=64 << 20
        ) as made:
            yield Stream(made)

    def exec(self, place: str, *command: str, stdin: bool = False, tty: bool = False) -> Any:
        """`place` is namespace/pod/container. -> a context that gives a Stream"""
        wanted = [("output", "1"), *([] if tty else [("error", "1")])]
        wanted += [("input", "1")] if stdin else []
        wanted += [("tty", "1")] if tty else []
        return self.stream(f"/exec/{place}", [*(("command", word) for word in command), *wanted])

    async def run(self, place: str, *command: str) -> Outcome:
        async with self.exec(place, *command) as stream:
            outcome: Outcome = await stream.outcome()
            return outcome


def numbers_of(text: bytes) -> range | list[int]:
    """The numbers that the lines begin with: a range when none is missing and none is there twice."""
    found = [int(line.split(b" ", 1)[0]) for line in text.splitlines()]
    whole = range(found[0], found[0] + len(found)) if found else range(0)
    return whole if found == list(whole) else found


def samples(text: str, name: str, **labels: str) -> list[float]:
    """The values of a metric whose labels include these."""
    found = []
    for line in text.splitlines():
        if match := re.match(rf"{name}(?:\{{(.*)\}})? (\S+)", line):
            given: Mapping[str, str] = dict(re.findall(r'(\w+)="([^"]*)"', match[1] or ""))
            if labels.items() <= given.items():
                found.append(float(match[2]))
    return found
