"""The web server under both HTTP APIs, and what nobody may do to it."""

import asyncio
import logging
import socket
import ssl
from asyncio import sslproto
from collections.abc import Awaitable, Callable
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web

from kit.certificates import Authority, server_context
from pykubelet.base.errors import Retry
from pykubelet.web.guests import recognised, turned_down
from pykubelet.web.serving import Limits, serving


async def fine(_: web.Request) -> web.Response:
    return web.Response(text="fine")


def app(handler: Callable[[web.Request], Awaitable[web.StreamResponse]] = fine) -> web.Application:
    made = web.Application()
    made.router.add_get("/", handler)
    return made


async def get(port: int, **headers: str) -> tuple[int, str]:
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"http://127.0.0.1:{port}/", headers=headers) as answer,
    ):
        return answer.status, await answer.text()


async def test_headers_that_are_too_large_are_refused() -> None:
    async with serving(app(), "127.0.0.1", 0) as port:
        assert (await get(port, X="r" * (60 << 10)))[0] == 200
        assert (await get(port, X="r" * (100 << 10)))[0] == 400
    async with serving(app(), "127.0.0.1", 0, limits=Limits(longest_line=256 << 10)) as port:
        assert (await get(port, X="r" * (100 << 10)))[0] == 200


async def test_who_connects_and_says_nothing_is_shown_the_door() -> None:
    async with serving(app(), "127.0.0.1", 0, limits=Limits(head_seconds=0.2)) as port:
        silent, dribbling = [await asyncio.open_connection("127.0.0.1", port) for _ in range(2)]
        dribbling[1].write(b"GET / HTTP/1.1\r\nX-Na")
        async with asyncio.timeout(10):
            assert await silent[0].read() == b""
            assert b"200" not in await dribbling[0].read()
        assert await get(port) == (200, "fine")
        for _, writer in (silent, dribbling):
            writer.close()


async def named(request: web.Request) -> web.Response:
    """Who says a name is known by it."""
    name = request.headers.get("X-Name", "")
    if not name:
        turned_down(request)
        return web.Response(status=401)
    return web.Response(text="fine") if recognised(request, name) else web.Response(status=429)


