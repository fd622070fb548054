"""Services: their defaults, what becomes of them when their type changes, and the addresses and ports they get."""

from collections.abc import Iterable, Iterator
from typing import Any, ClassVar, Final

from pykubelet.api.field_errors import FieldError, forbidden, invalid
from pykubelet.api.validation import names
from pykubelet.apiserver import status
from pykubelet.apiserver.objects import Object, at
from pykubelet.apiserver.schema.schema import copied
from pykubelet.apiserver.status import ApiError
from pykubelet.apiserver.strategies.base import Claims, Lookup, Strategy
from pykubelet.apiserver.strategies.service_claims import ServiceClaims, address, family_of, give_back, node_ports
from pykubelet.apiserver.strategies.service_faults import OPEN, has_health_port, is_open, spec_faults

_STICKY_SECONDS: Final = 10800
_DUAL: Final = {"IPv4": ["IPv4", "IPv6"], "IPv6": ["IPv6", "IPv4"]}

Spec = dict[str, Any]


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
        if is_open(spec):
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
        if old is not None:
            _let_go(spec, old["spec"])
            _carry_on(spec, old["spec"])
        if spec["type"] != "ExternalName" and spec.get("clusterIP") and not spec.get("clusterIPs"):
            spec["clusterIPs"] = [spec["clusterIP"]]

    async def allocate(self, obj: Object, old: Object | None, claims: Claims) -> None:
        spec, was = obj["spec"], (old or {}).get("spec", {})
        if spec["type"] != "ExternalName":
            self._give_families(obj, was, family_of(claims.settings.service_range))
        taking, before = ServiceClaims(obj, claims), node_ports(old)
        try:
            if spec["type"] != "ExternalName" and spec.get("clusterIP") != "None" and not address(old):
                spec["clusterIP"] = await taking.take_address(spec.get("clusterIP", ""))
                spec["clusterIPs"] = [spec["clusterIP"]]
            for index, port in enumerate(spec.get("ports") or ()):
                wanted = port.get("nodePort", 0)
                if (wanted or _needs_ports(spec)) and wanted not in before:
                    taken = await taking.take_port(wanted, f"spec.ports[{index}].nodePort")
                    port["nodePort"] = taken
                    before.add(taken)  # one number may be two ports, of two protocols
            wanted = spec.get("healthCheckNodePort", 0)
            if has_health_port(spec) and wanted not in before:
                spec["healthCheckNodePort"] = await taking.take_port(wanted, "spec.healthCheckNodePort")
        except BaseException:
            await taking.undo()
            raise

    def _give_families(self, obj: Object, was: Spec, own: str) -> None:
        """Which kinds of addresses it has. This cluster has one kind. Raises 422."""
        spec = obj["spec"]
        is_bare = spec.get("clusterIP") == "None" and not spec.get("selector")
        usual = "RequireDualStack" if is_bare else "SingleStack"
        policy = spec["ipFamilyPolicy"] = spec.get("ipFamilyPolicy") or was.get("ipFamilyPolicy") or usual
        faults: list[FieldError] = []
        families = spec.get("ipFamilies") or []
        if policy == "SingleStack" and len(families) > 1:
            detail = "must be 'RequireDualStack' or 'PreferDualStack' when multiple IP families are specified"
            raise _refused(obj, [invalid("spec.ipFamilyPolicy", policy, detail)])
        if is_bare:
            first = families or [own]
            spec["ipFamilies"] = first if policy == "SingleStack" else _DUAL[first[0]]
            return
        if policy == "RequireDualStack":
            detail = "this cluster is not configured for dual-stack services"
            faults.append(invalid("spec.ipFamilyPolicy", policy, detail))
        for index, family in enumerate(families):
            if family != own:
                detail = "not configured on this cluster"
                faults.append(invalid(f"spec.ipFamilies[{index}]", family, detail))
        if faults:
            raise _refused(obj, faults)
        spec["ipFamilies"] = [own]

    async def release(self, obj: Object, kept: Object | None, claims: Claims) -> None:
        await give_back(obj, kept, claims)

    def validate(self, obj: Object) -> Iterator[FieldError]:
        yield from super().validate(obj)
        yield from spec_faults(obj["spec"])

    def validate_update(self, obj: Object, old: Object, subresource: str) -> Iterator[FieldError]:
        yield from self.validate_meta(obj)
        if subresource:
            if at(obj, "status.loadBalancer.ingress") and obj["spec"].get("type") != "LoadBalancer":
                yield forbidden("status.loadBalancer.ingress", "may only be used when `spec.type` is 'LoadBalancer'")
            return
        spec, was = obj["spec"], old["spec"]
        yield from spec_faults(spec)
        if spec["type"] == "ExternalName" or was["type"] == "ExternalName":
            return
        if was.get("clusterIP") and spec.get("clusterIP") != was["clusterIP"]:
            yield invalid("spec.clusterIPs[0]", [spec.get("clusterIP", "")], "may not change once set")
        for index, (one, other) in enumerate(
            zip(was.get("ipFamilies") or (), spec.get("ipFamilies") or (), strict=False)
        ):
            if one != other:
                yield invalid(f"spec.ipFamilies[{index}]", other, "may not change once set")
        name = spec.get("loadBalancerClass")
        if spec["type"] == was["type"] == "LoadBalancer" and name != was.get("loadBalancerClass"):
            yield invalid("spec.loadBalancerClass", name, "may not change once set")


