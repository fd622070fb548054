"""What can be wrong with a service, field by field."""

import ipaddress
from collections.abc import Iterator
from typing import Any, Final

from pykubelet.api.field_errors import FieldError, duplicate, forbidden, invalid, not_supported, required
from pykubelet.api.validation import names
from pykubelet.api.validation.meta import validate_labels
from pykubelet.api.validation.rules import needed, one_of, spelled
from pykubelet.apiserver.objects import at
from pykubelet.apiserver.strategies.service_claims import family_of

TYPES: Final = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
OPEN: Final = ("NodePort", "LoadBalancer")
_POLICIES: Final = ("Cluster", "Local")
_FAMILIES: Final = ("IPv4", "IPv6")
_STACKS: Final = ("PreferDualStack", "RequireDualStack", "SingleStack")
_PROTOCOLS: Final = ("SCTP", "TCP", "UDP")
_DISTRIBUTIONS: Final = ("PreferClose", "PreferSameNode", "PreferSameZone")
_LONGEST_STICKY: Final = 86400
_RANGES: Final = "spec.LoadBalancerSourceRanges"  # with upstream's large letter, by which clients may know it

Spec = dict[str, Any]


def is_open(spec: Spec) -> bool:
    """Whether it can be reached from outside of the cluster."""
    return spec["type"] in OPEN or (spec["type"] == "ClusterIP" and bool(spec.get("externalIPs")))


def has_health_port(spec: Spec) -> bool:
    return spec["type"] == "LoadBalancer" and spec.get("externalTrafficPolicy") == "Local"


def spec_faults(spec: Spec) -> Iterator[FieldError]:
    kind = spec["type"]
    if kind not in TYPES:
        yield not_supported("spec.type", kind, TYPES)
    yield from _port_faults(spec)
    yield from validate_labels(spec.get("selector") or {}, "spec.selector")
    yield from _affinity_faults(spec)
    for index, each in enumerate(spec.get("externalIPs") or ()):
        yield from outer_address_faults(each, f"spec.externalIPs[{index}]")
    yield from _balancer_faults(spec)
    yield from _traffic_faults(spec)
    if kind == "ExternalName":
        yield from _name_faults(spec)
    else:
        yield from _family_faults(spec)
        yield from _address_faults(spec)
        if kind in OPEN and spec.get("clusterIP") == "None":
            yield invalid("spec.clusterIPs[0]", "None", f"may not be set to 'None' for {kind} services")


def _name_faults(spec: Spec) -> Iterator[FieldError]:
    # With an address it would get none of its own, and would give back another's when it goes.
    for name in ("clusterIPs", "ipFamilies", "ipFamilyPolicy"):
        if spec.get(name) or (name == "clusterIPs" and spec.get("clusterIP")):
            yield forbidden(f"spec.{name}", "may not be set for ExternalName services")
    yield from needed("spec.externalName", spec.get("externalName", "").removesuffix("."), names.dns_subdomain)


def _port_faults(spec: Spec) -> Iterator[FieldError]:
    ports = spec.get("ports") or []
    if not ports and spec.get("clusterIP") != "None" and spec["type"] != "ExternalName":
        yield required("spec.ports", "")
    seen: set[tuple[Any, ...]] = set()
    for index, port in enumerate(ports):
        path = f"spec.ports[{index}]"
        yield from _one_port_faults(port, path, is_only=len(ports) == 1)
        numbered = (port.get("port"), port["protocol"])
        named, outer = (port.get("name", ""),), (port["protocol"], port.get("nodePort", 0), "node")
        if named in seen and named != ("",):
            yield duplicate(f"{path}.name", named[0])
        if numbered in seen:
            yield duplicate(path, numbered[0])
        if port.get("nodePort") and spec["type"] == "ClusterIP":
            yield forbidden(f"{path}.nodePort", "may not be used when `type` is 'ClusterIP'")
        elif port.get("nodePort") and outer in seen:
            yield duplicate(f"{path}.nodePort", port["nodePort"])
        seen |= {numbered, named, outer}


def _one_port_faults(port: dict[str, Any], path: str, *, is_only: bool) -> Iterator[FieldError]:
    name, target = port.get("name", ""), port["targetPort"]
    if not name and not is_only:
        yield required(f"{path}.name", "")
    yield from spelled(f"{path}.name", name, names.dns_label(name) if name else ())
    yield from spelled(f"{path}.port", port.get("port", 0), names.port_number(port.get("port", 0)))
    yield from one_of(f"{path}.protocol", port["protocol"], _PROTOCOLS)
    rule = names.port_number(target) if isinstance(target, int) else names.port_name(target)
    yield from spelled(f"{path}.targetPort", target, rule)
    if (protocol := port.get("appProtocol")) is not None:
        yield from spelled(f"{path}.appProtocol", protocol, names.qualified_name(protocol))
    if (outer := port.get("nodePort", 0)) and not 0 < outer < 65536:
        yield from spelled(f"{path}.nodePort", outer, names.port_number(outer))


