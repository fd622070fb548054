import asyncio

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer, make_mocked_request
from multidict import CIMultiDict

from kit.virtual_time import virtual_time
from pykubelet.web.upgrade import (
    close_web_socket,
    no_nudge,
    offered_protocols,
    surely,
    until_silent,
    wants_upgrade,
    web_socket,
)


@pytest.mark.parametrize(
    ("headers", "anything", "web_socket"),
    [
        ({}, False, False),
        ({"Upgrade": "websocket"}, False, False),
        ({"Connection": "Upgrade"}, False, False),
        ({"Connection": "keep-alive, Upgrade", "Upgrade": "WebSocket"}, True, True),
        ({"Connection": "Upgrade", "Upgrade": "SPDY/3.1"}, True, False),
    ],
)
def test_an_upgrade_is_wanted_by_both_headers_together(
    headers: dict[str, str], anything: bool, web_socket: bool
) -> None:
    request = make_mocked_request("GET", "/", headers)
    assert (wants_upgrade(request), wants_upgrade(request, "websocket")) == (anything, web_socket)


def test_the_protocols_on_offer_may_be_in_one_header_or_in_several() -> None:
    name = "Sec-WebSocket-Protocol"
    request = make_mocked_request("GET", "/", CIMultiDict([(name, "v5, v4"), (name, ",v3")]))
    assert offered_protocols(request) == ["v5", "v4", "v3"]
    assert offered_protocols(make_mocked_request("GET", "/")) == []


@virtual_time
async def test_silence_counts_from_what_was_said_last() -> None:
    loop, said = asyncio.get_running_loop(), 0
    never = loop.create_future()

    def speak() -> None:
        nonlocal said
        said += 1

    loop.call_later(50, speak)
    begun = loop.time()
    assert not await until_silent(never, lambda: said, 60.0, no_nudge)
    assert 110 <= loop.time() - begun <= 120


@virtual_time
async def test_without_a_limit_only_the_end_of_the_work_is_waited_for_and_clients_are_nudged_meanwhile() -> None:
    nudges = 0

    async def nudge() -> None:
        nonlocal nudges
        nudges += 1

    work = asyncio.ensure_future(asyncio.sleep(95))
    assert await until_silent(work, lambda: 0, 0.0, nudge)
    assert nudges == 9


@virtual_time
async def test_what_is_done_surely_is_done_although_we_are_cancelled() -> None:
    done: list[str] = []

    async def tidy() -> None:
        await asyncio.sleep(5)
        done.append("tidied")

    task = asyncio.ensure_future(surely(tidy()))
    await asyncio.sleep(1)
    task.cancel()
    await asyncio.sleep(1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert done == ["tidied"]


async def test_a_web_socket_is_closed_by_us_whatever_the_client_says_to_it() -> None:
    """A client that keeps its connections would take one that stays open for one that can be used again."""

    async def handle(request: web.Request) -> web.StreamResponse:
        socket = await web_socket(request, [""])
        await socket.send_str("all there is")
        await close_web_socket(request, socket, patience=10.0)
        return socket

    app = web.Application()
    app.router.add_get("/", handle)
    async with TestServer(app) as server:
        reader, writer = await asyncio.open_connection(server.host, server.port)
        writer.write(
            b"GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
            b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
        )
        async with asyncio.timeout(3.0):  # less than we would wait for an answer to our good-bye
            heard = await reader.read()
        assert heard.endswith(b"all there is" + b"\x88\x02" + (1000).to_bytes(2))
        writer.close()
