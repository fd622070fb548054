"""exec and attach on our own sessions: clients of each protocol, and some that misbehave."""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Any, Literal

import aiohttp
import pytest

from kit.spdy import SpdyClient, spdy_client
from kit.streaming_nodes import SessionNode
from kit.waiting import eventually
from pykubelet.base.errors import Retry
from pykubelet.pod.ports.server import Session
from pykubelet.server.streaming import session_lines
from pykubelet.server.streaming.spdy_frames import ping_frame

# --- WebSocket clients


@asynccontextmanager
async def web_socket(port: int, query: str, *protocols: str) -> AsyncIterator[aiohttp.ClientWebSocketResponse]:
    async with (
        aiohttp.ClientSession() as session,
        session.ws_connect(f"http://127.0.0.1:{port}/exec?{query}", protocols=protocols) as socket,
    ):
        yield socket


async def messages(socket: aiohttp.ClientWebSocketResponse) -> list[Any]:
    return [message.data async for message in socket]


@pytest.mark.parametrize("protocol", ["v4.channel.k8s.io", "v5.channel.k8s.io"])
async def test_the_error_channel_says_how_it_ended(protocol: str) -> None:
    async with SessionNode().serving() as port:
        query = "command=sh&command=-c&stdout=true&command="
        async with web_socket(port, query + "exit 3", "other", protocol) as socket:
            assert socket.protocol == protocol
            hello, end = await messages(socket)
            assert hello == b"\x01"
            assert end[:1] == b"\x03"
            assert json.loads(end[1:]) == {
                "metadata": {},
                "status": "Failure",
                "message": "command terminated with non-zero exit code: exit code 3",
                "reason": "NonZeroExitCode",
                "details": {"causes": [{"reason": "ExitCode", "message": "3"}]},
            }
            assert socket.close_code == 1000
        async with web_socket(port, query + "echo hi", protocol) as socket:
            assert await messages(socket) == [b"\x01", b"\x01hi\n", b'\x03{"metadata":{},"status":"Success"}']


async def test_older_versions_say_it_in_words_and_say_nothing_of_success() -> None:
    async with SessionNode().serving() as port:
        for protocols in ((), ("channel.k8s.io",)):
            async with web_socket(port, "command=false&stderr=true", *protocols) as socket:
                words = b"\x03command terminated with non-zero exit code: exit code 1"
                assert await messages(socket) == [b"\x02", words]
            async with web_socket(port, "command=true&stdin=true", *protocols) as socket:
                assert await messages(socket) == [b"\x03"]


async def test_the_fifth_version_can_end_the_input_alone() -> None:
    async with (
        SessionNode().serving() as port,
        web_socket(port, "command=cat&stdin=1&stdout=1", "v5.channel.k8s.io") as socket,
    ):
        await socket.send_bytes(b"\x00some")
        await socket.send_bytes(b"\x00thing")
        await socket.send_bytes(b"\xff\x00")
        heard = await messages(socket)
        assert b"".join(m[1:] for m in heard if m[0] == 1) == b"something"


async def test_text_clients_speak_base64() -> None:
    query = "command=head&command=-c5&stdin=1&stdout=1"
    async with SessionNode().serving() as port, web_socket(port, query, "v4.base64.channel.k8s.io") as socket:
        await socket.send_str("0aGVs")
        await socket.send_str("0 this is not base64")
        await socket.send_str("0bG8=")
        assert await messages(socket) == ["1", "1aGVsbG8=", "3eyJtZXRhZGF0YSI6e30sInN0YXR1cyI6IlN1Y2Nlc3MifQ=="]


async def test_sizes_are_read_however_they_come_and_nonsense_ends_nothing() -> None:
    node = SessionNode()
    query = "command=cat&stdin=1&stdout=1&tty=true"
    async with node.serving() as port, web_socket(port, query, "v4.channel.k8s.io") as socket:
        await socket.send_bytes(b'\x04{"Width":80,"Height":24}{"width":0,"height":9}{"Wid')
        await socket.send_bytes(b'\x04th":81,"Height":25}\n')
        await socket.send_bytes(b"\x09a channel that is not there")
        await socket.send_bytes(b"")
        await eventually(lambda: node.sessions and node.sessions[0].sizes == [(80, 24), (81, 25)])
        for nonsense in (b'{"Width":-1,"Height":"a"}', b"}", b"[]", b"\xff"):
            await socket.send_bytes(b"\x04" + nonsense)
        await socket.send_bytes(b"\x00still here\n\x04")
        assert b"still here" in b"".join(m[1:] for m in await messages(socket))