def _affinity_faults(spec: Spec) -> Iterator[FieldError]:
    yield from one_of("spec.sessionAffinity", spec["sessionAffinity"], ("ClientIP", "None"))
    seconds = at(spec, "sessionAffinityConfig.clientIP.timeoutSeconds")
    if seconds is not None and not 0 < seconds <= _LONGEST_STICKY:
        where = "spec.sessionAffinityConfig.clientIP.timeoutSeconds"
        yield invalid(where, seconds, f"must be greater than 0 and less than {_LONGEST_STICKY}")


def outer_address_faults(text: str, field: str) -> Iterator[FieldError]:
    faults = names.ip_address(text)
    yield from spelled(field, text, faults)
    if faults:
        return
    found = ipaddress.ip_address(text)
    for is_wrong, what in (
        (found.is_unspecified, "unspecified"),
        (found.is_loopback, "in the loopback range"),
        (found.is_link_local, "in the link-local range"),
        (found.is_multicast, "in the multicast range"),
    ):
        if is_wrong:
            yield invalid(field, text, f"may not be {what}")


def _balancer_faults(spec: Spec) -> Iterator[FieldError]:
    is_balancer = spec["type"] == "LoadBalancer"
    ranges = spec.get("loadBalancerSourceRanges") or ()
    if not is_balancer:
        for name in ("loadBalancerSourceRanges", "allocateLoadBalancerNodePorts", "loadBalancerClass"):
            if spec.get(name) not in (None, []):
                place = _RANGES if name == "loadBalancerSourceRanges" else f"spec.{name}"
                yield forbidden(place, "may only be used when `type` is 'LoadBalancer'")
    for index, text in enumerate(ranges if is_balancer else ()):
        try:
            ipaddress.ip_network(text.strip(), strict=False)
        except ValueError:
            detail = "must be a range of addresses, such as 10.0.0.0/16 or fd00::/64"
            yield invalid(f"{_RANGES}[{index}]", text, detail)
    if (given := spec.get("loadBalancerClass")) is not None and is_balancer:
        yield from spelled("spec.loadBalancerClass", given, names.qualified_name(given))


def _traffic_faults(spec: Spec) -> Iterator[FieldError]:
    outer, inner = spec.get("externalTrafficPolicy"), spec.get("internalTrafficPolicy")
    if outer is not None and not is_open(spec):
        yield invalid("spec.externalTrafficPolicy", outer, "may only be set for externally-accessible services")
    elif outer is not None:
        yield from one_of("spec.externalTrafficPolicy", outer, _POLICIES)
    if inner is not None:
        yield from one_of("spec.internalTrafficPolicy", inner, _POLICIES)
    if (port := spec.get("healthCheckNodePort", 0)) and not has_health_port(spec):
        detail = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'"
        yield invalid("spec.healthCheckNodePort", port, detail)
    if (distribution := spec.get("trafficDistribution")) is not None:
        yield from one_of("spec.trafficDistribution", distribution, _DISTRIBUTIONS)


def _family_faults(spec: Spec) -> Iterator[FieldError]:
    families = spec.get("ipFamilies") or []
    for index, family in enumerate(families):
        yield from one_of(f"spec.ipFamilies[{index}]", family, _FAMILIES)
        if family in families[:index]:
            yield duplicate(f"spec.ipFamilies[{index}]", family)
    if (policy := spec.get("ipFamilyPolicy")) is not None:
        yield from one_of("spec.ipFamilyPolicy", policy, _STACKS)


def _address_faults(spec: Spec) -> Iterator[FieldError]:
    """Of the addresses that it asks for."""
    wanted: list[str] = spec.get("clusterIPs") or []
    first, families = spec.get("clusterIP", ""), spec.get("ipFamilies") or []
    if first and wanted and wanted[0] != first:
        yield invalid("spec.clusterIPs", wanted, "first value must match `clusterIP`")
    elif wanted and not first:
        yield invalid("spec.clusterIPs", wanted, "must be empty when `clusterIP` is not specified")
    if len(wanted) > 2:
        yield invalid("spec.clusterIPs", wanted, "may only hold up to 2 values")
    if wanted == ["None"]:
        return
    if "None" in wanted:
        yield invalid("spec.clusterIPs", wanted, "'None' must be the first and only value")
        return
    faults = [
        fault
        for index, each in enumerate(wanted)
        for fault in spelled(f"spec.clusterIPs[{index}]", each, names.ip_address(each))
    ]
    yield from faults
    if faults:
        return
    if len(wanted) > 1 and len({family_of(each) for each in wanted}) < len(wanted):
        yield invalid("spec.clusterIPs", wanted, "may specify no more than one IP for each IP family")
    for index, (each, family) in enumerate(zip(wanted, families, strict=False)):
        if family in _FAMILIES and family_of(each) != family:
            detail = f"expected an {family} value as indicated by `ipFamilies[{index}]`"
            yield invalid(f"spec.clusterIPs[{index}]", each, detail)
