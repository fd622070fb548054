"""The loop around the rules, with a packet filter that writes down what it is told."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from kit.services import a_service, a_slice, an_endpoint
from kit.virtual_time import virtual_time
from pykubelet.api.services import EndpointPort, ServicePort
from pykubelet.services import conntrack, nft, routes
from pykubelet.services.fronts import Place
from pykubelet.services.proxier import LOOK_AGAIN, Known, Proxier, removed, why_not

SOMETHING = Known((a_service(),), (a_slice("web", an_endpoint("10.1.0.5")),))


class Filter:
    def __init__(self) -> None:
        self.there: set[str] = set()
        self.chains: set[str] = set()
        self.applied: list[str] = []
        self.trouble = ""

    def apply(self, text: str, *, only_check: bool = False) -> str:
        if self.trouble or only_check:
            return self.trouble
        self.applied.append(text)
        self.there.add("ip pykubelet-t")
        if text.endswith("delete table ip pykubelet-t\n"):
            self.there.discard("ip pykubelet-t")
        return ""


@pytest.fixture
def packets(monkeypatch: pytest.MonkeyPatch) -> Filter:
    made = Filter()

    async def at_once(work, *args):  # type: ignore[no-untyped-def]
        return work(*args)

    monkeypatch.setattr(nft, "applied", made.apply)
    monkeypatch.setattr(nft, "tables", lambda: frozenset(made.there))
    monkeypatch.setattr(nft, "has_chain", lambda table, chain: f"{table} {chain}" in made.chains)
    monkeypatch.setattr(routes, "why_not", lambda table: "")
    monkeypatch.setattr(routes, "keep", lambda addresses, table: "")
    monkeypatch.setattr(asyncio, "to_thread", at_once)
    return made


class World:
    def __init__(self) -> None:
        self.known: Known | None = SOMETHING
        self.others = ""
        self.proxier = Proxier("pykubelet-t", lambda: self.known, lambda: Place(node="n1"), others=lambda: self.others)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        await self.proxier.look()
        task = asyncio.create_task(self.proxier.run())
        try:
            await asyncio.sleep(1)
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def tell(self, known: Known) -> None:
        self.known = known
        self.proxier.changed()
        await asyncio.sleep(1)


@virtual_time
async def test_rules_follow_what_is_known_and_the_same_again_is_left_alone(packets: Filter) -> None:
    world = World()
    async with world.running():
        assert len(packets.applied) == 1
        assert "dnat to 10.1.0.5:8080" in packets.applied[0]
        await world.tell(SOMETHING)
        assert len(packets.applied) == 1
        await world.tell(Known((a_service(),), ()))
        assert len(packets.applied) == 2
        assert "dnat" not in packets.applied[1]
        assert "delete table" not in packets.applied[1]
    assert packets.there == {"ip pykubelet-t"}, "they stay without the agent"
    await world.proxier.withdraw()
    assert packets.there == set()


@virtual_time
async def test_a_storm_of_changes_makes_few_rules(packets: Filter) -> None:
    world = World()
    async with world.running():
        for number in range(100):
            world.known = Known((a_service(),), (a_slice("web", an_endpoint(f"10.1.0.{number + 1}")),))
            world.proxier.changed()
            await asyncio.sleep(0.01)
        await asyncio.sleep(1)
        assert len(packets.applied) < 10
        assert "10.1.0.100:8080" in packets.applied[-1]


@virtual_time
async def test_nothing_is_done_before_the_api_server_has_told(packets: Filter) -> None:
    world = World()
    world.known = None
    packets.there.add("ip pykubelet-t")  # of an agent of before: it is believed until more is known
    async with world.running():
        assert packets.applied == []
        await world.tell(SOMETHING)
        assert packets.applied[0].startswith("add table ip pykubelet-t\ndelete table ip pykubelet-t\n")


@virtual_time
async def test_rules_that_were_cleared_away_come_back(packets: Filter) -> None:
    world = World()
    async with world.running():
        packets.there.clear()
        await asyncio.sleep(2 * LOOK_AGAIN)
        assert packets.there == {"ip pykubelet-t"}


@virtual_time
async def test_what_is_refused_is_tried_again_as_a_whole(packets: Filter) -> None:
    world = World()
    async with world.running():
        packets.trouble = "no such file"
        await world.tell(Known())
        packets.trouble = ""
        await asyncio.sleep(5)
        assert "delete table" in packets.applied[-1]


@pytest.mark.parametrize("other", ["ip kube-proxy", "ip pykubelet-other"])
@virtual_time
async def test_others_who_come_later_have_it(packets: Filter, other: str) -> None:
    world = World()
    async with world.running():
        packets.there.add(other)
        await asyncio.sleep(2 * LOOK_AGAIN)
        assert packets.there == {other}
        packets.there.clear()
        await asyncio.sleep(2 * LOOK_AGAIN)
        await world.tell(SOMETHING)
        assert packets.there == {"ip pykubelet-t"}
        world.others = "a pod does it"
        await asyncio.sleep(2 * LOOK_AGAIN)
        assert packets.there == set()


def test_why_not(packets: Filter) -> None:
    assert why_not("pykubelet-t") == ""
    packets.there = {"ip pykubelet-t", "ip filter"}
    assert why_not("pykubelet-t") == ""
    packets.trouble = "no such file"
    assert why_not("pykubelet-t") == "the packet filter cannot be changed: no such file"
    packets.trouble = "cache initialization failed: Operation not permitted"
    assert why_not("pykubelet-t") == "only root may change the packet filter"
    packets.there.add("ip pykubelet-x")
    assert "nft delete table ip pykubelet-x" in why_not("pykubelet-t")
    packets.chains.add("ip nat KUBE-SERVICES")
    assert why_not("pykubelet-t") == "kube-proxy does that here"


def test_only_our_own_is_removed(packets: Filter) -> None:
    packets.there = {"ip pykubelet-other", "ip filter"}
    removed("pykubelet-t")
    assert packets.applied == []
    packets.there.add("ip pykubelet-t")
    removed("pykubelet-t")
    assert packets.there == {"ip pykubelet-other", "ip filter"}


@virtual_time
async def test_a_kernel_that_does_not_forget_clients_is_told_of_once(
    packets: Filter, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refused(*_: object) -> int:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(conntrack, "forget_stale", refused)
    service = a_service("dns", "10.96.0.53", ServicePort(name="dns", port=53, protocol="UDP"))
    ports = (EndpointPort(name="dns", port=8053, protocol="UDP"),)
    world = World()
    async with world.running():
        for last in (5, 6, 7):
            await world.tell(Known((service,), (a_slice("dns", an_endpoint(f"10.1.0.{last}"), ports=ports),)))
            assert f"10.1.0.{last}:8053" in packets.applied[-1]
    assert [each.message.rpartition(": ")[2] for each in caplog.records] == ["[Errno 1] Operation not permitted"]
