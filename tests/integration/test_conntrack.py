"""UDP clients that keep their port when endpoints come and go, with the kernel's packet filter, in our own network."""

import asyncio
import socket
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from itertools import count
from select import select

import pytest

from kit.netns import ADDRESS, own_network
from kit.services import a_service, a_slice, an_endpoint
from pykubelet.api.services import EndpointPort, ServicePort
from pykubelet.services.fronts import Family, Place
from pykubelet.services.proxier import Known, Proxier

pytestmark = pytest.mark.timeout(60)

SERVICE = {4: "10.96.0.53", 6: "fd00:96::53"}
ENDS = {4: ("10.1.0.5", "10.1.0.6", "10.1.0.7"), 6: ("fd00:1::5", "fd00:1::6")}
HERE = {4: ADDRESS, 6: "fd00:2::1"}
KINDS = {4: socket.AF_INET, 6: socket.AF_INET6}
NODE_PORT = 30053
NUMBERS = count()
Client = tuple[socket.socket, tuple[str, int]]
"""And where it sends to."""


@pytest.fixture(scope="module", autouse=True)
def network() -> Iterator[None]:
    with own_network():
        for address in (*ENDS[4], *ENDS[6], HERE[6]):
            nodad = ("nodad",) if ":" in address else ()
            subprocess.run(["ip", "address", "add", address, "dev", "lo", *nodad], check=True)
        subprocess.run(["ip", "-6", "route", "add", "default", "dev", "here"], check=True)
        # Somebody whose rules make the kernel remember, with services or without.
        theirs = (
            "add table ip t; add chain ip t c { type nat hook output priority 0; }; add rule ip t c ct state new accept"
        )
        subprocess.run(["nft", theirs], check=True)
        yield


class World:
    def __init__(self, family: Family) -> None:
        self.family = family
        self._known = Known()
        here = frozenset(HERE.values())
        self._proxier = Proxier("pykubelet-t", lambda: self._known, lambda: Place(node="n1", addresses=here))
        self._sockets: list[socket.socket] = []
        self.ends = [self._bound((address, 8053)) for address in ENDS[family]]

    def client(self, to: tuple[str, int] | None = None) -> Client:
        return self._bound(("", 0)), to or (SERVICE[self.family], 53)

    def _bound(self, to: tuple[str, int]) -> socket.socket:
        made = socket.socket(KINDS[self.family], socket.SOCK_DGRAM)
        made.bind(to)
        made.settimeout(0.2)
        self._sockets.append(made)
        return made

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        task = asyncio.create_task(self._proxier.run())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            await self._proxier.withdraw()
            for each in self._sockets:
                each.close()

    def lead_to(self, *numbers: int) -> None:
        port = ServicePort(name="dns", port=53, protocol="UDP", node_port=NODE_PORT)
        ports = (EndpointPort(name="dns", port=8053, protocol="UDP"),)
        ends = [an_endpoint(ENDS[self.family][each]) for each in numbers]
        service = a_service("dns", SERVICE[self.family], port, type="NodePort")
        self._known = Known((service,), (a_slice("dns", *ends, ports=ports),))
        self._proxier.changed()

    async def gets_to(self, client: Client, *wanted: int) -> int:
        """It keeps sending: what the kernel remembers of it does not get old."""
        async with asyncio.timeout(10):
            while (got := self.reached(client)) not in wanted:  # noqa: ASYNC110 - the kernel has no events
                await asyncio.sleep(0.05)
        assert got is not None
        return got

    def reached(self, client: Client) -> int | None:
        """-> which end a packet gets to, if the client takes the answer for one of the service"""
        mine, to = client
        word = str(next(NUMBERS)).encode()
        with suppress(OSError):  # refused, or of the packet before
            mine.sendto(word, to)
            for end in select(self.ends, (), (), 0.2)[0]:
                said, sender = end.recvfrom(100)
                end.sendto(said, sender)
                answer, by = mine.recvfrom(100)
                if said == answer == word and by[:2] == to:
                    return self.ends.index(end)
        return None


@pytest.mark.parametrize("family", [4, 6])
async def test_a_client_that_keeps_its_port_is_led_to_the_endpoint_that_is_there(family: Family) -> None:
    world = World(family)
    async with world.running():
        clients = [world.client(), world.client((HERE[family], NODE_PORT))]
        for wanted in (0, 1, 0):
            world.lead_to(wanted)
            for client in clients:
                await world.gets_to(client, wanted)


async def test_whose_endpoint_stays_keeps_it_and_who_was_led_nowhere_is_led() -> None:
    world = World(4)
    early = world.client()
    assert world.reached(early) is None  # it goes by the default route, and the kernel remembers that
    async with world.running():
        world.lead_to(0)
        await world.gets_to(early, 0)
        staying = [early, *(world.client() for _ in range(5))]
        assert [world.reached(each) for each in staying] == [0] * 6
        world.lead_to(0, 1)
        while world.reached(moving := world.client()) != 1:  # noqa: ASYNC110 - by chance
            await asyncio.sleep(0.05)
        world.lead_to(0, 2)
        await world.gets_to(moving, 0, 2)
        assert [world.reached(each) for each in staying] == [0] * 6
