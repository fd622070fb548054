"""The kubelet's HTTP API of a real agent on the embedded runtime: logs that are followed, scrapes, commands, ports.

The clients run on the same machine and take their share of it: on two cores all rates are those of both sides together.
"""

import asyncio
import os
import socket
import ssl
import statistics
import tempfile
import textwrap
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from kit.agent_process import AgentProcess, Node
from kit.kubelet_api import KubeletApi, configured, port_of
from kit.ports import free_port
from kit.waiting import wait_for

RATE = 50
SECONDS = 6
PODS = 100
SESSIONS = 20
TURNS = 50
FORWARDED = 200 << 20
ROUNDS = 7
_STALE = 1.7
"""Seconds after which a scrape reads anew, and then some."""
_TICKS: Final = os.sysconf("SC_CLK_TCK")

WRITER = f"""
import os, sys, time
line, n, began = b"x" * 89, 0, time.time()
while n < {RATE * SECONDS * 10_000}:
    os.writev(1, [b"".join(b"%09d %s\\n" % (i, line) for i in range(n, n + 500))])
    n += 500
    time.sleep(max(0.0, began + n / {RATE * 10_000} - time.time()))
os.write(1, b"end\\n")
time.sleep(1000)
"""
SOURCE = f"""
import socket, threading
def serve(c):
    c.recv(1)
    data = bytes(1 << 20)
    for _ in range({FORWARDED >> 20}): c.sendall(data)
    c.recv(1)
s = socket.create_server(("127.0.0.1", {{port}}))
while True: threading.Thread(target=serve, args=(s.accept()[0],)).start()
"""


class Row(NamedTuple):
    what: str
    ours: float
    unit: str
    goal: float | None = None
    at_least: bool = False

    def __str__(self) -> str:
        if self.goal is None:
            return f"{self.what:<46} {self.ours:>8.3g} {self.unit:<8}"
        met = self.ours >= self.goal if self.at_least else self.ours <= self.goal
        ratio = f"{self.ours / self.goal:.2f}" if self.goal else "-"
        return (
            f"{self.what:<46} {self.ours:>8.3g} {self.unit:<8} {self.goal:>6g} {ratio:>6}  {'met' if met else 'MISSED'}"
        )


def run() -> None:
    print("http: the kubelet's HTTP API of a real agent, over TLS, embedded runtime")
    print(f"\n{'step':<46} {'ours':>8} {'':<8} {'goal':>6} {'ratio':>6}")
    with _agent("busy", WRITER) as (node, agent, port):
        _show(asyncio.run(_follow(node, agent, port)))
    echo = free_port()
    with _agent("source", SOURCE.format(port=echo)) as (node, agent, port):
        _show([_forwarded(agent, port, echo)])
        _show(asyncio.run(_commands(port)))
    with _agent("idle", "import time; time.sleep(10000)", count=PODS) as (node, agent, port):
        _show(asyncio.run(_scrapes(agent, port)))
    print()


def _show(rows: list[Row]) -> None:
    for row in rows:
        print(row, flush=True)


# --- an agent with pods


@contextmanager
def _agent(name: str, program: str, count: int = 1) -> Iterator[tuple[Node, AgentProcess, int]]:
    with tempfile.TemporaryDirectory() as text:
        folder = Path(text)
        node = Node(folder, "--config", configured(folder))
        for number in range(count):
            (node.manifests / f"{name}{number}.yaml").write_text(_manifest(f"{name}{number}", program))
        with node.agent("--stop-pods-on-exit") as agent:
            port = port_of(node, agent)
            wait_for(lambda: len(node.containers()) == count, seconds=120.0, otherwise=node.told)
            yield node, agent, port
            agent.stop(120.0)


def _manifest(name: str, program: str) -> str:
    return (
        f"apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\nspec:\n  terminationGracePeriodSeconds: 0\n"
        "  containers:\n  - name: c\n    image: this-machine\n    command:\n    - python3\n    - -c\n    - |-\n"
        f"{textwrap.indent(program.strip(), ' ' * 6)}\n"
    )