class Client:
    """One connection that stays, of somebody who has a name or has none."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    @classmethod
    async def connect(cls, port: int) -> "Client":
        return cls(*await asyncio.open_connection("127.0.0.1", port))

    async def ask(self, name: str = "") -> bytes:
        """The first line of the answer; empty when the connection has ended."""
        given = f"X-Name: {name}\r\n" if name else ""
        async with asyncio.timeout(10):
            try:
                self.writer.write(f"GET / HTTP/1.1\r\nHost: a\r\n{given}\r\n".encode())
                head = await self.reader.readuntil(b"\r\n\r\n")
                await self.reader.readexactly(int(head.lower().partition(b"content-length: ")[2].split()[0]))
            except (ConnectionError, asyncio.IncompleteReadError):
                return b""
        return head.partition(b"\r\n")[0]

    async def ended(self) -> bytes:
        async with asyncio.timeout(10):
            return await self.reader.read()

    def close(self) -> None:
        self.writer.close()


OK, UNKNOWN, TOO_MANY = b"HTTP/1.1 200 OK", b"HTTP/1.1 401 Unauthorized", b"HTTP/1.1 429 Too Many Requests"


async def test_who_is_known_may_rest_between_two_requests_and_nobody_else() -> None:
    async with serving(app(named), "127.0.0.1", 0, limits=Limits(head_seconds=0.2)) as port:
        known, stranger = await Client.connect(port), await Client.connect(port)
        assert (await known.ask("me"), await stranger.ask()) == (OK, UNKNOWN)
        assert await stranger.ended() == b""
        await asyncio.sleep(0.2)  # longer than anybody has who is not known
        assert await known.ask("me") == OK
        assert await known.ask() == UNKNOWN  # now nobody knows who that is
        assert await known.ended() == b""
        known.close()
        stranger.close()


async def test_who_holds_connections_without_a_name_keeps_nobody_out() -> None:
    async with serving(app(named), "127.0.0.1", 0, limits=Limits(connections=40)) as port:
        held = [await Client.connect(port) for _ in range(30)]
        answers = [await client.ask() for client in held[-5:]]
        for name in ("a", "b", "c"):
            client = await Client.connect(port)
            assert await client.ask(name) == OK
            held.append(client)
        flood = [await Client.connect(port) for _ in range(60)]
        await asyncio.sleep(0.05)
        assert [await client.ask(name) for client, name in zip(held[-3:], "abc", strict=True)] == [OK] * 3
        assert answers == [UNKNOWN] * 5
        assert await held[0].ended() == b""  # the longest there
        for client in (*held, *flood):
            client.close()


async def test_one_who_is_known_has_no_more_than_a_part_and_only_what_rests_is_ended() -> None:
    busy = asyncio.Event()

    async def slow(request: web.Request) -> web.StreamResponse:
        answer = await named(request)
        if "Slow" in request.headers.get("X-Name", "") and answer.status == 200:
            await busy.wait()
        return answer

    async with serving(app(slow), "127.0.0.1", 0, limits=Limits(connections=8)) as port:
        resting = [await Client.connect(port)]
        assert await resting[0].ask("a") == OK
        for _ in range(4):
            resting.append(await Client.connect(port))
            assert await resting[-1].ask("a") == OK
        assert await resting[0].ended() == b""  # of five; four may stay
        watching, asked = [], []
        for _ in range(4):
            watching.append(await Client.connect(port))
            asked.append(asyncio.ensure_future(watching[-1].ask("Slow")))
            await asyncio.sleep(0.05)
        watching.append(await Client.connect(port))
        assert await watching[-1].ask("Slow") == TOO_MANY  # all that this one has is under way
        busy.set()
        assert await asyncio.gather(*asked) == [OK] * 4
        for client in (*resting, *watching):
            client.close()


async def test_a_newcomer_is_refused_only_when_nobody_rests() -> None:
    busy = asyncio.Event()

    async def slow(request: web.Request) -> web.StreamResponse:
        answer = await named(request)
        await busy.wait()
        return answer

    async with serving(app(slow), "127.0.0.1", 0, limits=Limits(connections=4)) as port:
        clients, asked = [], []
        for name in "abc":
            clients.append(await Client.connect(port))
            asked.append(asyncio.ensure_future(clients[-1].ask(name)))
            await asyncio.sleep(0.05)
        last = await Client.connect(port)
        fourth = asyncio.ensure_future(last.ask("d"))
        await asyncio.sleep(0.05)
        busy.set()
        assert await asyncio.gather(*asked) == [OK] * 3
        assert await fourth == TOO_MANY  # room is kept for those who only come to say who they are
        for client in (*clients, last):
            client.close()


async def test_who_never_begins_with_tls_makes_room_too() -> None:
    limits = Limits(connections=16, head_seconds=5.0)
    tls = server_context(Authority().issue("n1", hosts=["127.0.0.1"]))
    async with serving(app(), "127.0.0.1", 0, tls=tls, limits=limits) as port:
        held = [await Client.connect(port) for _ in range(10)]
        async with asyncio.timeout(3):  # long before the patience with them ends
            assert await asyncio.gather(*(client.ended() for client in held[:8])) == [b""] * 8
        trusting = ssl.create_default_context()
        trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=trusting)
        writer.write(b"GET / HTTP/1.1\r\nHost: n1\r\nConnection: close\r\n\r\n")
        assert (await reader.read()).endswith(b"fine")
        writer.close()
        for client in held:
            client.close()


async def test_a_client_that_vanishes_without_a_word_is_missed_within_minutes() -> None:
    seen: list[int] = []

    async def look(request: web.Request) -> web.Response:
        raw = request.get_extra_info("socket")
        seen.append(raw.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE))
        idle, interval, count = (
            raw.getsockopt(socket.IPPROTO_TCP, option)
            for option in (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT)
        )
        seen.append(idle + interval * count)
        return web.Response()

    async with serving(app(look), "127.0.0.1", 0) as port:
        await get(port)
    assert seen[0] == 1
    assert seen[1] <= 180


async def test_what_is_no_http_gets_one_line_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    async with serving(app(), "127.0.0.1", 0) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET / HTTP/1.1\r\nHost : a\r\n\r\n")
        assert (await reader.read()).startswith(b"HTTP/1.0 400")
        writer.close()
    (record,) = caplog.records
    assert record.exc_info is None
    assert "\n" not in record.getMessage()
    assert record.getMessage().startswith("a request from 127.0.0.1 cannot be read: Invalid header token")


async def test_an_address_that_is_taken_is_told() -> None:
    async with serving(app(), "127.0.0.1", 0) as port:
        with pytest.raises(Retry, match=f"cannot serve on 127.0.0.1 port {port}: "):
            async with serving(app(), "127.0.0.1", port):
                pass


async def test_what_asyncio_keeps_for_a_tls_connection_is_what_the_limits_say(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sslproto.SSLProtocol, "max_size", sslproto.SSLProtocol.max_size)  # put back afterwards
    tls = server_context(Authority().issue("n1", hosts=["127.0.0.1"]))
    kept: list[int] = []

    async def look(request: web.Request) -> web.Response:
        kept.append(len(request.transport._ssl_protocol._ssl_buffer))  # type: ignore[union-attr]
        return web.Response()

    trusting = aiohttp.TCPConnector(ssl=False)
    async with (
        serving(app(look), "127.0.0.1", 0, tls=tls, limits=Limits(tls_buffer=8 << 10)) as port,
        aiohttp.ClientSession(connector=trusting) as session,
        session.get(f"https://127.0.0.1:{port}/") as answer,
    ):
        assert answer.status == 200
    assert kept == [8 << 10]


async def test_a_certificate_that_cannot_be_read_keeps_nobody_else_out(tmp_path: Path) -> None:
    authority = Authority()
    tls = server_context(authority.issue("n1", hosts=["127.0.0.1"]), clients=authority)
    odd = authority.issue("odd", raw_names=b"\x30\x03\x82\x01\xff")  # the name of a host, of a byte that is no text
    (tmp_path / "odd").write_bytes(odd.certificate + odd.key)
    trusting = ssl.create_default_context(cadata=authority.pem.decode())
    with_odd = ssl.create_default_context(cadata=authority.pem.decode())
    with_odd.load_cert_chain(tmp_path / "odd")
    async with serving(app(), "127.0.0.1", 0, tls=tls) as port, asyncio.timeout(10):
        for context, answer in ((with_odd, b""), (trusting, b"fine")):
            reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
            writer.write(b"GET / HTTP/1.1\r\nHost: n1\r\nConnection: close\r\n\r\n")
            assert (await reader.read())[-4:] == answer
            writer.close()


@pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="this machine has no IPv6")
@pytest.mark.parametrize("address", ["0.0.0.0", "::"])
async def test_all_addresses_are_those_of_both_families(address: str) -> None:
    async def who(request: web.Request) -> web.Response:
        return web.Response(text=request.remote)

    async with serving(app(who), address, 0) as port, aiohttp.ClientSession() as session:
        for client in ("127.0.0.1", "::1"):
            async with session.get(f"http://{f'[{client}]' if ':' in client else client}:{port}/") as answer:
                assert await answer.text() == client
        with pytest.raises(Retry, match="in use"):
            async with serving(app(), address, port):
                pass
