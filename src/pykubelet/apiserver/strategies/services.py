"""Services: their defaults, and the addresses they get.

Each address that is in use is an object of its own in the store, so that two services never get the same one, whoever
else writes into the store.
"""

import ipaddress
import random
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any, ClassVar, Final

from pykubelet.api.field_errors import FieldError, forbidden, invalid, not_supported, required
from pykubelet.api.validation import names
from pykubelet.apiserver import status
from pykubelet.apiserver.objects import Object, at
from pykubelet.apiserver.schema.schema import copied
from pykubelet.apiserver.strategies.base import Claims, Lookup, Strategy

_TYPES: Final = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
_OPEN: Final = ("NodePort", "LoadBalancer")
_TRIES: Final = 200
_STICKY_SECONDS: Final = 10800
_ADDRESSES: Final = ("networking.k8s.io", "ipaddresses")
_SETTLED: Final = 60.0
"""Seconds after which nobody is still busy making the service that an address was claimed for."""


class ServiceStrategy(Strategy):
    allocates: ClassVar[bool] = True
    creates_on_update: ClassVar[bool] = True
    selectable = {"spec.clusterIP": "spec.clusterIP", "spec.type": "spec.type"}

    def name_faults(self, name: str) -> Iterable[str]:
        yield from names.dns_label(name)
        if name[:1].isdigit():
            yield "must begin with a letter, since it becomes a name in DNS and in environment variables"

    def normal(self, obj: Object) -> Object:
        result = super().normal(obj)
        spec = result.setdefault("spec", {})
        kind = spec["type"] = spec.get("type") or "ClusterIP"
        affinity = spec["sessionAffinity"] = spec.get("sessionAffinity") or "None"
        if affinity == "None":
            spec.pop("sessionAffinityConfig", None)
        elif affinity == "ClientIP" and at(spec, "sessionAffinityConfig.clientIP.timeoutSeconds") is None:
            spec["sessionAffinityConfig"] = {"clientIP": {"timeoutSeconds": _STICKY_SECONDS}}
        for port in spec.get("ports", ()):
            port["protocol"] = port.get("protocol") or "TCP"
            if port.get("targetPort") in (None, 0, ""):
                port["targetPort"] = port.get("port", 0)
        if kind in _OPEN:
            spec.setdefault("externalTrafficPolicy", "Cluster")
        if kind == "LoadBalancer":
            spec.setdefault("allocateLoadBalancerNodePorts", True)
        if kind != "ExternalName":
            spec.setdefault("internalTrafficPolicy", "Cluster")
        return result

    def give_status(self, obj: Object) -> None:
        obj["status"] = {"loadBalancer": {}}

    async def admit(self, obj: Object, old: Object | None, subresource: str, lookup: Lookup) -> None:
        if subresource:
            return
        spec = obj["spec"]
        if spec["type"] == "ExternalName":
            for name in ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy") if old else ():
                spec.pop(name, None)
            return
        was = at(old or {}, "spec.clusterIP", "")
        if was and not spec.get("clusterIP"):
            spec["clusterIP"], spec["clusterIPs"] = was, copied(at(old, "spec.clusterIPs", [was]))
        if spec.get("clusterIP") and not spec.get("clusterIPs"):
            spec["clusterIPs"] = [spec["clusterIP"]]
        spec.setdefault("ipFamilies", ["IPv4"])
        spec.setdefault("ipFamilyPolicy", "SingleStack")
        if spec["type"] in _OPEN and spec.get("allocateLoadBalancerNodePorts", True):
            await _give_node_ports(spec, old, lookup)

    async def allocate(self, obj: Object, old: Object | None, claims: Claims) -> None:
        """An address, when it is made, or was only a name before."""
        spec = obj["spec"]
        if spec["type"] == "ExternalName" or spec.get("clusterIP") == "None" or at(old, "spec.clusterIP"):
            return
        spec["clusterIP"] = await _allocate_address(obj, spec.get("clusterIP", ""), claims)
        spec["clusterIPs"] = [spec["clusterIP"]]

    async def release(self, obj: Object, kept: Object | None, claims: Claims) -> None:
        address = at(obj, "spec.clusterIP", "")
        if address not in ("", "None", at(kept, "spec.clusterIP", "")):
            await claims.unclaim(*_ADDRESSES, "", address)

    def validate(self, obj: Object) -> Iterator[FieldError]:
        yield from super().validate(obj)
        yield from _spec_faults(obj["spec"])

    def validate_update(self, obj: Object, old: Object, subresource: str) -> Iterator[FieldError]:
        yield from self.validate_meta(obj)
        if subresource:
            return
        yield from _spec_faults(obj["spec"])
        was, now = at(old, "spec.clusterIP", ""), at(obj, "spec.clusterIP", "")
        if was and now != was and obj["spec"]["type"] != "ExternalName":
            yield invalid("spec.clusterIPs[0]", [now], "may not change once set")


