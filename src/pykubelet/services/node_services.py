"""Services on this node as a whole: the rules of the packet filter, the name server, and the door to the API server.

Where they cannot be had, or somebody else sees to them, it says so once in the log and once of each service, and looks
again now and then.
"""

import asyncio
import ipaddress
from collections.abc import Callable, Iterable
from contextlib import AsyncExitStack
from typing import Final

from msgspec import Struct

from pykubelet.api.pod import Pod
from pykubelet.api.services import Service
from pykubelet.base.own_addresses import own_addresses
from pykubelet.services.api_door import ApiDoor
from pykubelet.services.forwarder import Forwarder
from pykubelet.services.fronts import API_SERVER, Key, Place, address_of, has_address, key_of, slices_by_service
from pykubelet.services.name_server import NameServer
from pykubelet.services.proxier import LOOK_AGAIN, Known, Proxier, bridges_are_filtered
from pykubelet.services.zone import Zone

Tell = Callable[[Service, str], None]
"""a service, and what is to be told of it"""

_GOOD_FOR: Final = 1.0
_SOONEST: Final = 0.05
"""Seconds between two looks at the addresses of this machine, however often strangers ask."""
_KUBE_PROXY: Final = ("k8s-app", "kube-proxy")


class NodeView(Struct, frozen=True, kw_only=True):
    """What has to be known of the node, each as of now."""

    name: str
    address: str
    """Where pods reach this machine."""
    own_network: bool
    """Pods have addresses of their own."""
    api_server: tuple[str, int]
    cluster_domain: str
    cluster_servers: tuple[str, ...]
    """The name servers that pods are told of."""
    reserved_ports: frozenset[int]
    known: Callable[[], Known | None]
    name_servers: Callable[[], tuple[str, ...]]
    """Those of this machine."""
    pods: Callable[[], Iterable[Pod]]
    pod_addresses: Callable[[], Iterable[str]]
    """Of pods here, as soon as anything in them runs."""


class NodeServices:
    def __init__(self, table: str, node: NodeView, tell: Tell) -> None:
        self._node = node
        self._tell = tell
        self._told: set[str] = set()
        self._ours: frozenset[str] = frozenset()
        self._ours_since = -_GOOD_FOR
        self._name_port = 0
        self._door_port = 0
        self._zone = Zone((), (), node.cluster_domain or "cluster.local")
        self._zone_of: Known | None = None
        self._known: Known | None = None
        self._proxier = Proxier(table, self._known_now, self._place, others=self._kube_proxy)

    def changed(self) -> None:
        """The API server has told something new."""
        self._known = None
        self._proxier.changed()

    async def run(self) -> None:
        """Until cancelled. The rules stay, for the pods do: an agent that comes again finds them."""
        while why_not := await self._proxier.look():
            self._tell_all(why_not)
            await self._proxier.news(LOOK_AGAIN)
        async with AsyncExitStack() as stack:
            await self._open(stack)
            await self._proxier.run()

    async def withdraw(self) -> None:
        """Take everything out of the packet filter."""
        await self._proxier.withdraw()

    async def _open(self, stack: AsyncExitStack) -> None:
        node = self._node
        names = NameServer(self._zone_now, Forwarder(self._other_servers), self._is_ours)
        self._name_port = await stack.enter_async_context(names.serving(node.address))
        if _is_loopback(node.api_server[0]) and not self._shares_api_server():
            door = ApiDoor(node.api_server, self._is_ours)
            self._door_port = await stack.enter_async_context(door.serving(node.address))

    def _known_now(self) -> Known | None:
        if self._known is None:
            self._known = self._node.known()
        return self._known

    def _zone_now(self) -> Zone:
        known = self._known_now()
        if known is not None and known is not self._zone_of:
            self._zone = Zone(known.services, known.slices, self._zone.domain)
            self._zone_of = known
        return self._zone

    def _place(self) -> Place:
        node = self._node
        return Place(
            node=node.name,
            addresses=frozenset(own_addresses()),
            shares_network=not node.own_network,
            bridges_are_filtered=bridges_are_filtered(),
            reserved_ports=node.reserved_ports | {self._name_port, self._door_port},
            answered=self._answered(),
        )

    def _shares_api_server(self) -> bool:
        """Whether pods reach it where this machine does, at a loopback address that no endpoints may tell of."""
        host = self._node.api_server[0]
        return not self._node.own_network and _is_loopback(host) and bool(address_of(host, 4))

    def _answered(self) -> dict[Key, tuple[str, int]]:
        """The cluster's name server, if nobody else is it; and the API server, if it is for this machine alone."""
        known, node = self._known_now() or Known(), self._node
        behind = slices_by_service(known.slices)
        found = {
            key_of(each): (node.address, self._name_port)
            for each in known.services
            if each.spec.cluster_ip in node.cluster_servers and not each.spec.selector and key_of(each) not in behind
        }
        if self._shares_api_server():
            found[API_SERVER] = node.api_server
        elif self._door_port:
            found[API_SERVER] = node.address, self._door_port
        return found

    def _other_servers(self) -> tuple[str, ...]:
        """Not ourselves."""
        return tuple(each for each in self._node.name_servers() if each not in self._node.cluster_servers)

    def _is_ours(self, address: str) -> bool:
        """Whether it is of this machine, or of a pod on it."""
        now = asyncio.get_running_loop().time()
        if now - self._ours_since >= (_GOOD_FOR if address in self._ours else _SOONEST):
            self._ours, self._ours_since = frozenset((*own_addresses(), *self._node.pod_addresses())), now
        return address in self._ours

    def _kube_proxy(self) -> str:
        label, value = _KUBE_PROXY
        pods = (each for each in self._node.pods() if each.metadata.labels.get(label) == value)
        pod = next(pods, None)
        return f"kube-proxy does that here, in the pod {pod.metadata.name}" if pod else ""

    def _tell_all(self, why_not: str) -> None:
        known = self._known_now() or Known()
        for service in known.services:
            uid = service.metadata.uid
            if has_address(service) and key_of(service) != API_SERVER and uid not in self._told:
                self._tell(service, why_not)
        self._told = {each.metadata.uid for each in known.services}


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
