"""What a client that may open streams does with them to wear the agent out: memory, the loop, connections, pages."""

import asyncio
import json
import os
import resource
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress

import aiohttp
import pytest

from kit.apiserver_process import ApiServerProcess
from kit.spdy import SpdyClient, spdy_client
from kit.streaming_nodes import ForwardNode, SessionNode, listening, never_reads
from kit.waiting import eventually
from pykubelet.server.streaming.spdy_frames import data_frame, ping_frame, reset_frame
from pykubelet.web import upgrade

MIB = 1 << 20
PORT_FORWARD = "portforward.k8s.io"


def resident() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


@contextmanager
def memory_grows_by_at_most(size: int) -> Iterator[Callable[[], None]]:
    """-> looks; the highest that it saw counts"""
    before, most = resident(), 0

    def look() -> None:
        nonlocal most
        most = max(most, resident() - before)

    yield look
    look()
    assert most <= size, f"{most / MIB:.0f} MiB"


@asynccontextmanager
async def the_loop_stays_free(longest: float) -> AsyncIterator[None]:
    """Nobody else waits longer for a turn."""
    lags = [0.0]

    async def watch() -> None:
        while True:
            at = time.perf_counter()
            await asyncio.sleep(0.001)
            lags.append(time.perf_counter() - at)

    watching = asyncio.create_task(watch())
    try:
        yield
    finally:
        watching.cancel()
    assert max(lags) <= longest


async def flood(client: SpdyClient, frames: Iterator[bytes], look: Callable[[], None]) -> None:
    """Send as fast as it goes, and hear what is answered, until all is said or we are shown the door."""
    hearing = asyncio.create_task(client.to_the_end())
    with suppress(ConnectionError):
        for number, frame in enumerate(frames):
            client.write(frame)
            if number % 64 == 0:
                await client.writer.drain()
                look()
        await client.writer.drain()
        client.write(ping_frame(1))
    await eventually(lambda: hearing.done() or client.others)
    look()
    hearing.cancel()
    await asyncio.wait([hearing])


async def flood_without_hearing(client: SpdyClient, frames: bytes, look: Callable[[], None]) -> None:
    """Until no more is taken from us; then we hang up without a word."""
    async with asyncio.timeout(20):
        with suppress(TimeoutError):
            while True:
                client.write(frames)
                async with asyncio.timeout(1.0):
                    await client.writer.drain()
                look()
    client.writer.transport.abort()


def opened(client: SpdyClient, count: int, size: int, letter: str = "a") -> Iterator[bytes]:
    """Streams for data whose headers are long, though few bytes say them."""
    for number in range(count):
        fields = {"streamtype": "data", "port": "80", "requestid": str(number), "x": letter * size}
        yield client.framing.open(2 * number + 1, fields)


@pytest.mark.parametrize(
    ("count", "size", "letter"),
    [
        pytest.param(100, MIB - 200, "a", id="a mebibyte in a kilobyte"),
        pytest.param(4_000, 15_000, "a", id="as long as is allowed, very often"),
        pytest.param(5_000, 3_000, "\N{OLD ITALIC LETTER A}", id="letters that take much room"),
    ],
)
async def test_headers_that_are_small_only_when_packed(count: int, size: int, letter: str) -> None:
    node = ForwardNode()
    async with node.serving() as port:
        with memory_grows_by_at_most(24 * MIB) as look:
            async with spdy_client(port, "/pf", PORT_FORWARD) as client:
                await flood(client, opened(client, count, size, letter), look)
            await eventually(lambda: node.is_done == 1)


async def test_streams_that_are_given_up_as_soon_as_they_are_open() -> None:
    """Each would leave a connection into the pod behind that is being made."""
    node, tries, most = ForwardNode(), 0, 0

    async def connect(port: int) -> None:
        nonlocal tries, most
        tries += 1
        most = max(most, tries)
        try:
            await asyncio.Event().wait()
        finally:
            tries -= 1

    def frames(client: SpdyClient) -> Iterator[bytes]:
        for number in range(5000):
            first = 4 * number + 1
            for stream_id, kind in ((first, "error"), (first + 2, "data")):
                yield client.framing.open(
                    stream_id, {"streamtype": kind, "port": "80", "requestid": str(number)}
                ) + reset_frame(stream_id, 5) * (kind == "data")
            yield reset_frame(first, 5)

    node.connect = connect  # type: ignore[assignment,method-assign]
    async with node.serving() as port:
        with memory_grows_by_at_most(24 * MIB) as look:
            async with spdy_client(port, "/pf", PORT_FORWARD) as client:
                await flood(client, frames(client), look)
            await eventually(lambda: tries == 0 and node.is_done == 1)
    assert 0 < most <= 500


async def test_data_in_pieces_of_two_bytes_to_a_pod_that_never_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upgrade, "_LOOK", 0.2)  # who is not read from is missed only at the third look
    node = ForwardNode()
    async with listening(never_reads) as target, node.serving() as port:
        with memory_grows_by_at_most(24 * MIB) as look:
            async with spdy_client(port, "/pf", PORT_FORWARD) as client:
                fields = {"port": str(target), "requestid": "1"}
                client.open({"streamtype": "error", **fields})
                stream = client.open({"streamtype": "data", **fields})
                pieces = data_frame(stream, b"ab") * 1000

                await flood_without_hearing(client, pieces, look)
            await eventually(lambda: node.is_done == 1)


