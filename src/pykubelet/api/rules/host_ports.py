"""Which ports of the machine pods hold, and whether a pod's ports are still free."""

from collections import Counter
from collections.abc import Iterable
from typing import Final, NamedTuple

from pykubelet.api.pod import PodSpec
from pykubelet.api.rules.resources import is_sidecar

_ANY_ADDRESS: Final = "0.0.0.0"  # noqa: S104 - compared with, never bound to


class HostPort(NamedTuple):
    protocol: str
    port: int
    address: str


def host_ports(spec: PodSpec) -> tuple[HostPort, ...]:
    """The ports that a pod holds for as long as it runs: an init container that ends holds none."""
    lasting = (*filter(is_sidecar, spec.init_containers), *spec.containers)
    return tuple(
        HostPort(each.protocol or "TCP", each.host_port, each.host_ip or _ANY_ADDRESS)
        for container in lasting
        for each in container.ports
        if each.host_port is not None and each.host_port > 0
    )


def collide(one: HostPort, other: HostPort) -> bool:
    """All addresses together (0.0.0.0) collide with each single one. An IPv6 wildcard is an address like any other."""
    addresses = (one.address, other.address)
    return one[:2] == other[:2] and (one.address == other.address or _ANY_ADDRESS in addresses)


class HostPorts:
    """The ports in use, counted: two holders of one port were possible before admission looked, and both may go."""

    def __init__(self) -> None:
        self._holders: dict[tuple[str, int], Counter[str]] = {}

    def add(self, ports: Iterable[HostPort]) -> None:
        for protocol, port, address in ports:
            self._holders.setdefault((protocol, port), Counter())[address] += 1

    def remove(self, ports: Iterable[HostPort]) -> None:
        for protocol, port, address in ports:
            holders = self._holders[protocol, port]
            holders[address] -= 1
            if not holders[address]:
                del holders[address]
            if not holders:
                del self._holders[protocol, port]

    def are_free(self, wanted: Iterable[HostPort], own: Iterable[HostPort] = ()) -> bool:
        """Whether nobody holds a port that collides with these, besides what is the asker's `own`."""
        mine = Counter(own)
        for protocol, port, address in wanted:
            holders = self._holders.get((protocol, port))
            if holders is None:
                continue
            rivals = tuple(holders) if address == _ANY_ADDRESS else (address, _ANY_ADDRESS)
            if any(holders[rival] > mine[HostPort(protocol, port, rival)] for rival in rivals):
                return False
        return True

    def __len__(self) -> int:
        """How many distinct ports are held."""
        return sum(map(len, self._holders.values()))