def _spec_faults(spec: dict[str, Any]) -> Iterator[FieldError]:
    if spec["type"] not in _TYPES:
        yield not_supported("spec.type", spec["type"], _TYPES)
    if spec["sessionAffinity"] not in ("ClientIP", "None"):
        yield not_supported("spec.sessionAffinity", spec["sessionAffinity"], ("ClientIP", "None"))
    ports = spec.get("ports", [])
    if not ports and spec.get("clusterIP") != "None" and spec["type"] != "ExternalName":
        yield required("spec.ports", "")
    taken: set[tuple[Any, ...]] = set()
    for index, port in enumerate(ports):
        path = f"spec.ports[{index}]"
        yield from _port_faults(port, path, is_only=len(ports) == 1)
        for key in ((port.get("name", ""),), (port.get("port"), port["protocol"])):
            if key in taken and len(ports) > 1 and key != ("",):
                yield FieldError("FieldValueDuplicate", f"{path}.name" if len(key) == 1 else path, "", key[0])
            taken.add(key)
    if spec["type"] == "ExternalName" and not spec.get("externalName"):
        yield required("spec.externalName", "")
    if spec["type"] == "ExternalName" and (spec.get("clusterIP") or spec.get("clusterIPs")):
        # It would get no address of its own, and would give back another's when it goes.
        yield forbidden("spec.clusterIPs", "may not be set for ExternalName services")


def _port_faults(port: dict[str, Any], path: str, *, is_only: bool) -> Iterator[FieldError]:
    name = port.get("name", "")
    if not name and not is_only:
        yield required(f"{path}.name", "")
    for fault in names.dns_label(name) if name else ():
        yield invalid(f"{path}.name", name, fault)
    if not 1 <= port.get("port", 0) <= 65535:
        yield invalid(f"{path}.port", port.get("port", 0), "must be between 1 and 65535, inclusive")
    if port["protocol"] not in ("TCP", "UDP", "SCTP"):
        yield not_supported(f"{path}.protocol", port["protocol"], ("SCTP", "TCP", "UDP"))
    target = port["targetPort"]
    if isinstance(target, int) and not 1 <= target <= 65535:
        yield invalid(f"{path}.targetPort", target, "must be between 1 and 65535, inclusive")


async def _allocate_address(obj: Object, wanted: str, claims: Claims) -> str:
    network = ipaddress.ip_network(claims.settings.service_range)
    name = obj["metadata"].get("name", "")
    if wanted:
        try:
            inside = ipaddress.ip_address(wanted) in network
        except ValueError:
            inside = False
        fault = "" if inside else f"the provided IP is not in the valid range. The range of valid IPs is {network}"
        if not fault and not await _claim(obj, wanted, claims):
            fault = "provided IP is already allocated"
        if fault:
            raise status.invalid("Service", "", name, [invalid("spec.clusterIPs", [wanted], fault)])
        return wanted
    for attempt in range(_TRIES):
        size = network.num_addresses - 2
        # The first addresses are left to those who ask for one, such as the cluster's name server.
        lowest = min(16 + size // 16, 256) if attempt < _TRIES // 2 and size > 64 else 2
        address = str(network[random.randint(lowest, max(size, lowest))])
        if await _claim(obj, address, claims):
            return address
    raise status.internal(f"failed to allocate a serviceIP: range {network} is full")


async def _claim(obj: Object, address: str, claims: Claims) -> bool:
    metadata = obj["metadata"]
    parent = {
        "group": "",
        "resource": "services",
        "namespace": metadata.get("namespace", ""),
        "name": metadata.get("name", ""),
    }
    claim = {
        "metadata": {"name": address, "labels": {"ipaddress.kubernetes.io/ip-family": "IPv4"}},
        "spec": {"parentRef": parent},
    }
    is_ours = await claims.claim(*_ADDRESSES, claim)
    if not is_ours and (left := await _left_behind(address, claims)) is not None:
        await claims.unclaim(*_ADDRESSES, "", address, left["metadata"]["uid"])
        is_ours = await claims.claim(*_ADDRESSES, claim)
    return is_ours


async def _left_behind(address: str, claims: Claims) -> Object | None:
    """A claim whose service never came to be: its client hung up, or the store was away, between the two writes."""
    lookup = claims.backend
    claim = await lookup.find(*_ADDRESSES, "", address)
    made = at(claim, "metadata.creationTimestamp", "")
    if claim is None or not made or (lookup.now() - datetime.fromisoformat(made)).total_seconds() < _SETTLED:
        return None
    parent = at(claim, "spec.parentRef", {})
    service = await lookup.find("", "services", parent.get("namespace", ""), parent.get("name", ""))
    return None if at(service, "spec.clusterIP", "") == address else claim


async def _give_node_ports(spec: dict[str, Any], old: Object | None, lookup: Lookup) -> None:
    services = await lookup.all("", "services")
    taken = {port.get("nodePort") for each in services for port in at(each, "spec.ports", ())}
    before = {(port["port"], port.get("protocol")): port.get("nodePort") for port in at(old or {}, "spec.ports", ())}
    for port in spec.get("ports", ()):
        if not port.get("nodePort"):
            port["nodePort"] = before.get((port.get("port"), port["protocol"])) or _free(taken)
        taken.add(port["nodePort"])


def _free(taken: set[Any]) -> int:
    free = [port for port in range(30000, 32768) if port not in taken]
    if not free:
        raise status.internal("failed to allocate a nodePort: range is full")
    return random.choice(free)
