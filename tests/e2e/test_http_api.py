"""The kubelet's HTTP API of the real agent on the embedded runtime: what kubectl, scrapers and strangers meet."""

import asyncio
import ssl
import textwrap
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from cryptography import x509
from yarl import URL

from kit.agent_process import AgentProcess, Node
from kit.api_server import loopback_api
from kit.certificates import Authority
from kit.kubelet_api import OPEN, KubeletApi, configured, numbers_of, port_of, samples
from kit.ports import free_port
from kit.waiting import wait_for

LINES = 600_000
_LINE = 95
WRITER = f"""
import sys, time
n, out = 0, sys.stdout.buffer
for _ in range({LINES // 2000}):
    out.write(b"".join(b"%09d %s\\n" % (i, b"x" * {_LINE}) for i in range(n, n + 2000)))
    n += 2000
    time.sleep(0.005)
out.flush()
time.sleep(1000)
"""
ECHO = """
import socket, threading
def serve(c):
    while data := c.recv(65536): c.sendall(data)
    c.close()
s = socket.create_server(("127.0.0.1", {port}))
while True: threading.Thread(target=serve, args=(s.accept()[0],)).start()
"""
READER = 'echo ready; echo oops >&2; while read line; do echo "got $line"; [ "$line" != end ] || exit 7; done'


def manifest(name: str, *command: str, more: str = "") -> str:
    words = "".join(f"\n    - |-\n{textwrap.indent(word.strip(), ' ' * 6)}" for word in command)
    return (
        f"apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\nspec:\n  terminationGracePeriodSeconds: 0\n"
        f"  containers:\n  - name: c\n    image: this-machine\n    command:{words}\n{more}"
    )


def write(node: Node, name: str, *command: str, more: str = "") -> None:
    (node.manifests / f"{name}.yaml").write_text(manifest(name, *command, more=more))


class Running:
    def __init__(self, node: Node, agent: AgentProcess, port: int, echo: int) -> None:
        self.node = node
        self.agent = agent
        self.port = port
        self.echo = echo
        """The port of a program in the pod `echo`."""


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """An agent whose API is open to all."""
    folder = tmp_path_factory.mktemp("node")
    node, echo = Node(folder, "--config", configured(folder)), free_port()
    write(node, "busy", "python3", "-c", WRITER)
    write(node, "reader", "sh", "-c", READER, more="    stdin: true\n")
    write(node, "echo", "python3", "-c", ECHO.format(port=echo))
    with node.agent("--stop-pods-on-exit") as agent:
        port = port_of(node, agent)
        wait_for(lambda: node.containers().keys() == {"busy", "reader", "echo"}, otherwise=node.told)
        yield Running(node, agent, port, echo)
        agent.stop()


@pytest.fixture
async def api(running: Running) -> AsyncIterator[KubeletApi]:
    async with KubeletApi(running.port) as made:
        yield made


async def test_who_follows_a_busy_container_gets_every_line_once_through_all_rotations(
    running: Running, api: KubeletApi
) -> None:
    last, text = b"%09d " % (LINES - 1), bytearray()
    async with asyncio.timeout(40), api.session.get("/containerLogs/default/busy-n1/c?follow=true") as answer:
        async for block in answer.content.iter_any():
            text += block
            if last in text[-2 * len(block) - 200 :] and text.endswith(b"\n"):
                break
    assert numbers_of(bytes(text)) == range(LINES)
    folder = next((running.node.state / "logs").glob("default_busy-n1_*/c"))
    assert len(list(folder.iterdir())) >= 4  # it was rotated under way
    status, tail = await api.get("/containerLogs/default/busy-n1/c?tailLines=3")
    assert (status, numbers_of(tail.encode())) == (200, range(LINES - 3, LINES))


async def test_a_command_has_input_output_and_a_code(api: KubeletApi) -> None:
    async with api.exec("default/reader-n1/c", "sh", "-c", "cat; echo err >&2; exit 5", stdin=True) as stream:
        much = bytes(range(256)) * 4000
        await stream.say(much[:500_000])
        await stream.say(much[500_000:])
        await stream.no_more()
        outcome = await stream.outcome()
    assert (outcome.stdout, outcome.stderr, outcome.code) == (much, b"err\n", 5)
    assert (await api.run("default/reader-n1/c", "true")).code == 0


