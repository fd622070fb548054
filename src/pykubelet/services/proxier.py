"""Keeps the packet filter's rules as services and their endpoints want them, and out of the way of others who do that.

Changes are gathered for a moment, then all rules are made anew from what is known and put in force at once. If somebody
clears the rules away, they are there again after the next look.
"""

import asyncio
import hashlib
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Final

from msgspec import Struct

from pykubelet.api.services import EndpointSlice, Service
from pykubelet.services import conntrack, nft, routes
from pykubelet.services.fronts import Family, Front, Place, fronts
from pykubelet.services.ruleset import removal, ruleset

log = logging.getLogger(__name__)

_TABLE: Final = "pykubelet-"
_FAMILIES: Final[dict[Family, str]] = {4: "ip", 6: "ip6"}
_GATHERING: Final = 0.05
_LEAST_BETWEEN: Final = 0.2
LOOK_AGAIN: Final = 30.0
_AFTER_TROUBLE: Final = 1.0
_BRIDGES: Final = Path("/proc/sys/net/bridge/bridge-nf-call-iptables")


class Known(Struct, frozen=True):
    """What the API server has told."""

    services: tuple[Service, ...] = ()
    slices: tuple[EndpointSlice, ...] = ()


def table_name(root: Path) -> str:
    """Of the agent with that state: no other touches it."""
    return f"{_TABLE}{hashlib.sha256(str(root).encode()).hexdigest()[:8]}"


def why_not(table: str) -> str:
    """What keeps us from answering for services on this machine; empty: nothing. Blocking."""
    there = nft.tables()
    if "ip kube-proxy" in there or nft.has_chain("ip nat", "KUBE-SERVICES"):
        return "kube-proxy does that here"
    for other in sorted(there):
        if other.startswith(f"ip {_TABLE}") and other != f"ip {table}":
            return f"another pykubelet does that here (if it is gone: nft delete table {other})"
    trouble = nft.applied(ruleset((), Place(node=""), 4, table).text, only_check=True)
    if "not permitted" in trouble:
        return "only root may change the packet filter"
    return f"the packet filter cannot be changed: {trouble}" if trouble else routes.why_not(table)


def removed(table: str) -> None:
    """Take away our rules and routes. Harmless when there are none, or when they are not ours to change. Blocking."""
    there = nft.tables()
    for family, word in _FAMILIES.items():
        if f"{word} {table}" in there and (trouble := nft.applied(removal(family, table))):
            log.warning("the rules for services stay in the packet filter: %s", trouble)
    if trouble := routes.keep((), table):
        log.warning("the routes to services stay: %s", trouble)


def bridges_are_filtered() -> bool:
    try:
        return _BRIDGES.read_text().strip() == "1"
    except OSError:
        return False


class Proxier:
    """`known` is None as long as the API server has not told; `others` says why somebody else is to do it."""

    def __init__(
        self,
        table: str,
        known: Callable[[], Known | None],
        place: Callable[[], Place],
        *,
        others: Callable[[], str] = lambda: "",
    ) -> None:
        self._table = table
        self._known = known
        self._place = place
        self._others = others
        self._made: dict[Family, frozenset[str]] = {}
        """What was put in force, by family; without an entry, nothing is known of what there is."""
        self._last: dict[Family, tuple[tuple[Front, ...], Place]] = {}
        """What that was made from."""
        self._wanted: dict[Family, conntrack.Wanted] = {}
        """What the kernel remembers of clients was held against this."""
        self._is_trouble_told = False
        self._route_trouble = ""
        self._why_not: str | None = None
        self._news = asyncio.Event()

    def changed(self) -> None:
        """Something is different: look again."""
        self._news.set()

    async def news(self, most: float) -> bool:
        """Wait until something is different, and a moment longer for what comes along with it. False: nothing was."""
        try:
            async with asyncio.timeout(most):
                await self._news.wait()
        except TimeoutError:
            return False
        await asyncio.sleep(_GATHERING)
        self._news.clear()
        return True

    async def run(self) -> None:
        """Until cancelled. The rules stay: connections go on without the agent."""
        while True:
            began = asyncio.get_running_loop().time()
            if not self._why_not:
                await self._sync()
            # However many changes there are, most of the time is for others.
            await asyncio.sleep(max(_LEAST_BETWEEN, 2 * (asyncio.get_running_loop().time() - began)))
            if not await self.news(LOOK_AGAIN):
                await self.look()

    async def withdraw(self) -> None:
        """Take the rules away."""
        self._made = {}
        self._last = {}
        await asyncio.to_thread(removed, self._table)

    async def look(self) -> str:
        """Whether it is for us to do, and whether what was put in force is still there. -> why it is not; empty: it
        is"""
        found = self._others() or await asyncio.to_thread(why_not, self._table)
        if found != self._why_not:
            self._why_not = found
            if found:
                log.warning("services are not answered for on this machine: %s", found)
                await self.withdraw()
        there = await asyncio.to_thread(nft.tables) if self._made else frozenset()
        for family in tuple(self._made):
            if f"{_FAMILIES[family]} {self._table}" not in there:
                log.warning("somebody has cleared the rules for services away; they are made again")
                del self._made[family], self._last[family]
        return found

    async def _sync(self) -> None:
        known, place = self._known(), self._place()
        if known is None:
            return
        for family in _FAMILIES:
            found = fronts(known.services, known.slices, place, family)
            if family == 4:
                await self._keep_routes(found)
            if family == 6 and family not in self._made and not any(each.cluster for each in found):
                continue  # a machine may have no such family at all
            if self._last.get(family) == (found, place):
                continue
            if family not in self._made:
                self._wanted.pop(family, None)  # without rules clients were led anywhere
            rules = ruleset(found, place, family, self._table, self._made.get(family))
            if trouble := await asyncio.to_thread(nft.applied, rules.text):
                self._made.pop(family, None)
                self._last.pop(family, None)
                self._news.set()
                log.warning("the rules for services are not in force: %s; trying again", trouble)
                await asyncio.sleep(_AFTER_TROUBLE)
            else:
                self._made[family], self._last[family] = rules.made, (found, place)
                await self._forget_stale(conntrack.wanted(found, place, family), family)

    async def _keep_routes(self, found: tuple[Front, ...]) -> None:
        """Each time: cables are pulled and plugged in, whatever services do."""
        addresses = frozenset(address for each in found for address in each.cluster)
        trouble = await asyncio.to_thread(routes.keep, addresses, self._table)
        if trouble and trouble != self._route_trouble:
            log.warning("services cannot be reached: this machine has no default route, and no other: %s", trouble)
        self._route_trouble = trouble

    async def _forget_stale(self, wanted: conntrack.Wanted, family: Family) -> None:
        """After new rules are in force, or clients would be led by the old ones once more."""
        before, self._wanted[family] = self._wanted.get(family), wanted
        if not wanted or wanted == before:
            return
        try:
            count = await asyncio.to_thread(conntrack.forget_stale, wanted, family)
        except OSError as error:
            if not self._is_trouble_told:
                self._is_trouble_told = True
                log.warning(
                    "UDP clients of services may be led to endpoints that are gone until they are silent for a while:"
                    " what the kernel remembers of them could not be deleted: %s",
                    error,
                )
        else:
            log.debug("%d UDP clients of services are led to other endpoints", count)