def _refused(obj: Object, faults: list[FieldError]) -> ApiError:
    return status.invalid("Service", "", obj["metadata"].get("name", ""), faults)


def _needs_ports(spec: Spec) -> bool:
    return spec["type"] in OPEN and (spec["type"] == "NodePort" or spec.get("allocateLoadBalancerNodePorts", True))


def _let_go(spec: Spec, was: Spec) -> None:
    """Drop what was set for the type that it had before, unless it was set anew."""
    if spec["type"] == "ExternalName" and was["type"] != "ExternalName":
        for name in ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"):
            if spec.get(name) == was.get(name):
                spec.pop(name, None)
    had = {port.get("nodePort", 0) for port in was.get("ports") or ()} - {0}
    has = {port.get("nodePort", 0) for port in spec.get("ports") or ()} - {0}
    if _needs_ports(was) and not _needs_ports(spec) and has <= had:
        for port in spec.get("ports") or ():
            port.pop("nodePort", None)
    dropped = {
        "healthCheckNodePort": has_health_port(was) and not has_health_port(spec),
        "allocateLoadBalancerNodePorts": was["type"] == "LoadBalancer" != spec["type"],
        "loadBalancerClass": was["type"] == "LoadBalancer" != spec["type"],
        "externalTrafficPolicy": is_open(was) and not is_open(spec),
        "internalTrafficPolicy": spec["type"] == "ExternalName" != was["type"],
    }
    for name, is_over in dropped.items():
        if is_over and spec.get(name) == was.get(name):
            spec.pop(name, None)


def _carry_on(spec: Spec, was: Spec) -> None:
    """What it has got and was left out."""
    if "ExternalName" not in (spec["type"], was["type"]):
        if not spec.get("clusterIP") and was.get("clusterIP"):
            spec["clusterIP"] = was["clusterIP"]
        if not spec.get("clusterIPs") and was.get("clusterIPs"):
            spec["clusterIPs"] = copied(was["clusterIPs"])
        if spec.get("clusterIP") != was.get("clusterIP") and spec.get("clusterIPs") == was.get("clusterIPs"):
            spec["clusterIPs"] = [spec["clusterIP"]]  # one of the two was set, and is meant
    if _needs_ports(spec) and _needs_ports(was):
        used = {port.get("nodePort") for port in spec.get("ports") or ()}
        known = {port.get("name", ""): port.get("nodePort") for port in was.get("ports") or ()}
        for port in spec.get("ports") or ():
            before = known.get(port.get("name", ""))
            if not port.get("nodePort") and before and before not in used:
                port["nodePort"] = before
    if has_health_port(spec) and has_health_port(was) and was.get("healthCheckNodePort"):
        spec["healthCheckNodePort"] = spec.get("healthCheckNodePort") or was["healthCheckNodePort"]