async def test_a_command_has_a_terminal_of_the_size_that_it_is_given(api: KubeletApi) -> None:
    async with api.exec("default/reader-n1/c", "sh", stdin=True, tty=True) as stream:
        await stream.say(b'{"Width":123,"Height":45}', channel=4)
        await stream.say(b"until [ \"$(stty size)\" = '45 123' ]; do sleep 0.05; done; tty; exit 3\n")
        outcome = await stream.outcome()
    assert b"/dev/pts/" in outcome.stdout
    assert outcome.code == 3


async def test_commands_run_also_without_a_stream(api: KubeletApi) -> None:
    assert await api.get("/run/default/reader-n1/c?cmd=echo%20hello", "POST") == (200, "hello\n")
    status, text = await api.get("/run/default/reader-n1/c?cmd=false", "POST")
    assert status == 500
    assert "1" in text


async def test_who_attaches_talks_to_the_program_itself(running: Running, api: KubeletApi) -> None:
    wanted = [("input", "1"), ("output", "1"), ("error", "1")]
    async with api.stream("/attach/default/reader-n1/c", wanted) as stream:
        await stream.say(b"hello\n")
        await stream.until(b"got hello\n")
        await stream.say(b"end\n")
        await stream.until(b"got end\n")
        await stream.outcome()  # the program ends, and the stream with it
    wait_for(lambda: running.node.containers().get("reader", ("", 0))[1] == 1, otherwise=running.node.told)
    assert "got hello\ngot end\n" in (await api.get("/containerLogs/default/reader-n1/c?previous=true"))[1]
    assert (await api.get("/containerLogs/default/reader-n1/c"))[1] in ("ready\noops\n", "oops\nready\n")


async def test_a_port_of_a_pod_is_forwarded(running: Running, api: KubeletApi) -> None:
    ports = [("port", str(running.echo)), ("port", "1")]
    async with api.stream("/portForward/default/echo-n1", ports, "v4.channel.k8s.io") as stream:
        much = bytes(range(256)) * 2000
        await stream.say(much)
        while len(stream.heard.get(0, b"")) < len(much) + 2:
            assert await stream.hear()
        assert stream.heard[0] == running.echo.to_bytes(2, "little") + much
        await stream.until(b"error forwarding port 1 to pod", channel=3)