@pytest.mark.parametrize(
    ("query", "headers", "status", "text"),
    [
        ("command=true", {}, 400, "you must specify at least 1 of stdin, stdout, stderr"),
        ("command=true&stdout=1", {}, 400, "X-Stream-Protocol-Version is required"),
        ("command=true&stdout=1", {"X-Stream-Protocol-Version": "v9, v8"}, 403, "client supports ['v9', 'v8']"),
        ("command=true&stdout=1", {"X-Stream-Protocol-Version": "v4.channel.k8s.io"}, 400, "missing upgrade headers"),
        (
            "command=true&stdout=1",
            {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Protocol": "v9"},
            403,
            "requested protocol(s) are not supported: ['v9']",
        ),
    ],
)
async def test_what_cannot_be_served_is_refused_and_the_program_is_ended(
    query: str, headers: dict[str, str], status: int, text: str
) -> None:
    node = SessionNode()
    async with node.serving() as port, aiohttp.ClientSession() as session:
        async with session.get(f"http://127.0.0.1:{port}/exec?{query}", headers=headers) as answer:
            assert answer.status == status
            assert text in await answer.text()
        await node.all_closed()


# --- SPDY clients


async def opened(client: SpdyClient, *kinds: str) -> dict[str, int]:
    return {kind: client.open({"streamtype": kind}) for kind in kinds}


async def test_spdy_streams_end_one_by_one_and_then_the_connection_does() -> None:
    async with SessionNode().serving() as port:
        path = "/exec?command=sh&command=-c&command=cat;%20echo%20err%20>%262;%20exit%202&stdin=1&stdout=1&stderr=1"
        async with get_client(port, path, "v4.channel.k8s.io") as client:
            ids = await opened(client, "error", "stdin", "stdout", "stderr")
            client.send(ids["stdin"], b"abc", ended=True)
            await client.to_the_end()
            assert client.replied == set(ids.values())
            assert (client.data[ids["stdout"]], client.data[ids["stderr"]]) == (b"abc", b"err\n")
            assert json.loads(client.data[ids["error"]])["details"]["causes"][0]["message"] == "2"
            assert {ids["stdout"], ids["stderr"], ids["error"]} <= client.ended
            assert client.has_gone_away


@pytest.mark.parametrize("protocol", ["v3.channel.k8s.io", "v2.channel.k8s.io", "channel.k8s.io"])
async def test_older_spdy_versions_hear_of_failure_in_words(protocol: str) -> None:
    async with SessionNode().serving() as port, get_client(port, "/exec?command=false&stdout=1", protocol) as client:
        ids = await opened(client, "error", "stdout")
        await client.to_the_end()
        assert client.data[ids["error"]] == b"command terminated with non-zero exit code: exit code 1"


async def test_streams_that_nobody_asked_for_are_refused() -> None:
    async with (
        SessionNode().serving() as port,
        get_client(port, "/exec?command=cat&stdin=1&stdout=1", "v4.channel.k8s.io") as client,
    ):
        ids = await opened(client, "error", "stdin", "stdin", "stderr", "nonsense")
        while len(client.reset) < 3:
            await client.hear()
        assert client.replied == {ids["error"], 3}
        client.open({"streamtype": "stdout"})
        client.send(3, b"after all", ended=True)
        await client.to_the_end()
        assert client.data[11] == b"after all"


async def test_a_client_that_does_not_open_its_streams_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_lines, "_OPENING", 0.2)
    node = SessionNode()
    async with node.serving() as port, get_client(port, "/exec?command=cat&stdout=1", "v4.channel.k8s.io") as client:
        await opened(client, "error")
        await client.to_the_end()
        await node.all_closed()


