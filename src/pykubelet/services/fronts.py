"""Which addresses and ports of services are answered on this node, and who is behind each of them: what the packet
filter is told is made from this. Nothing gets through here that is not an address, a number or a protocol."""

import ipaddress
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Final, Literal

from msgspec import Struct

from pykubelet.api.services import SERVICE_LABEL, Endpoint, EndpointSlice, Service, ServicePort
from pykubelet.api.struct import changed

Family = Literal[4, 6]
Key = tuple[str, str]
"""namespace and name"""

API_SERVER: Final[Key] = ("default", "kubernetes")
_PROTOCOLS: Final = ("TCP", "UDP", "SCTP")
_OPEN: Final = ("NodePort", "LoadBalancer")
_STICKY_SECONDS: Final = 10800
_LONGEST_STICK: Final = 86400
_OLD: Final = datetime.min.replace(tzinfo=UTC)


class Place(Struct, frozen=True, kw_only=True):
    """What has to be known of the node."""

    node: str
    addresses: frozenset[str] = frozenset()
    """This machine's own."""
    shares_network: bool = False
    """Pods have no network of their own: what they send is sent by this machine."""
    bridges_are_filtered: bool = False
    """Whether the packet filter sees what pods on one bridge send to each other. If not, answers would miss it."""
    reserved_ports: frozenset[int] = frozenset()
    """No node port is one of these."""
    answered: Mapping[Key, tuple[str, int]] = {}
    """Services that are answered for on this machine, whatever their endpoints are, and where."""


class Backend(Struct, frozen=True):
    address: str
    port: int
    is_local: bool
    """On this node."""


class Front(Struct, frozen=True, kw_only=True):
    """One port of one service, in one family of addresses."""

    name: str
    """For people: namespace/name:port"""
    protocol: str
    port: int
    cluster: tuple[str, ...] = ()
    external: tuple[str, ...] = ()
    node_port: int = 0
    backends: tuple[Backend, ...] = ()
    leaving: tuple[Backend, ...] = ()
    """Those that get no new clients but still serve the ones that they have. Of UDP alone: others are not asked."""
    is_internal_local: bool = False
    """Those inside of the cluster are led to endpoints on this node alone."""
    is_external_local: bool = False
    affinity_seconds: int = 0

    @property
    def local(self) -> tuple[Backend, ...]:
        return tuple(each for each in self.backends if each.is_local)


def fronts(
    services: Iterable[Service], slices: Iterable[EndpointSlice], place: Place, family: Family
) -> tuple[Front, ...]:
    """The oldest service first: where two want the same, it is the one that has it."""
    behind = slices_by_service(slices)
    ordered = sorted(services, key=lambda each: (each.metadata.creation_timestamp or _OLD, key_of(each)))
    served = [(each, _cluster_ips(each, family)) for each in ordered if has_address(each)]
    cluster = frozenset(address for _, addresses in served for address in addresses)
    taken: set[tuple[str, str, int]] = set()
    made = []
    for service, addresses in served:
        slices_of_it = behind.get(key_of(service), ())
        for port in service.spec.ports:
            if port.protocol not in ("", *_PROTOCOLS) or not _is_port(port.port):
                continue
            backends = _backends(service, port, slices_of_it, place, family)
            external = _external_ips(service, family, place.addresses | cluster)
            front = _front(service, port, addresses, external, backends, place)
            if front.protocol == "UDP":
                front = changed(front, leaving=_leaving(port, slices_of_it, place, family, backends))
            made.append(_unless_taken(front, taken))
    return tuple(made)


def key_of(service: Service) -> Key:
    return service.metadata.namespace, service.metadata.name


def has_address(service: Service) -> bool:
    """Not one that is only a name, nor one that is only its endpoints."""
    return service.spec.type != "ExternalName" and service.spec.cluster_ip not in ("", "None")


def slices_by_service(slices: Iterable[EndpointSlice]) -> dict[Key, list[EndpointSlice]]:
    found: dict[Key, list[EndpointSlice]] = {}
    for each in slices:
        name = each.metadata.labels.get(SERVICE_LABEL, "")
        found.setdefault((each.metadata.namespace, name), []).append(each)
    return found


def address_of(text: str, family: Family) -> str:
    """An address of the family in its one form; empty: it is none, or means another thing to everybody."""
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return ""
    if address.version != family or (isinstance(address, ipaddress.IPv6Address) and address.scope_id is not None):
        return ""
    return str(address)


