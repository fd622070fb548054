"""What an object takes of the quotas of its namespace, and which of them it counts for. Pure.

Everything counts as one of its kind (`count/deployments.apps`); pods, services and claims take more than that.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any, Final

from pykubelet.api.codec import convert
from pykubelet.api.pod import PodSpec, PodStatus
from pykubelet.api.quantity import Quantity, parse
from pykubelet.api.rules.qos import qos_class_of
from pykubelet.api.rules.resources import container_limits, is_pod_level_resource, pod_requests, spec_in_force, total
from pykubelet.api.rules.well_known import OLD_CLASS_ANNOTATION
from pykubelet.api.selectors import Requirement
from pykubelet.apiserver.objects import Object, at, has_ended

Usage = dict[str, Quantity]
Kind = tuple[str, str]
"""group, plural"""

PODS: Final[Kind] = ("", "pods")
SERVICES: Final[Kind] = ("", "services")
CLAIMS: Final[Kind] = ("", "persistentvolumeclaims")
DEVICE_CLAIMS: Final[Kind] = ("resource.k8s.io", "resourceclaims")
_ALIASES: Final = ("configmaps", "resourcequotas", "replicationcontrollers", "secrets")
_ONE: Final = Quantity.of(1)
_COMPUTE: Final = ("cpu", "memory", "ephemeral-storage")
_HUGE: Final = "hugepages-"
_OF_PODS: Final = frozenset(
    ("pods", "count/pods", *_COMPUTE, *(f"{kind}.{name}" for kind in ("requests", "limits") for name in _COMPUTE))
)
_OF_SERVICES: Final = frozenset(("services", "count/services", "services.nodeports", "services.loadbalancers"))
_OF_CLAIMS: Final = ("persistentvolumeclaims", "requests.storage")
_BY_CLASS: Final = ".storageclass.storage.k8s.io/"
_DEVICES: Final = ".deviceclass.resource.k8s.io/devices"
_ALL_DEVICES: Final = 32
"""What a claim on all devices is charged for: no claim can have more."""
NEEDED: Final = frozenset(("cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory"))
"""What every container has to say when there is a quota on it."""


def count_name(kind: Kind) -> str:
    group, plural = kind
    return f"count/{plural}.{group}" if group else f"count/{plural}"


def usage(kind: Kind, obj: Object, now: datetime) -> Usage:
    """What one object takes."""
    found: Usage = {count_name(kind): _ONE}
    if kind == PODS:
        return {**found, **(_pod_usage(obj) if _is_charged(obj, now) else {})}
    if kind == SERVICES:
        return {**found, **_service_usage(obj)}
    if kind == CLAIMS:
        return {**found, **_claim_usage(obj)}
    if kind == DEVICE_CLAIMS:
        return {**found, **_device_usage(obj)}
    return {**found, kind[1]: _ONE} if not kind[0] and kind[1] in _ALIASES else found


def counted(kind: Kind, names: Iterable[str]) -> frozenset[str]:
    """Which names of a quota objects of the kind count for."""
    return frozenset(name for name in names if _counts(kind, name))


def _counts(kind: Kind, name: str) -> bool:
    if name == count_name(kind):
        return True
    if kind == PODS:
        is_huge = name.removeprefix("requests.").startswith(_HUGE)
        is_extended = name.startswith("requests.") and "/" in name and _BY_CLASS not in name
        return name in _OF_PODS or is_huge or is_extended
    if kind == SERVICES:
        return name in _OF_SERVICES
    if kind == CLAIMS:
        return name in _OF_CLAIMS or any(name.endswith(f"{_BY_CLASS}{each}") for each in _OF_CLAIMS)
    if kind == DEVICE_CLAIMS:
        return name.endswith(_DEVICES)
    return not kind[0] and kind[1] in _ALIASES and name == kind[1]


def matches(quota: Object, kind: Kind, obj: Object) -> bool:
    """Whether the quota is for such objects."""
    hard = at(quota, "status.hard") or at(quota, "spec.hard", {})
    return bool(counted(kind, hard)) and in_scope(quota, kind, obj)


def in_scope(quota: Object, kind: Kind, obj: Object) -> bool:
    wanted = [{"scopeName": name, "operator": "Exists"} for name in at(quota, "spec.scopes", ())]
    wanted += at(quota, "spec.scopeSelector.matchExpressions", ())
    return all(_in_scope(each, kind, obj) for each in wanted)


def _in_scope(wanted: Mapping[str, Any], kind: Kind, obj: Object) -> bool:
    scope, spec = wanted.get("scopeName"), obj.get("spec") or {}
    if kind == CLAIMS and scope == "VolumeAttributesClass":
        names = (spec.get("volumeAttributesClassName"), at(obj, "status.currentVolumeAttributesClassName"))
        return _names_match(wanted, [name for name in names if name])
    if kind != PODS:
        return False
    match scope:
        case "Terminating":
            return is_terminating(obj)
        case "NotTerminating":
            return not is_terminating(obj)
        case "BestEffort":
            return _is_best_effort(obj)
        case "NotBestEffort":
            return not _is_best_effort(obj)
        case "PriorityClass":
            return _names_match(wanted, [spec["priorityClassName"]] if spec.get("priorityClassName") else [])
        case "CrossNamespacePodAffinity":
            return _reaches_out(spec.get("affinity") or {})
    return False


def _names_match(wanted: Mapping[str, Any], names: list[str]) -> bool:
    operators = {"In": "in", "NotIn": "notin", "Exists": "exists", "DoesNotExist": "!"}
    operator: Any = operators.get(wanted.get("operator", ""), "exists")
    rule = Requirement("name", operator, tuple(wanted.get("values") or ()))
    return any(rule.holds({"name": name}) for name in names) if names else rule.holds({})


def is_terminating(pod: Object) -> bool:
    return bool(at(pod, "spec.activeDeadlineSeconds", -1) >= 0)


def _is_best_effort(pod: Object) -> bool:
    return qos_class_of(convert(PodSpec, pod["spec"])) == "BestEffort"


def _reaches_out(affinity: Mapping[str, Any]) -> bool:
    for name in ("podAffinity", "podAntiAffinity"):
        rules = affinity.get(name) or {}
        terms = [*rules.get("requiredDuringSchedulingIgnoredDuringExecution", ())]
        preferred = rules.get("preferredDuringSchedulingIgnoredDuringExecution", ())
        terms += [each.get("podAffinityTerm") or {} for each in preferred]
        if any(term.get("namespaces") or term.get("namespaceSelector") is not None for term in terms):
            return True
    return False


# --- kinds that take more than a place


def _is_charged(pod: Object, now: datetime) -> bool:
    """One that has ended takes nothing, and neither does one that should be gone by now."""
    if has_ended(pod):
        return False
    deleted, grace = (at(pod, f"metadata.{name}") for name in ("deletionTimestamp", "deletionGracePeriodSeconds"))
    if not deleted or grace is None:
        return True
    return now <= datetime.fromisoformat(deleted) + timedelta(seconds=grace)


def _pod_usage(pod: Object) -> Usage:
    spec = spec_in_force(convert(PodSpec, pod.get("spec") or {}), convert(PodStatus, pod.get("status") or {}))
    limits = container_limits(spec)
    if spec.resources:
        limits |= {name: each for name, each in spec.resources.limits.items() if is_pod_level_resource(name)}
    limits = total([limits, {name: each for name, each in spec.overhead.items() if name in limits}])
    return compute_usage(pod_requests(spec), limits)


def compute_usage(requests: Mapping[str, Quantity], limits: Mapping[str, Quantity]) -> Usage:
    found: Usage = {"pods": _ONE}
    for name, amount in requests.items():
        if name in _COMPUTE or name.startswith(_HUGE):
            found[name] = amount
        if name in _COMPUTE or name.startswith(_HUGE) or "/" in name:
            found[f"requests.{name}"] = amount
    return found | {f"limits.{name}": amount for name, amount in limits.items() if name in _COMPUTE}


def _service_usage(service: Object) -> Usage:
    spec = service.get("spec") or {}
    ports, kind = spec.get("ports") or (), spec.get("type")
    count = len(ports) if kind in ("NodePort", "LoadBalancer") else 0
    if kind == "LoadBalancer" and spec.get("allocateLoadBalancerNodePorts") is False:
        count = sum(bool(port.get("nodePort")) for port in ports)
    return {
        "services": _ONE,
        "services.nodeports": Quantity.of(count),
        "services.loadbalancers": Quantity.of(kind == "LoadBalancer"),
    }


def _claim_usage(claim: Object) -> Usage:
    found: Usage = {"persistentvolumeclaims": _ONE}
    sizes = [at(claim, path) for path in ("spec.resources.requests.storage", "status.allocatedResources.storage")]
    amounts = [parse(str(size)) for size in sizes if size is not None]
    if amounts and sizes[0] is not None:
        largest = max(amounts)
        whole = largest.nanos % 10**9 == 0
        found["requests.storage"] = largest if whole else Quantity.of(largest.value)
    name = at(claim, "metadata.annotations", {}).get(OLD_CLASS_ANNOTATION) or at(claim, "spec.storageClassName", "")
    if name:
        found |= {f"{name}{_BY_CLASS}{each}": amount for each, amount in found.items()}
    return found


def _device_usage(claim: Object) -> Usage:
    """By class of device; of several that would do, the most."""
    found: Usage = {}
    for request in at(claim, "spec.devices.requests", ()):
        most: Usage = {}
        for each in (request.get("exactly"), *(request.get("firstAvailable") or ())):
            if each is None:
                continue
            name = f"{each.get('deviceClassName', '')}{_DEVICES}"
            count = _ALL_DEVICES if each.get("allocationMode") == "All" else each.get("count") or 0
            most[name] = max(most.get(name, Quantity(0)), Quantity.of(count))
        found = added(found, most)
    return found


# --- arithmetic


def added(one: Usage, other: Usage) -> Usage:
    return {**one, **{name: one[name] + amount if name in one else amount for name, amount in other.items()}}


def more_than(new: Usage, old: Usage) -> Usage:
    """What the new one takes beyond the old one."""
    rest = {name: amount - old[name] if name in old else amount for name, amount in new.items()}
    return {name: amount for name, amount in rest.items() if amount.sign > 0}


def masked(amounts: Usage, names: Iterable[str]) -> Usage:
    wanted = frozenset(names)
    return {name: amount for name, amount in amounts.items() if name in wanted}


def amounts(given: Mapping[str, Any] | None) -> Usage:
    return {name: parse(str(value)) for name, value in (given or {}).items()}


def texts(found: Usage) -> dict[str, str]:
    return {name: str(amount) for name, amount in found.items()}
