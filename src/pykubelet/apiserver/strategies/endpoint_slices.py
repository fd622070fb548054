"""Endpoint slices: addresses of one family, and ports that are theirs."""

from collections.abc import Iterator
from typing import Any, Final

from pykubelet.api.field_errors import FieldError, duplicate, invalid, required, too_many
from pykubelet.api.validation import names
from pykubelet.api.validation.rules import one_of, spelled
from pykubelet.apiserver.objects import Object
from pykubelet.apiserver.strategies.base import Strategy
from pykubelet.apiserver.strategies.service_claims import family_of
from pykubelet.apiserver.strategies.service_faults import outer_address_faults

_TYPES: Final = ("FQDN", "IPv4", "IPv6")
_PROTOCOLS: Final = ("SCTP", "TCP", "UDP")
_MOST: Final = {"endpoints": 1000, "ports": 20000}
_MOST_ADDRESSES: Final = 100


class EndpointSliceStrategy(Strategy):
    def normal(self, obj: Object) -> Object:
        result = super().normal(obj)
        for port in result.get("ports") or ():
            port.setdefault("name", "")
            port.setdefault("protocol", "TCP")
        return result

    def content_faults(self, obj: Object) -> Iterator[FieldError]:
        kind = obj.get("addressType", "")
        if not kind:
            yield required("addressType", "")
        else:
            yield from one_of("addressType", kind, _TYPES)
        for part, most in _MOST.items():
            if len(obj.get(part) or ()) > most:
                yield too_many(part, most, len(obj[part]))
        for index, each in enumerate((obj.get("endpoints") or ())[: _MOST["endpoints"]]):
            yield from _endpoint_faults(each, kind, f"endpoints[{index}]")
        seen: set[str] = set()
        for index, port in enumerate((obj.get("ports") or ())[: _MOST["ports"]]):
            yield from _port_faults(port, f"ports[{index}]", seen)

    def validate_update(self, obj: Object, old: Object, subresource: str) -> Iterator[FieldError]:
        yield from super().validate_update(obj, old, subresource)
        if obj.get("addressType") != old.get("addressType"):
            yield invalid("addressType", obj.get("addressType"), "field is immutable")


def _endpoint_faults(endpoint: dict[str, Any], kind: str, field: str) -> Iterator[FieldError]:
    found = endpoint.get("addresses") or []
    if not found:
        yield required(f"{field}.addresses", "must contain at least 1 address")
    elif len(found) > _MOST_ADDRESSES:
        yield too_many(f"{field}.addresses", _MOST_ADDRESSES, len(found))
    for index, text in enumerate(found[:_MOST_ADDRESSES]):
        place = f"{field}.addresses[{index}]"
        if kind == "FQDN":
            yield from spelled(place, text, names.dns_subdomain(text))
        elif kind in _TYPES:
            if not names.ip_address(text) and family_of(text) != kind:
                yield invalid(f"{field}.addresses", text, f"must be an {kind} address")
            yield from outer_address_faults(text, place)
    for name, rule in (("hostname", names.dns_label), ("nodeName", names.dns_subdomain)):
        if endpoint.get(name) is not None:
            yield from spelled(f"{field}.{name}", endpoint[name], rule(endpoint[name]))
    for part, rule in (("forZones", names.label_value), ("forNodes", names.dns_subdomain)):
        for index, each in enumerate((endpoint.get("hints") or {}).get(part) or ()):
            name = each.get("name", "")
            yield from spelled(f"{field}.hints.{part}[{index}].name", name, rule(name))


def _port_faults(port: dict[str, Any], field: str, seen: set[str]) -> Iterator[FieldError]:
    name = port["name"]
    if name:
        yield from spelled(f"{field}.name", name, names.dns_label(name))
    if name in seen:
        yield duplicate(f"{field}.name", name)
    seen.add(name)
    yield from one_of(f"{field}.protocol", port["protocol"], _PROTOCOLS)
    if (protocol := port.get("appProtocol")) is not None:
        yield from spelled(f"{field}.appProtocol", protocol, names.qualified_name(protocol))