async def test_pings_of_a_client_that_never_listens() -> None:
    node = ForwardNode()
    async with node.serving() as port:
        with memory_grows_by_at_most(24 * MIB) as look:
            async with spdy_client(port, "/pf", PORT_FORWARD) as client:
                await flood_without_hearing(client, ping_frame(1) * 1000, look)
            await eventually(lambda: node.is_done == 1)


async def test_frames_that_take_long_to_unpack_keep_nobody_waiting() -> None:
    node = ForwardNode()
    async with node.serving() as port, spdy_client(port, "/pf", PORT_FORWARD) as client:
        frames = b"".join(opened(client, 5000, 15_000))
        hearing = asyncio.create_task(client.to_the_end())
        async with the_loop_stays_free(0.5 if "CI" in os.environ else 0.2):
            client.write(frames)
            await client.writer.drain()
            await eventually(lambda: len(client.replied | client.reset) == 5000)
        hearing.cancel()
        await asyncio.wait([hearing])


@asynccontextmanager
async def web_socket(port: int, query: str) -> AsyncIterator[aiohttp.ClientWebSocketResponse]:
    async with (
        aiohttp.ClientSession() as session,
        session.ws_connect(
            f"http://127.0.0.1:{port}/exec?{query}", protocols=["v4.channel.k8s.io"], max_msg_size=0
        ) as socket,
    ):
        yield socket


async def test_sizes_of_a_terminal_by_the_thousand_keep_nobody_waiting() -> None:
    node = SessionNode()
    async with node.serving() as port, web_socket(port, "command=cat&stdin=1&stdout=1&tty=true") as socket:
        sizes = json.dumps({"Width": 80, "Height": 24}).encode() * 30_000
        async with the_loop_stays_free(0.5 if "CI" in os.environ else 0.2):
            await socket.send_bytes(b"\x04" + sizes)
            await eventually(lambda: node.sessions and len(node.sessions[0].sizes) == 30_000)


@pytest.mark.parametrize("is_ever_whole", [False, True], ids=["in fragments", "in one frame"])
async def test_a_message_that_would_have_to_be_held_as_a_whole(is_ever_whole: bool) -> None:
    size = (32 * MIB) if is_ever_whole else 64 << 10
    head = bytes((0x82 if is_ever_whole else 0, 0xFF)) + size.to_bytes(8, "big") + bytes(4)
    node = SessionNode()
    async with node.serving() as port:
        with memory_grows_by_at_most(24 * MIB) as look:
            async with web_socket(port, "command=sleep&command=100&stdin=1") as socket:
                transport = socket._writer.transport
                for part in range(512):
                    if not is_ever_whole or part == 0:
                        transport.write(head if part else bytes((head[0] | 2,)) + head[1:])
                    transport.write(bytes(64 << 10))
                    await asyncio.sleep(0)
                    look()
                async with asyncio.timeout(10):
                    while not socket.closed:
                        await socket.receive()
            await node.all_closed()


# --- pages


@pytest.mark.parametrize(
    ("method", "path", "headers"),
    [
        (
            "GET",
            "/api/v1/namespaces/default/pods/web/exec?command=id&stdout=true",
            {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Protocol": "v5.channel.k8s.io"},
        ),
        (
            "GET",
            "/api/v1/namespaces/default/pods/web/exec?command=id&stdout=true",
            {
                "Connection": "Upgrade",
                "Upgrade": "websocket",
                "Sec-WebSocket-Protocol": "base64url.bearer.authorization.k8s.io.bWFkZS11cA, v5.channel.k8s.io",
            },
        ),
        ("DELETE", "/api/v1/namespaces/default/pods", {}),
        ("POST", "/api/v1/namespaces", {"Content-Type": "text/plain"}),
    ],
    ids=["exec", "exec with a made-up token", "delete", "a form"],
)
async def test_a_page_that_the_administrator_visits_has_nothing_of_her_certificate(
    apiserver: ApiServerProcess, method: str, path: str, headers: dict[str, str]
) -> None:
    async with aiohttp.ClientSession(apiserver.url) as browser:
        for origin in ("https://evil.example.com", "null", f"https://127.0.0.1:{apiserver.port + 1}"):
            asked = browser.request(
                method, path, headers={**headers, "Origin": origin}, ssl=apiserver.tls(), data=b'{"kind":"Namespace"}'
            )
            async with asked as answer:
                assert answer.status == 403
                assert "they need a bearer token" in await answer.text()
        own = browser.request(method, path, headers={**headers, "Origin": apiserver.url}, ssl=apiserver.tls())
        async with own as answer:
            assert "they need a bearer token" not in await answer.text()


@pytest.fixture(scope="module")
def apiserver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServerProcess]:
    server = ApiServerProcess(tmp_path_factory.mktemp("api"))
    try:
        server.start()
        yield server
    finally:
        server.kill()
