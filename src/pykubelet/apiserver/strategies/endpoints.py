"""Endpoints: addresses and ports that can be ones."""

from collections.abc import Iterator
from typing import Any, ClassVar, Final

from pykubelet.api.field_errors import FieldError, invalid, required
from pykubelet.api.validation import names
from pykubelet.api.validation.rules import one_of, spelled
from pykubelet.apiserver.objects import Object
from pykubelet.apiserver.strategies.base import Strategy
from pykubelet.apiserver.strategies.service_faults import outer_address_faults

_OWN: Final = ("default", "kubernetes")
"""Where this server is, which may be on this machine only."""


class EndpointsStrategy(Strategy):
    creates_on_update: ClassVar[bool] = True

    def normal(self, obj: Object) -> Object:
        result = super().normal(obj)
        for subset in result.get("subsets", ()):
            for port in subset.get("ports", ()):
                port["protocol"] = port.get("protocol") or "TCP"
        return result

    def content_faults(self, obj: Object) -> Iterator[FieldError]:
        metadata = obj["metadata"]
        is_own = (metadata.get("namespace"), metadata.get("name")) == _OWN
        for number, subset in enumerate(obj.get("subsets", ())):
            place, ports = f"subsets[{number}]", subset.get("ports") or ()
            if not subset.get("addresses") and not subset.get("notReadyAddresses"):
                yield required(place, "must specify `addresses` or `notReadyAddresses`")
            for name in ("addresses", "notReadyAddresses"):
                for index, each in enumerate(subset.get(name) or ()):
                    yield from _address_faults(each, f"{place}.{name}[{index}]", is_own=is_own)
            for index, port in enumerate(ports):
                yield from _port_faults(port, f"{place}.ports[{index}]", needs_name=len(ports) > 1)


def _address_faults(address: dict[str, Any], field: str, *, is_own: bool) -> Iterator[FieldError]:
    ip = address.get("ip", "")
    yield from spelled(f"{field}.ip", ip, names.ip_address(ip)) if is_own else outer_address_faults(ip, f"{field}.ip")
    if hostname := address.get("hostname"):
        yield from spelled(f"{field}.hostname", hostname, names.dns_label(hostname))
    if (node := address.get("nodeName")) is not None:
        yield from spelled(f"{field}.nodeName", node, names.dns_subdomain(node))


def _port_faults(port: dict[str, Any], field: str, *, needs_name: bool) -> Iterator[FieldError]:
    name, protocol = port.get("name", ""), port.get("appProtocol")
    if name:
        yield from spelled(f"{field}.name", name, names.dns_label(name))
    elif needs_name:
        yield required(f"{field}.name", "")
    if not 0 < port.get("port", 0) < 65536:
        yield invalid(f"{field}.port", port.get("port", 0), "must be between 1 and 65535, inclusive")
    yield from one_of(f"{field}.protocol", port["protocol"], ("SCTP", "TCP", "UDP"))
    if protocol is not None:
        yield from spelled(f"{field}.appProtocol", protocol, names.qualified_name(protocol))