def _cpu(agent: AgentProcess) -> float:
    """Seconds of processor time that it has used."""
    fields = Path(f"/proc/{agent.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def _memory(agent: AgentProcess) -> float:
    """MiB that it holds."""
    text = Path(f"/proc/{agent.pid}/status").read_text()
    return int(text.partition("VmRSS:")[2].split()[0]) / 1024


# --- what is measured


async def _follow(node: Node, agent: AgentProcess, port: int) -> list[Row]:
    before, used, began, most = _memory(agent), _cpu(agent), time.perf_counter(), 0.0
    expected, wrong, rest, size = 0, 0, b"", 0
    async with (
        KubeletApi(port) as api,
        asyncio.timeout(120),
        api.session.get("/containerLogs/default/busy0-n1/c?follow=true") as answer,
    ):
        async for block in answer.content.iter_any():
            size += len(block)
            most = max(most, _memory(agent) if size % 16 == 0 else 0.0)
            lines = (rest + block).split(b"\n")
            rest = lines.pop()
            if lines and lines[-1] == b"end":
                lines.pop()
                expected, wrong = _counted(lines, expected, wrong)
                break
            expected, wrong = _counted(lines, expected, wrong)
    seconds = time.perf_counter() - began
    lost = RATE * SECONDS * 10_000 - expected + wrong
    most = max(most, _memory(agent))
    return [
        Row(f"follow at {RATE} MB/s: arrived", size / seconds / 1e6, "MB/s"),
        Row("  lines lost or doubled", lost, "", 0),
        Row("  agent's CPU", (_cpu(agent) - used) / seconds * 100, "% core", 60),
        Row("  agent's memory, more than before", max(0.0, most - before), "MiB", 20),
    ]


def _counted(lines: list[bytes], expected: int, wrong: int) -> tuple[int, int]:
    """A look at both ends of the lines is enough, unless something is wrong between them."""
    if not lines:
        return expected, wrong
    first, last = int(lines[0][:9]), int(lines[-1][:9])
    if first != expected or last - first + 1 != len(lines):
        wrong += abs(first - expected) + abs(last - first + 1 - len(lines))
    return last + 1, wrong


def _forwarded(agent: AgentProcess, port: int, echo: int) -> Row:
    """By a client that does no more than it has to: it counts bytes."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with (
        socket.create_connection(("127.0.0.1", port)) as raw,
        context.wrap_socket(raw) as connection,
    ):
        head = f"GET /portForward/default/source0-n1?port={echo} HTTP/1.1\r\nHost: n1\r\nConnection: Upgrade\r\n"
        head += "Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
        connection.sendall(f"{head}Sec-WebSocket-Protocol: v4.channel.k8s.io\r\n\r\n".encode())
        connection.recv(4096)
        began, count, buffer = time.perf_counter(), 0, bytearray(1 << 20)
        connection.sendall(b"\x82\x82\0\0\0\0\0!")  # one byte on the first channel, masked with nothing
        while count < FORWARDED:
            read = connection.recv_into(buffer)
            assert read, "the connection has ended"
            count += read
        seconds = time.perf_counter() - began
    return Row(f"port-forward of {FORWARDED >> 20} MiB", FORWARDED / seconds / 1e6, "MB/s", 200, at_least=True)


async def _commands(port: int) -> list[Row]:
    place, turns, opened = "default/source0-n1/c", [], []
    async with KubeletApi(port) as api:

        async def session() -> None:
            began = time.perf_counter()
            async with api.exec(place, "cat", stdin=True) as stream:
                await stream.say(b"first;")
                await stream.until(b"first;")
                opened.append(time.perf_counter() - began)
                for number in range(TURNS):
                    began = time.perf_counter()
                    await stream.say(b"%d;" % number)
                    await stream.until(b";%d;" % number)
                    turns.append(time.perf_counter() - began)
                await stream.no_more()
                assert (await stream.outcome()).code == 0

        began = time.perf_counter()
        await asyncio.gather(*(session() for _ in range(SESSIONS)))
        seconds = time.perf_counter() - began
    return [
        Row(f"{SESSIONS} exec sessions at once: all of it", seconds * 1000, "ms"),
        Row("  to the first answer, median", statistics.median(opened) * 1000, "ms", 1000),
        Row("  a turn, median", statistics.median(turns) * 1000, "ms", 20),
    ]


async def _scrapes(agent: AgentProcess, port: int) -> list[Row]:
    rows = []
    async with KubeletApi(port) as api:
        for path in ("/metrics/cadvisor", "/stats/summary"):
            passed, used = [], []
            for _ in range(ROUNDS):
                await asyncio.sleep(_STALE)
                began, cpu = time.perf_counter(), _cpu(agent)
                assert (await api.get(path))[0] == 200
                passed.append(time.perf_counter() - began)
                used.append(_cpu(agent) - cpu)
            rows.append(Row(f"{path}, {PODS} pods", statistics.median(passed) * 1000, "ms", 100))
            rows.append(Row("  agent's CPU", statistics.mean(used) * 1000, "ms"))
    return rows


if __name__ == "__main__":
    run()