def is_special(address: str) -> bool:
    """Whether an address is none of one machine in a network."""
    found = ipaddress.ip_address(address)
    odd = found.is_loopback or found.is_link_local or found.is_multicast or found.is_unspecified
    mapped = isinstance(found, ipaddress.IPv6Address) and found.ipv4_mapped is not None
    return odd or mapped or address == "255.255.255.255"


def _front(
    service: Service,
    port: ServicePort,
    cluster: tuple[str, ...],
    external: tuple[str, ...],
    backends: tuple[Backend, ...],
    place: Place,
) -> Front:
    spec = service.spec
    is_open = spec.type in _OPEN and _is_port(port.node_port) and port.node_port not in place.reserved_ports
    return Front(
        name=f"{service.metadata.namespace}/{service.metadata.name}:{port.name or port.port}",
        protocol=port.protocol or "TCP",
        port=port.port,
        cluster=cluster,
        external=external,
        node_port=port.node_port if is_open else 0,
        backends=backends,
        is_internal_local=spec.internal_traffic_policy == "Local",
        is_external_local=spec.external_traffic_policy == "Local",
        affinity_seconds=_affinity_seconds(service) if spec.session_affinity == "ClientIP" else 0,
    )


def _unless_taken(front: Front, taken: set[tuple[str, str, int]]) -> Front:
    """But for what another has already, which is noted in `taken`."""

    def is_free(address: str, port: int) -> bool:
        key = address, front.protocol, port
        if key in taken:
            return False
        taken.add(key)
        return True

    return changed(
        front,
        cluster=tuple(each for each in front.cluster if is_free(each, front.port)),
        external=tuple(each for each in front.external if is_free(each, front.port)),
        node_port=front.node_port if front.node_port and is_free("", front.node_port) else 0,
    )


def _cluster_ips(service: Service, family: Family) -> tuple[str, ...]:
    found = (address_of(each, family) for each in service.spec.cluster_ips or (service.spec.cluster_ip,))
    return tuple(each for each in found if each and not is_special(each))


def _external_ips(service: Service, family: Family, not_theirs: frozenset[str]) -> tuple[str, ...]:
    """Nobody gets what is this machine's own or another service's by asking for it here."""
    found = (address_of(each, family) for each in service.spec.external_ips)
    return tuple(dict.fromkeys(each for each in found if each and not is_special(each) and each not in not_theirs))


def _backends(
    service: Service, port: ServicePort, slices: Iterable[EndpointSlice], place: Place, family: Family
) -> tuple[Backend, ...]:
    key = key_of(service)
    if key in place.answered:
        address, number = place.answered[key]
        return (Backend(address, number, True),) if address_of(address, family) else ()
    found = list(_endpoints(slices, port, place, family))
    ready = [each for each, endpoint in found if endpoint.conditions.ready is not False]
    # When all are on their way out, those that still serve are better than none.
    last = [each for each, endpoint in found if endpoint.conditions.serving and endpoint.conditions.terminating]
    return tuple(sorted(set(ready or last), key=lambda each: (each.address, each.port)))


def _leaving(
    port: ServicePort, slices: Iterable[EndpointSlice], place: Place, family: Family, backends: tuple[Backend, ...]
) -> tuple[Backend, ...]:
    found = _endpoints(slices, port, place, family)
    serving = {each for each, endpoint in found if endpoint.conditions.serving is not False}
    return tuple(sorted(serving.difference(backends), key=lambda each: (each.address, each.port)))


def _endpoints(
    slices: Iterable[EndpointSlice], port: ServicePort, place: Place, family: Family
) -> Iterator[tuple[Backend, Endpoint]]:
    for each in slices:
        numbers = [
            other.port
            for other in each.ports
            if other.name == port.name and (other.protocol or "TCP") == (port.protocol or "TCP")
        ]
        for endpoint in each.endpoints if numbers and _is_port(numbers[0]) else ():
            address = address_of(endpoint.addresses[0], family) if endpoint.addresses else ""
            if address and not is_special(address):
                is_local = endpoint.node_name == place.node or address in place.addresses
                yield Backend(address, numbers[0], is_local), endpoint


def _affinity_seconds(service: Service) -> int:
    config = service.spec.session_affinity_config
    seconds = config.client_ip.timeout_seconds if config and config.client_ip else None
    return min(max(seconds or _STICKY_SECONDS, 1), _LONGEST_STICK)


def _is_port(number: int) -> bool:
    return 0 < number < 65536