@pytest.mark.parametrize("farewell", ["go away", "nonsense", "hang up"])
async def test_a_program_ends_with_its_client(farewell: str) -> None:
    node = SessionNode()
    path = "/exec?command=sleep&command=1000&stdout=1"
    async with node.serving() as port, get_client(port, path, "v4.channel.k8s.io") as client:
        await opened(client, "error", "stdout")
        await client.hear()
        if farewell == "go away":
            client.go_away()
        elif farewell == "nonsense":
            client.write(b"\x80\x99" + bytes(100))
        else:
            client.writer.close()
        await node.all_closed()


def get_client(port: int, path: str, protocol: str) -> Any:
    return spdy_client(port, path, protocol, method="GET")


# --- slow ones, silent ones, and what breaks


class Endless:
    """A program that writes as much as anybody takes."""

    def __init__(self) -> None:
        self.written = 0
        self.is_closed = False

    async def output(self) -> AsyncGenerator[tuple[Literal["stdout", "stderr"], bytes], None]:
        while True:
            self.written += 256 << 10
            yield "stdout", bytes(256 << 10)

    async def send(self, data: bytes) -> None: ...

    async def close_input(self) -> None: ...

    async def resize(self, width: int, height: int) -> None: ...

    async def exit_code(self) -> int:
        return 0

    async def close(self) -> None:
        self.is_closed = True


class Broken(Endless):
    async def output(self) -> AsyncGenerator[tuple[Literal["stdout", "stderr"], bytes], None]:
        yield "stdout", b"so far"
        raise Retry("the shim does not answer")


class Faulty(Endless):
    async def output(self) -> AsyncGenerator[tuple[Literal["stdout", "stderr"], bytes], None]:
        yield "stdout", b"so far"
        raise ValueError("secret")


class Speech(Endless):
    """Much at once, and then it is over."""

    async def output(self) -> AsyncGenerator[tuple[Literal["stdout", "stderr"], bytes], None]:
        for _ in range(32):
            yield "stdout", bytes(256 << 10)


class NodeOf(SessionNode):
    def __init__(self, session: Session) -> None:
        super().__init__()
        self._session = session

    async def session(self, command: list[str], tty: bool) -> Session:
        return self._session


@pytest.mark.parametrize("kind", ["spdy", "websocket"])
async def test_of_what_a_client_never_reads_little_is_held_and_in_the_end_it_is_silent(kind: str) -> None:
    program = Endless()
    node = NodeOf(program)
    node.idle = 1.0
    async with node.serving() as port:
        if kind == "spdy":
            async with get_client(port, "/exec?command=a&stdout=1", "v4.channel.k8s.io") as client:
                await opened(client, "error", "stdout")
                await node_is_done(node)
        else:
            reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 16)
            head = ("Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13")
            key = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="
            request = "\r\n".join(("GET /exec?command=a&stdout=1 HTTP/1.1", "Host: a", *head, key, "", ""))
            writer.write(request.encode())
            await node_is_done(node)
            writer.close()
            del reader
    assert program.written < 32 << 20  # mostly in the kernel


async def node_is_done(node: SessionNode) -> None:
    await eventually(lambda: node.sessions and node.sessions[0].is_closed)


async def test_a_session_that_breaks_says_so_on_the_error_channel() -> None:
    node = NodeOf(Broken())
    async with node.serving() as port, web_socket(port, "command=a&stdout=1", "v4.channel.k8s.io") as socket:
        hello, so_far, end = await messages(socket)
        assert (hello, so_far) == (b"\x01", b"\x01so far")
        status = json.loads(end[1:])
        assert (status["reason"], status["code"]) == ("InternalError", 500)
        expected = "Internal error occurred: error executing command in container: the shim does not answer"
        assert status["message"] == expected