async def work(port: int, size: int) -> None:
    """Give the program behind a port something to do."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    block = bytes(1 << 20)
    for _ in range(size >> 20):
        writer.write(block)
        await reader.readexactly(len(block))
    writer.close()
    await writer.wait_closed()


async def test_what_pods_use_is_told_and_grows(running: Running, api: KubeletApi) -> None:
    async def cpu_of_echo() -> int:
        summary = await api.json("/stats/summary")
        pod = next(pod for pod in summary["pods"] if pod["podRef"]["name"] == "echo-n1")
        assert 0 < pod["memory"]["workingSetBytes"] < summary["node"]["memory"]["availableBytes"]
        seconds: int = pod["containers"][0]["cpu"]["usageCoreNanoSeconds"]
        return seconds

    assert (await api.run("default/echo-n1/c", "true")).code == 0
    before = await cpu_of_echo()
    async with asyncio.timeout(30):
        while await cpu_of_echo() < before + 50_000_000:
            await work(running.echo, 100 << 20)
    _, cadvisor = await api.get("/metrics/cadvisor")
    (used,) = samples(cadvisor, "container_cpu_usage_seconds_total", pod="echo-n1", container="c")
    assert 0.05 < used < 600
    _, resources = await api.get("/metrics/resource")
    (memory,) = samples(resources, "container_memory_working_set_bytes", pod="echo-n1", container="c")
    assert 1 << 20 < memory < 1 << 30
    _, metrics = await api.get("/metrics")
    assert samples(metrics, "kubelet_running_pods") == [3.0]
    assert samples(metrics, "kubelet_http_requests_total", path="exec", method="GET")[0] >= 1
    for path in ("/metrics/probes", "/metrics/slis"):
        assert (await api.get(path))[0] == 200


async def test_the_agent_shows_what_it_runs_and_how_it_is_configured(api: KubeletApi) -> None:
    names = {"busy-n1", "reader-n1", "echo-n1"}
    assert {pod["metadata"]["name"] for pod in (await api.json("/pods"))["items"]} == names
    assert {pod["metadata"]["name"] for pod in (await api.json("/runningpods/"))["items"]} == names
    assert (await api.json("/configz"))["kubeletconfig"]["authorization"]["mode"] == "AlwaysAllow"
    assert await api.get("/healthz") == (200, "ok")
    for path in ("/pods/../configz", "//pods", "/logs/..%2f..%2fetc/passwd", "/containerLogs/default/busy-n1/..%2fc"):
        asked = URL(f"{api.url}{path}", encoded=True)
        assert asked.raw_path == path  # else the client would tidy it up
        async with api.session.get(asked, allow_redirects=False) as answer:
            assert (answer.status, str(answer.request_info.url)) == (404, f"{api.url}{path}")


async def test_only_whom_the_api_server_knows_gets_in_and_it_is_asked_once(tmp_path: Path) -> None:
    kubeconfig, flags = tmp_path / "kubeconfig", ("--config", configured(tmp_path, ""))
    with loopback_api(kubeconfig) as server:
        node = Node(tmp_path, *flags, "--kubeconfig", str(kubeconfig))
        server.knows("scraper", "metrics", "stats")
        server.knows("nobody")
        with node.agent() as agent:
            port = port_of(node, agent)
            for token, path, status in (
                ("", "/metrics", 401),
                ("stranger", "/metrics", 401),
                ("nobody", "/metrics", 403),
                ("scraper", "/metrics", 200),
                ("scraper", "/metrics/cadvisor", 200),
                ("scraper", "/stats/summary", 200),
                ("scraper", "/pods", 403),
                ("scraper", "/exec/default/x/c?command=id&output=1", 403),
            ):
                async with KubeletApi(port, token=token) as api:
                    assert (await api.get(path))[0] == status, (token, path)
            assert server.reviews().count("tokenreviews scraper") == 1
            assert server.reviews().count("subjectaccessreviews scraper") == 4  # metrics, stats, pods, proxy
            agent.stop()


def serial_at(port: int) -> int:
    return x509.load_pem_x509_certificate(ssl.get_server_certificate(("127.0.0.1", port)).encode()).serial_number


async def test_a_new_certificate_is_for_new_connections_and_open_streams_end_with_the_agent(tmp_path: Path) -> None:
    authority, certificate, key = Authority(), tmp_path / "tls.crt", tmp_path / "tls.key"

    def issue() -> int:
        issued = authority.issue("n1", hosts=["127.0.0.1"])
        certificate.write_bytes(issued.certificate)
        key.write_bytes(issued.key)
        return x509.load_pem_x509_certificate(issued.certificate).serial_number

    first, echo = issue(), free_port()
    files = f"tlsCertFile: {certificate}\ntlsPrivateKeyFile: {key}\n"
    node = Node(tmp_path, "--config", configured(tmp_path, OPEN + files))
    write(node, "ticks", "sh", "-c", "while :; do echo tick; sleep 0.1; done")
    write(node, "echo", "python3", "-c", ECHO.format(port=echo))
    with node.agent() as agent:
        port = port_of(node, agent)
        wait_for(lambda: node.containers().keys() == {"ticks", "echo"}, otherwise=node.told)
        assert serial_at(port) == first
        async with KubeletApi(port) as api, AsyncExitStack() as stack:
            log = await stack.enter_async_context(
                api.session.get("/containerLogs/default/ticks-n1/c?follow=true&tailLines=1")
            )
            cat = await stack.enter_async_context(api.exec("default/ticks-n1/c", "cat", stdin=True))
            forwarded = await stack.enter_async_context(
                api.stream("/portForward/default/echo-n1", [("port", str(echo))], "v4.channel.k8s.io")
            )
            second = issue()
            wait_for(lambda: serial_at(port) == second, otherwise=node.told)
            for _ in range(20):  # more than were on their way
                assert await log.content.readline() == b"tick\n"
            for stream, channel in ((cat, 1), (forwarded, 0)):
                await stream.say(b"still there")
                await stream.until(b"still there", channel=channel)
            assert not cat.is_over
            await asyncio.to_thread(agent.stop, 15.0)
    with node.agent("--stop-pods-on-exit") as again:
        wait_for(lambda: node.containers().keys() == {"ticks", "echo"}, otherwise=node.told)
        again.stop()
