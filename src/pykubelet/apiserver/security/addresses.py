"""Which places in the network are the cluster's own: where nobody is led to, and what nobody else is certified for.

Nodes say themselves where they and their pods are. What is here they cannot say: it is of this machine, or was put down
by an administrator.
"""

import ipaddress
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import msgspec

from pykubelet.base.errors import Invalid

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

_THIS_NETWORK: Final = ipaddress.ip_network("0.0.0.0/8")


class Endpoint(msgspec.Struct, frozen=True):
    address: Address
    port: int


class ClusterAddresses:
    """`hosts`: all names and addresses of the API server, as of now; `kubelets`: where those of some nodes are, by the
    word of an administrator."""

    def __init__(
        self,
        hosts: Callable[[], Sequence[str]],
        port: int,
        service_range: str,
        kubelets: Mapping[str, Endpoint],
    ) -> None:
        self._hosts = hosts
        self.port = port
        self._services = ipaddress.ip_network(service_range)
        self.kubelets = kubelets

    def names(self) -> frozenset[str]:
        """That clients call the API server by."""
        return frozenset(each.lower() for each in self._hosts() if address_of(each) is None)

    def own(self) -> frozenset[Address]:
        """The addresses of the machine that the API server is on. Blocking."""
        return frozenset(each for each in map(address_of, self._hosts()) if each is not None)

    def fault(self, address: Address) -> str:
        """Why nothing of the cluster is at an address; empty: something may be."""
        if address.version == self._services.version and address in self._services:
            return "an address of services"
        return kind_fault(address)

    def dial_fault(self, endpoint: Endpoint) -> str:
        """Why nobody may have us connect there; empty: he may. Blocking."""
        if found := self.fault(endpoint.address):
            return found
        return "the API server itself" if endpoint.port == self.port and endpoint.address in self.own() else ""

    def fault_at(self, host: str, port: int) -> str:
        """The same of an address as text. Blocking."""
        address = address_of(host)
        return "no address" if address is None else self.dial_fault(Endpoint(address, port))


def address_of(text: str) -> Address | None:
    """IPv4 in the clothes of IPv6 is IPv4; None: no address, or one that depends on who looks at it."""
    try:
        found = ipaddress.ip_address(text)
    except ValueError:
        return None
    if isinstance(found, ipaddress.IPv6Address):
        if found.scope_id is not None:
            return None
        return found.ipv4_mapped or found
    return found


def kind_fault(address: Address) -> str:
    """Why an address is none of a machine in a network; empty: it may be."""
    if address.is_loopback:
        return "a loopback address"
    if address.is_link_local:
        return "a link-local address"
    if address.is_multicast:
        return "a multicast address"
    if address.is_unspecified or (address.version == 4 and address in _THIS_NETWORK):
        return "no address of a machine"
    return "a reserved address" if address.is_reserved else ""


def shown(address: Address, port: int) -> str:
    return f"[{address}]:{port}" if address.version == 6 else f"{address}:{port}"


def kubelet_endpoints(given: Sequence[str]) -> dict[str, Endpoint]:
    """`NODE=IP:PORT` -> by node. Raises Invalid."""
    found = {}
    for text in given:
        node, _, where = text.partition("=")
        host, _, port = where.rpartition(":")
        address = address_of(host.removeprefix("[").removesuffix("]"))
        if not node or address is None or not port.isdigit() or not 0 < int(port) < 65536:
            raise Invalid(f"--kubelet-endpoint {text!r}: write it as NODE=IP:PORT, such as n1=127.0.0.1:10250")
        found[node] = Endpoint(address, int(port))
    return found
