"""The names of services and pods, as the cluster's DNS specification has them: which there are, and what they stand
for."""

import ipaddress
from collections.abc import Iterable, Iterator
from typing import Final

from msgspec import Struct

from pykubelet.api.services import Endpoint, EndpointSlice, Service
from pykubelet.api.validation.names import dns_subdomain
from pykubelet.services import dns_wire as wire
from pykubelet.services.dns_wire import Record
from pykubelet.services.fronts import key_of, slices_by_service

TTL: Final = 5
_VERSION: Final = "1.1.0"
"""Of the specification."""
_TYPES: Final = {4: wire.A, 6: wire.AAAA}


class Found(Struct, frozen=True):
    """`records` may be empty: then the name is there, and has nothing of that type."""

    exists: bool
    records: tuple[Record, ...] = ()


class Zone:
    def __init__(self, services: Iterable[Service], slices: Iterable[EndpointSlice], domain: str) -> None:
        self.domain = domain.lower().rstrip(".")
        self._records: dict[str, list[Record]] = {}
        self._names: set[str] = {self.domain, f"svc.{self.domain}", f"pod.{self.domain}"}
        """All that exist, also those that only have others below them."""
        self._add(Record(f"dns-version.{self.domain}", wire.TXT, (_VERSION,), TTL))
        self._add(Record(self.domain, wire.NS, (f"ns.dns.{self.domain}",), TTL))
        self._add(self.authority)
        behind = slices_by_service(slices)
        for service in services:
            name = f"{service.metadata.name}.{service.metadata.namespace}.svc.{self.domain}"
            for record in _records(service, behind.get(key_of(service), ()), name):
                self._add(record)

    @property
    def authority(self) -> Record:
        """What is said of the zone where there is nothing else to say."""
        names = f"ns.dns.{self.domain}", f"hostmaster.{self.domain}"
        return Record(self.domain, wire.SOA, (*names, 1, 7200, 1800, 86400, TTL), TTL)

    def find(self, name: str, kind: int) -> Found | None:
        """None: it is for others to say. For a name that stands for another one, that is what is found."""
        is_inside = name == self.domain or name.endswith(f".{self.domain}")
        if not is_inside and name not in self._records:
            return None
        if is_inside and name.endswith(f".pod.{self.domain}"):
            return self._pod(name, kind)
        there = self._records.get(name, [])
        chosen = [each for each in there if each.type == kind] or [each for each in there if each.type == wire.CNAME]
        return Found(name in self._names, tuple(chosen))

    def _pod(self, name: str, kind: int) -> Found:
        """`10-1-2-3.NAMESPACE.pod`: the name says the address, and nobody has to know the pod."""
        dashed, *rest = name.removesuffix(f".pod.{self.domain}").split(".")
        if len(rest) != 1:
            return Found(exists=not rest)
        for text in (dashed.replace("-", "."), dashed.replace("-", ":")):
            try:
                address = ipaddress.ip_address(text)
            except ValueError:
                continue
            record = Record(name, _TYPES[address.version], (str(address),), TTL)
            return Found(True, (record,) if kind == record.type else ())
        return Found(exists=False)

    def _add(self, record: Record) -> None:
        name = record.name.lower()
        known = self._records.setdefault(name, [])
        if record not in known:
            known.append(record)
        while name not in self._names:
            self._names.add(name)
            name = name.partition(".")[2]
            if not name.endswith(self.domain):
                break


def _records(service: Service, slices: Iterable[EndpointSlice], name: str) -> Iterator[Record]:
    spec = service.spec
    if spec.type == "ExternalName":
        target = spec.external_name.rstrip(".").lower()
        if not any(dns_subdomain(target)):
            yield Record(name, wire.CNAME, (target,), TTL)
        return
    if spec.cluster_ip == "None":
        yield from _headless(service, slices, name)
        return
    for address in spec.cluster_ips or (spec.cluster_ip,):
        yield from _address(name, address)
        yield from _pointer(address, name)
    for port in spec.ports if spec.cluster_ip else ():
        if port.name:
            owner = f"_{port.name}._{(port.protocol or 'TCP').lower()}.{name}"
            yield Record(owner, wire.SRV, (0, 100, port.port & 0xFFFF, name), TTL)


def _headless(service: Service, slices: Iterable[EndpointSlice], name: str) -> Iterator[Record]:
    for each in slices:
        for endpoint in each.endpoints:
            if endpoint.conditions.ready is False and not service.spec.publish_not_ready_addresses:
                continue
            for address in endpoint.addresses:
                target = f"{_label(endpoint, address)}.{name}"
                yield from _address(name, address)
                yield from _address(target, address)
                yield from _pointer(address, target) if endpoint.hostname else ()
                for port in each.ports:
                    if port.name:
                        owner = f"_{port.name}._{(port.protocol or 'TCP').lower()}.{name}"
                        yield Record(owner, wire.SRV, (0, 100, port.port & 0xFFFF, target), TTL)


def _label(endpoint: Endpoint, address: str) -> str:
    return endpoint.hostname.lower() or address.replace(".", "-").replace(":", "-")


def _address(name: str, address: str) -> Iterator[Record]:
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return
    yield Record(name, _TYPES[found.version], (str(found),), TTL)


def _pointer(address: str, name: str) -> Iterator[Record]:
    try:
        yield Record(ipaddress.ip_address(address).reverse_pointer, wire.PTR, (name,), TTL)
    except ValueError:
        return
