"""The name server on a real socket of the loopback address."""

import asyncio
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import dns.asyncquery
import dns.exception
import dns.flags
import dns.message
import dns.rcode
import dns.rrset
import pytest

from kit.services import a_service, a_slice, an_endpoint
from kit.waiting import eventually
from pykubelet.services import name_server
from pykubelet.services.forwarder import Forwarder
from pykubelet.services.name_server import NameServer
from pykubelet.services.zone import Zone

SVC = "default.svc.cluster.local"
ZONE = Zone(
    [
        a_service(),
        a_service("db", "None"),
        a_service("out", "", type="ExternalName", external_name="db.example.org"),
        a_service("alias", "", type="ExternalName", external_name=f"web.{SVC}"),
        a_service("far", "", type="ExternalName", external_name=f"out.{SVC}"),
        a_service("loop", "", type="ExternalName", external_name=f"loop.{SVC}"),
    ],
    [a_slice("db", *(an_endpoint(f"10.1.0.{number}") for number in range(1, 90)))],
    "cluster.local",
)
ANSWERS = {"db.example.org.": "db.example.org. 60 IN A 203.0.113.7", "large.example.": "large.example. 60 IN TXT x"}


def rrset(line: str) -> dns.rrset.RRset:
    name, ttl, klass, kind, data = line.split()
    return dns.rrset.from_text(name, int(ttl), klass, kind, data)


