"""Port-forward on our own connections: clients of each protocol, and some that misbehave."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import aiohttp
import pytest

from kit.spdy import SpdyClient
from kit.streaming_nodes import ForwardNode, echo, listening, never_reads
from kit.waiting import eventually
from pykubelet.server.streaming import port_forward
from pykubelet.web import upgrade

# --- SPDY clients


def pair(client: SpdyClient, port: int, request_id: str = "0") -> tuple[int, int]:
    """-> the streams for data and for errors"""
    common = {"port": str(port), "requestid": request_id}
    error = client.open({"streamtype": "error", **common}, ended=True)
    return client.open({"streamtype": "data", **common}), error


async def test_clients_of_old_give_no_request_id() -> None:
    async with listening(echo) as port, ForwardNode().client() as client:
        for stream_id in (1, 5):
            client.open({"streamtype": "error", "port": str(port)}, ended=True)
            assert client.open({"streamtype": "data", "port": str(port)}) == stream_id + 2
            client.send(stream_id + 2, b"hi %d" % stream_id, ended=True)
        while not {1, 3, 5, 7} <= client.ended:
            await client.hear()
        assert client.data[3] == b"hi 1"
        assert client.data[7] == b"hi 5"


@pytest.mark.parametrize(
    "headers",
    [
        {"streamtype": "data"},
        {"streamtype": "data", "port": "0"},
        {"streamtype": "data", "port": "65536"},
        {"streamtype": "data", "port": "-1"},
        {"streamtype": "stdin", "port": "80"},
        {"port": "80"},
    ],
)
async def test_streams_that_lead_nowhere_are_refused(headers: dict[str, str]) -> None:
    async with ForwardNode().client() as client:
        client.open(headers)
        while not client.reset:
            await client.hear()
        assert not client.replied


async def test_a_second_stream_of_a_kind_is_refused() -> None:
    async with ForwardNode().client() as client:
        for _ in range(2):
            client.open({"streamtype": "error", "port": "80", "requestid": "1"})
        while not client.reset:
            await client.hear()
        assert (client.replied, client.reset) == ({1}, {3})


async def test_half_a_pair_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(port_forward, "_PAIRING", 0.2)
    async with ForwardNode().client() as client:
        client.open({"streamtype": "error", "port": "80", "requestid": "1"})
        client.open({"streamtype": "data", "port": "80", "requestid": "2"})
        while not (1 in client.ended and 3 in client.reset):
            await client.hear()
        assert client.data[1] == b"timed out waiting for the streams of request 1"


async def test_a_connection_that_the_client_gives_up_is_closed_and_others_go_on() -> None:
    node = ForwardNode()
    async with listening(echo) as port, node.client() as client:
        first, _ = pair(client, port, "1")
        second, error = pair(client, port, "2")
        await eventually(lambda: len(node.connections) == 2)
        client.give_up(first)
        await eventually(lambda: node.connections[0].is_closed)
        client.send(second, b"still here", ended=True)
        while error not in client.ended:
            await client.hear()
        assert client.data[second] == b"still here"


async def test_when_the_client_goes_all_its_connections_are_closed() -> None:
    node = ForwardNode()
    async with listening(never_reads) as port:
        async with node.client() as client:
            for number in range(5):
                pair(client, port, str(number))
            await eventually(lambda: len(node.connections) == 5)
            client.writer.close()
            await eventually(lambda: all(connection.is_closed for connection in node.connections))
        await eventually(lambda: node.is_done)


async def test_a_pod_that_never_reads_fills_only_so_much(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upgrade, "_LOOK", 0.2)
    node = ForwardNode()
    async with listening(never_reads) as port, node.client() as client:
        data, _ = pair(client, port)
        sent = 0
        with suppress(TimeoutError):
            while sent < 256 << 20:
                client.send(data, bytes(64 << 10))
                sent += 64 << 10
                await asyncio.wait_for(client.writer.drain(), 1.0)
        assert sent < 64 << 20  # mostly in the kernel
        client.give_up(data)  # which cannot be heard any more
        client.writer.transport.abort()
        await eventually(lambda: node.connections[0].is_closed)


async def test_a_client_that_never_reads_is_not_read_for() -> None:
    sent = 0

    async def flood(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        while True:
            writer.write(bytes(256 << 10))
            await writer.drain()
            sent += 256 << 10

    node = ForwardNode()
    node.idle = 1.0
    async with listening(flood) as port, node.client() as client:
        pair(client, port)
        await eventually(lambda: node.is_done)  # in the end it is silent
        assert node.connections[0].is_closed
    assert sent < 64 << 20


async def test_a_client_that_says_nothing_is_shown_the_door() -> None:
    node = ForwardNode()
    node.idle = 0.3
    async with node.client() as client:
        await client.to_the_end()
        assert client.has_gone_away


# --- WebSocket clients that name their ports beforehand


@asynccontextmanager
async def web_socket(node: ForwardNode, *ports: int, protocol: str = "v4.channel.k8s.io") -> AsyncIterator[Any]:
    query = "&".join(f"port={port}" for port in ports)
    async with node.serving() as port, aiohttp.ClientSession() as session:
        address = f"http://127.0.0.1:{port}/pf?{query}"
        async with session.ws_connect(address, protocols=[protocol] if protocol else []) as socket:
            yield socket


async def test_each_port_has_two_channels_that_begin_with_its_number() -> None:
    node = ForwardNode()
    async with listening(echo) as one, listening(echo) as two, web_socket(node, one, two) as socket:
        begun = {(await socket.receive_bytes()) for _ in range(4)}
        little = [port.to_bytes(2, "little") for port in (one, two)]
        assert begun == {b"\x00" + little[0], b"\x01" + little[0], b"\x02" + little[1], b"\x03" + little[1]}
        await socket.send_bytes(b"\x02to the second")
        assert await socket.receive_bytes() == b"\x02to the second"
        await socket.send_bytes(b"\x00to the first")
        await socket.send_bytes(b"\x01to nobody")
        await socket.send_bytes(b"\x09to nobody")
        assert await socket.receive_bytes() == b"\x00to the first"
        await socket.close()
        await eventually(lambda: [each.is_closed for each in node.connections] == [True, True])


async def test_when_the_last_connection_has_ended_so_has_the_web_socket() -> None:
    async def farewell(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"good-bye")

    async with listening(farewell) as port, web_socket(ForwardNode(), port, protocol="") as socket:
        heard = [message.data async for message in socket]
        assert heard[2:] == [b"\x00good-bye"]
        assert socket.close_code == 1000


async def test_a_port_on_which_nobody_listens_is_told_on_its_error_channel() -> None:
    async with listening(echo) as port:
        pass
    async with web_socket(ForwardNode(), port) as socket:
        heard = [message.data async for message in socket]
        assert heard[2].startswith(b"\x01error forwarding port %d to pod: nobody listens" % port)


async def test_without_a_port_there_is_nothing_to_forward() -> None:
    with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
        async with web_socket(ForwardNode()):
            pass
    assert refused.value.status == 400
