"""Network policies: whose traffic is let through to which pods."""

from collections.abc import Iterator
from typing import Any, Final

from pykubelet.api.codec import DecodeError, convert
from pykubelet.api.field_errors import FieldError, forbidden, invalid, required
from pykubelet.api.meta import LabelSelector
from pykubelet.api.validation import names
from pykubelet.api.validation.meta import validate_label_selector
from pykubelet.api.validation.rules import one_of, spelled
from pykubelet.apiserver.objects import Object, at
from pykubelet.apiserver.strategies.addresses import network_of, range_faults
from pykubelet.apiserver.strategies.base import Strategy

_PROTOCOLS: Final = ("SCTP", "TCP", "UDP")
_SIDES: Final = (("ingress", "from"), ("egress", "to"))


class NetworkPolicyStrategy(Strategy):
    def normal(self, obj: Object) -> Object:
        result = super().normal(obj)
        spec = result.setdefault("spec", {})
        for side, _ in _SIDES:
            for rule in spec.get(side) or ():
                for port in rule.get("ports") or ():
                    port["protocol"] = port.get("protocol") or "TCP"
        if not spec.get("policyTypes"):
            spec["policyTypes"] = ["Ingress", *(["Egress"] if spec.get("egress") else [])]
        return result

    def content_faults(self, obj: Object) -> Iterator[FieldError]:
        spec = obj["spec"]
        yield from selector_faults(spec.get("podSelector"), "spec.podSelector")
        for side, peers in _SIDES:
            for index, rule in enumerate(spec.get(side) or ()):
                place = f"spec.{side}[{index}]"
                for number, port in enumerate(rule.get("ports") or ()):
                    yield from _port_faults(port, f"{place}.ports[{number}]")
                for number, peer in enumerate(rule.get(peers) or ()):
                    yield from _peer_faults(peer, f"{place}.{peers}[{number}]")
        if len(spec["policyTypes"]) > 2:
            yield invalid("spec.policyTypes", spec["policyTypes"], "may not specify more than two policyTypes")
        else:
            for index, kind in enumerate(spec["policyTypes"]):
                yield from one_of(f"spec.policyTypes[{index}]", kind, ("Egress", "Ingress"))


def selector_faults(given: Any, field: str) -> Iterator[FieldError]:
    try:
        yield from validate_label_selector(convert(LabelSelector, given or {}), field)
    except DecodeError as error:
        yield invalid(f"{field}.{error.field}", given, error.reason)


def _port_faults(port: dict[str, Any], field: str) -> Iterator[FieldError]:
    yield from one_of(f"{field}.protocol", port["protocol"], _PROTOCOLS)
    number, end = port.get("port"), port.get("endPort")
    if isinstance(number, str):
        yield from spelled(f"{field}.port", number, names.port_name(number))
    elif number is not None:
        yield from spelled(f"{field}.port", number, names.port_number(number))
    if end is None:
        return
    if not isinstance(number, int):
        yield invalid(f"{field}.endPort", end, "may not be specified when `port` is not numeric or not specified")
    elif not number <= end:
        yield invalid(f"{field}.endPort", end, "must be greater than or equal to `port`")
    else:
        yield from spelled(f"{field}.endPort", end, names.port_number(end))


def _peer_faults(peer: dict[str, Any], field: str) -> Iterator[FieldError]:
    block = peer.get("ipBlock")
    chosen = [name for name in ("podSelector", "namespaceSelector") if peer.get(name) is not None]
    if block is None and not chosen:
        yield required(field, "must specify a peer")
    elif block is not None and chosen:
        yield forbidden(field, "may not specify both ipBlock and another peer")
    for name in chosen:
        yield from selector_faults(peer[name], f"{field}.{name}")
    if block is None:
        return
    yield from range_faults(f"{field}.ipBlock.cidr", block.get("cidr", ""))
    whole = network_of(block.get("cidr", ""))
    for index, text in enumerate(block.get("except") or ()):
        place = f"{field}.ipBlock.except[{index}]"
        yield from range_faults(place, text)
        part = network_of(text)
        if whole is None or part is None:
            continue
        is_inside = part.version == whole.version and part != whole and part.subnet_of(whole)  # type: ignore[arg-type]
        if not is_inside:
            yield invalid(place, text, "must be a strict subset of `cidr`")


class ServiceCidrStrategy(Strategy):
    def content_faults(self, obj: Object) -> Iterator[FieldError]:
        ranges = at(obj, "spec.cidrs", [])
        if not ranges:
            yield required("spec.cidrs", "at least one CIDR required")
        elif len(ranges) > 2:
            yield invalid("spec.cidrs", ranges, "may only hold up to 2 values")
        elif len({getattr(network_of(each), "version", index) for index, each in enumerate(ranges)}) < len(ranges):
            yield invalid("spec.cidrs", ranges, "may specify no more than one IP for each IP family")
        for index, each in enumerate(ranges):
            yield from range_faults(f"spec.cidrs[{index}]", each, is_exact=True)

    def validate_update(self, obj: Object, old: Object, subresource: str) -> Iterator[FieldError]:
        yield from super().validate_update(obj, old, subresource)
        for index, (now, was) in enumerate(zip(at(obj, "spec.cidrs", []), at(old, "spec.cidrs", []), strict=False)):
            if now != was:
                yield invalid(f"spec.cidrs[{index}]", now, "field is immutable")
        if len(at(obj, "spec.cidrs", [])) < len(at(old, "spec.cidrs", [])):
            yield invalid("spec.cidrs", at(obj, "spec.cidrs", []), "field is immutable")


class IpAddressStrategy(Strategy):
    """The name is the address."""

    def name_faults(self, name: str) -> names.Faults:
        return names.ip_address(name)

    def content_faults(self, obj: Object) -> Iterator[FieldError]:
        parent = at(obj, "spec.parentRef")
        if parent is None:
            yield required("spec.parentRef", "")
            return
        for name in ("resource", "name"):
            if not parent.get(name):
                yield required(f"spec.parentRef.{name}", "")

    def validate_update(self, obj: Object, old: Object, subresource: str) -> Iterator[FieldError]:
        yield from super().validate_update(obj, old, subresource)
        if at(obj, "spec.parentRef") != at(old, "spec.parentRef"):
            yield invalid("spec.parentRef", at(obj, "spec.parentRef"), "field is immutable")