class Upstream(asyncio.DatagramProtocol):
    """Another name server. What it does not know it does not answer."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.sources: set[int] = set()
        self.lies: list[Callable[[bytes], bytes]] = []
        self.transport: asyncio.DatagramTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport  # type: ignore[assignment]

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        query = dns.message.from_wire(data)
        name = query.question[0].name.to_text()
        self.asked.append(name)
        self.sources.add(addr[1])
        if name not in ANSWERS:
            return
        answer = dns.message.make_response(query)
        answer.answer.append(rrset(ANSWERS[name]))
        assert self.transport is not None
        for lie in self.lies:
            self.transport.sendto(lie(answer.to_wire()), addr)
        self.transport.sendto(answer.to_wire(), addr)


class World:
    def __init__(self, port: int, upstream: Upstream, server: NameServer) -> None:
        self.port = port
        self.upstream = upstream
        self.server = server

    async def ask(self, name: str, kind: str = "A", *, tcp: bool = False, **more: int) -> dns.message.Message:
        query = dns.message.make_query(name, kind, **more)  # type: ignore[arg-type]
        ask = dns.asyncquery.tcp if tcp else dns.asyncquery.udp
        return await ask(query, "127.0.0.1", timeout=5, port=self.port)


@asynccontextmanager
async def running(is_ours: Callable[[str], bool] = lambda address: True, patience: float = 0.2) -> AsyncIterator[World]:
    upstream = Upstream()
    transport, _ = await asyncio.get_running_loop().create_datagram_endpoint(lambda: upstream, ("127.0.0.1", 0))
    port = transport.get_extra_info("sockname")[1]
    server = NameServer(lambda: ZONE, Forwarder(lambda: ("127.0.0.1",), port=port, patience=patience), is_ours)
    try:
        async with server.serving("127.0.0.1") as served:
            yield World(served, upstream, server)
    finally:
        transport.close()


def shown(message: dns.message.Message) -> list[str]:
    return sorted(line for rrset in message.answer for line in rrset.to_text().splitlines())


async def test_names_of_services_are_answered_as_they_were_written() -> None:
    async with running() as world:
        for tcp in (False, True):
            said = await world.ask("WEB.Default.svc.cluster.local.", tcp=tcp)
            assert shown(said) == ["WEB.Default.svc.cluster.local. 5 IN A 10.96.0.100"]
            assert said.flags & dns.flags.AA
        assert shown(await world.ask(f"alias.{SVC}.")) == [
            f"alias.{SVC}. 5 IN CNAME web.{SVC}.",
            f"web.{SVC}. 5 IN A 10.96.0.100",
        ]
        assert shown(await world.ask(f"loop.{SVC}.")) == [f"loop.{SVC}. 5 IN CNAME loop.{SVC}."]
        assert world.upstream.asked == []


async def test_what_is_not_there_and_what_has_nothing_of_the_kind_are_told_apart() -> None:
    async with running() as world:
        for name, kind, code in (
            (f"nope.{SVC}.", "A", dns.rcode.NXDOMAIN),
            (f"web.{SVC}.", "AAAA", dns.rcode.NOERROR),
        ):
            said = await world.ask(name, kind)
            assert (said.rcode(), said.answer) == (code, [])
            assert said.authority[0].to_text().startswith("cluster.local. 5 IN SOA ")
        assert world.upstream.asked == [], "nobody else learns what pods look for in the cluster"


async def test_long_answers_are_cut_in_datagrams_and_whole_otherwise() -> None:
    async with running() as world:
        for said in (await world.ask(f"db.{SVC}."), await world.ask(f"db.{SVC}.", use_edns=0, payload=4096)):
            assert said.flags & dns.flags.TC
            assert not said.answer
        assert len(shown(await world.ask(f"db.{SVC}.", tcp=True))) == 89


async def test_other_names_are_asked_for_elsewhere() -> None:
    async with running() as world:
        assert shown(await world.ask("db.example.org.")) == ["db.example.org. 60 IN A 203.0.113.7"]
        assert shown(await world.ask(f"out.{SVC}.")) == [
            "db.example.org. 60 IN A 203.0.113.7",
            f"out.{SVC}. 5 IN CNAME db.example.org.",
        ]
        assert shown(await world.ask(f"far.{SVC}."))[0] == "db.example.org. 60 IN A 203.0.113.7"
        assert (await world.ask("silent.example.")).rcode() == dns.rcode.SERVFAIL
        assert (await world.ask("db.example.org.", tcp=True)).rcode() == dns.rcode.SERVFAIL, "it takes no connections"


async def test_only_the_answer_to_the_question_is_passed_on() -> None:
    async with running() as world:
        forged = dns.message.make_response(dns.message.make_query("db.example.org.", "A", id=1))
        forged.answer.append(rrset("db.example.org. 60 IN A 203.0.113.66"))
        other = dns.message.make_response(dns.message.make_query("other.example.", "A"))
        world.upstream.lies = [
            lambda answer: forged.to_wire() if answer[:2] != b"\0\1" else b"",
            lambda answer: answer[:2] + other.to_wire()[2:],
            lambda answer: answer[:11],
            lambda answer: b"",
        ]
        for _ in range(5):
            assert shown(await world.ask("db.example.org.")) == ["db.example.org. 60 IN A 203.0.113.7"]
        assert len(world.upstream.sources) == 5, "each from a port of its own"


async def test_one_question_that_many_ask_goes_out_once() -> None:
    async with running(patience=0.5) as world:
        query = dns.message.make_query("silent.example.", "A").to_wire()[2:]
        asking = [
            asyncio.create_task(world.server._forwarder.ask(struct.pack("!H", number) + query, by_tcp=False))
            for number in range(50)
        ]
        await asyncio.gather(*asking, return_exceptions=True)
        assert world.upstream.asked == ["silent.example."]


async def test_a_flood_of_questions_ends_in_refusals_and_the_cluster_is_still_answered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(name_server, "MOST_WAITING", 3)
    async with running(patience=1.0) as world:
        waiting = [asyncio.create_task(world.ask(f"silent-{number}.example.")) for number in range(3)]
        await eventually(lambda: len(world.upstream.asked) == 3)
        assert (await world.ask("one-more.example.")).rcode() == dns.rcode.SERVFAIL
        assert shown(await world.ask(f"web.{SVC}.")) != []
        assert len(world.upstream.asked) == 3
        await asyncio.gather(*waiting)


async def test_strangers_hear_nothing() -> None:
    async with running(lambda address: False) as world:
        query = dns.message.make_query(f"web.{SVC}.", "A")
        with pytest.raises(dns.exception.Timeout):
            await dns.asyncquery.udp(query, "127.0.0.1", timeout=0.3, port=world.port)
        with pytest.raises(EOFError):
            await dns.asyncquery.tcp(query, "127.0.0.1", timeout=3, port=world.port)


@pytest.mark.parametrize("kind", ["ANY", "AXFR", "IXFR"])
async def test_nobody_gets_everything_at_once(kind: str) -> None:
    async with running() as world:
        query = dns.message.make_query("cluster.local.", kind)
        query.authority = []  # what is asked for with IXFR
        said = await dns.asyncquery.udp(query, "127.0.0.1", timeout=3, port=world.port)
        assert (said.rcode(), said.answer) == (dns.rcode.REFUSED, [])
        assert len(said.to_wire()) <= len(query.to_wire())


async def test_connections_are_few_and_end_when_nothing_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(name_server, "MOST_CONNECTIONS", 2)
    monkeypatch.setattr(name_server, "_IDLE", 0.3)
    async with running() as world:
        idle = [await asyncio.open_connection("127.0.0.1", world.port) for _ in range(2)]
        await asyncio.sleep(0.05)
        reader, writer = await asyncio.open_connection("127.0.0.1", world.port)
        assert await reader.read(1) == b"", "one too many"
        writer.close()
        for reader, writer in idle:
            assert await asyncio.wait_for(reader.read(1), 5) == b""
            writer.close()
        assert shown(await world.ask(f"web.{SVC}.", tcp=True)) != []


async def test_garbage_ends_a_connection_and_nothing_else() -> None:
    async with running() as world:
        for garbage in (b"\0\0", b"\0\5abcde", b"\xff\xff" + b"x" * 100):
            reader, writer = await asyncio.open_connection("127.0.0.1", world.port)
            writer.write(garbage)
            writer.write_eof()
            assert await asyncio.wait_for(reader.read(), 5) == b""
            writer.close()
        assert shown(await world.ask(f"web.{SVC}.", tcp=True)) != []