class Deaf(Endless):
    """Takes neither input nor a size, and waits for its end."""

    def __init__(self) -> None:
        super().__init__()
        self.end = asyncio.Event()

    async def output(self) -> AsyncGenerator[tuple[Literal["stdout", "stderr"], bytes], None]:
        await self.end.wait()
        yield "stdout", b"the end"

    async def send(self, data: bytes) -> None:
        raise Retry("it does not listen")

    async def resize(self, width: int, height: int) -> None:
        raise Retry("it does not look")

    async def close(self) -> None:
        await super().close()
        raise Retry("it does not let go")


async def test_what_a_program_does_not_take_is_in_nobodys_way() -> None:
    program = Deaf()
    node = NodeOf(program)
    async with node.serving() as port, web_socket(port, "command=a&stdin=1&stdout=1", "v5.channel.k8s.io") as socket:
        for _ in range(64):
            await socket.send_bytes(b"\x00" + bytes(64 << 10))
            await socket.send_bytes(b'\x04{"Width":80,"Height":24}' + bytes(64 << 10))
        await socket.ping(b"still there?")
        program.end.set()
        assert await messages(socket) == [b"\x01", b"\x01the end", b'\x03{"metadata":{},"status":"Success"}']


async def test_what_nobody_foresaw_is_told_without_its_secrets() -> None:
    node = NodeOf(Faulty())
    async with node.serving() as port, web_socket(port, "command=a&stdout=1", "v4.channel.k8s.io") as socket:
        status = json.loads((await messages(socket))[-1][1:])
        assert status["message"].endswith("error executing command in container: the agent's log has more")


async def test_the_last_words_arrive_however_slowly_they_are_taken_and_whatever_is_said_meanwhile() -> None:
    node = NodeOf(Speech())
    async with node.serving() as port:
        async with get_client(port, "/exec?command=a&stdout=1", "v4.channel.k8s.io") as client:
            ids = await opened(client, "error", "stdout")
            while not client.is_at_end:
                await client.hear()
                client.write(ping_frame(1))
                await asyncio.sleep(0.005)
            assert len(client.data[ids["stdout"]]) == 8 << 20
            assert client.data[ids["error"]] == b'{"metadata":{},"status":"Success"}'
        async with web_socket(port, "command=a&stdout=1", "v5.channel.k8s.io") as socket:
            heard = []
            async for message in socket:
                heard.append(message.data)
                with suppress(ConnectionError):  # it was heard to the end meanwhile
                    await socket.send_bytes(b"\x00more")
                await asyncio.sleep(0.005)
        assert sum(len(each) - 1 for each in heard if each[0] == 1) == 8 << 20
        assert heard[-1] == b'\x03{"metadata":{},"status":"Success"}'


async def test_a_session_in_which_nobody_says_anything_is_ended() -> None:
    node = SessionNode()
    node.idle = 0.3
    async with node.serving() as port:
        async with web_socket(port, "command=sleep&command=1000&stdout=1", "v4.channel.k8s.io") as socket:
            assert await messages(socket) == [b"\x01"]
        async with get_client(port, "/exec?command=sleep&command=1000&stdout=1", "v4.channel.k8s.io") as client:
            await opened(client, "error", "stdout")
            await client.to_the_end()
            assert client.has_gone_away
        await node.all_closed(2)
        node.idle = 0.0  # it may be silent for ever
        async with web_socket(port, "command=head&command=-n1&stdin=1&stdout=1", "v4.channel.k8s.io") as socket:
            await socket.send_bytes(b"\x00so be it\n")
            assert (await messages(socket))[1] == b"\x01so be it\n"


@pytest.mark.parametrize("kind", ["spdy", "websocket"])
async def test_the_end_of_the_server_is_the_end_of_its_sessions(kind: str) -> None:
    node = SessionNode()
    query, protocol = "command=sleep&command=1000&stdout=1", "v4.channel.k8s.io"
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(AsyncExitStack())
        port = await server.enter_async_context(node.serving())
        if kind == "spdy":
            client = await stack.enter_async_context(get_client(port, f"/exec?{query}", protocol))
            await opened(client, "error", "stdout")
        else:
            await stack.enter_async_context(web_socket(port, query, protocol))
        await eventually(lambda: node.sessions)
        async with asyncio.timeout(20):
            await server.aclose()
        await node.all_closed()
