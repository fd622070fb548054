"""The rows of the kinds that a cluster is set up with: networks, storage, rights, admission, flow control, devices."""

from datetime import datetime
from typing import Any, Final

from pykubelet.apiserver.objects import Object, at
from pykubelet.apiserver.tables.columns import NONE, UNSET, Printers, age, columns, name, plain, selector, some


def _ingress(obj: Object, now: datetime) -> list[Any]:
    spec = obj.get("spec", {})
    rules = spec.get("rules") or ()
    hosts = [each["host"] for each in rules if each.get("host")]
    shown = some(hosts[:3], "*") + (f" + {len(rules) - 3} more..." if len(rules) > 3 and len(hosts) >= 3 else "")
    points = at(obj, "status.loadBalancer.ingress", ())
    address = ",".join(sorted({each.get("ip") or each.get("hostname", "") for each in points} - {""}))
    ports = "80, 443" if spec.get("tls") else "80"
    return [name(obj), spec.get("ingressClassName", NONE), shown, address, ports, age(obj, now)]


def _ingress_class(obj: Object) -> str:
    given = at(obj, "spec.parameters")
    if given is None:
        return NONE
    kind = given.get("kind", "") + (f".{given['apiGroup']}" if given.get("apiGroup") is not None else "")
    return f"{kind}/{given.get('name', '')}"


def _parent(obj: Object) -> str:
    given = at(obj, "spec.parentRef")
    if given is None:
        return NONE
    kind = given.get("resource", "") + (f".{given['group']}" if given.get("group") else "")
    return "/".join(filter(None, (kind.lower(), given.get("namespace"), given.get("name", ""))))


def _binding(obj: Object, now: datetime) -> list[Any]:
    role = obj.get("roleRef", {})
    found: dict[str, list[str]] = {"User": [], "Group": [], "ServiceAccount": []}
    for each in obj.get("subjects") or ():
        where = f"{each.get('namespace', '')}/" if each.get("kind") == "ServiceAccount" else ""
        found.setdefault(each.get("kind", ""), []).append(where + each.get("name", ""))
    wide = [", ".join(found[kind]) for kind in ("User", "Group", "ServiceAccount")]
    return [name(obj), f"{role.get('kind', '')}/{role.get('name', '')}", age(obj, now), *wide]


def _csi_driver(obj: Object, now: datetime) -> list[Any]:
    spec = obj.get("spec", {})
    tokens = spec.get("tokenRequests")
    return [
        name(obj),
        spec.get("attachRequired", True),
        spec.get("podInfoOnMount", False),
        spec.get("storageCapacity", False),
        UNSET if tokens is None else ",".join(each.get("audience", "") for each in tokens),
        spec.get("requiresRepublish", False),
        ",".join(spec.get("volumeLifecycleModes") or ()) or NONE,
        age(obj, now),
    ]


def _attachment(obj: Object, now: datetime) -> list[Any]:
    spec = obj.get("spec", {})
    volume = at(spec, "source.persistentVolumeName", "")
    attached = at(obj, "status.attached", False)
    return [name(obj), spec.get("attacher", ""), volume, spec.get("nodeName", ""), attached, age(obj, now)]


def _param_kind(obj: Object) -> str:
    given = at(obj, "spec.paramKind")
    return UNSET if given is None else f"{given.get('apiVersion', '')}/{given.get('kind', '')}"


def _param_ref(obj: Object) -> str:
    given = at(obj, "spec.paramRef", {})
    if given.get("name"):
        return f"{given.get('namespace') or '*'}/{given['name']}"
    return selector(given["selector"]) if given.get("selector") is not None else UNSET


def _flow_schema(obj: Object, now: datetime) -> list[Any]:
    spec = obj.get("spec", {})
    dangling = (each.get("status") for each in at(obj, "status.conditions", ()) if each.get("type") == "Dangling")
    level, method = at(spec, "priorityLevelConfiguration.name", ""), at(spec, "distinguisherMethod.type", NONE)
    return [name(obj), level, spec.get("matchingPrecedence", 0), method, age(obj, now), next(dangling, "?")]


def _priority_level(obj: Object, now: datetime) -> list[Any]:
    limited = at(obj, "spec.limited", {})
    queuing = at(limited, "limitResponse.queuing", {})
    shares = limited.get("nominalConcurrencyShares", NONE)
    queues = [queuing.get(each, NONE) for each in ("queues", "handSize", "queueLengthLimit")]
    return [name(obj), at(obj, "spec.type", ""), shares, *queues, age(obj, now)]


def _claim_state(obj: Object) -> str:
    is_leaving = bool(at(obj, "metadata.deletionTimestamp"))
    states = ["deleted"] if is_leaving else []
    if at(obj, "status.allocation") is None:
        states += [] if is_leaving else ["pending"]
    else:
        states += ["allocated", *(["reserved"] if at(obj, "status.reservedFor") else [])]
    return ",".join(states)


def _service(obj: Object) -> str:
    given = at(obj, "spec.service")
    return "Local" if given is None else f"{given.get('namespace', '')}/{given.get('name', '')}"


def _availability(obj: Object) -> str:
    for each in at(obj, "status.conditions", ()):
        if each.get("type") == "Available":
            word = str(each.get("status", ""))
            return word if word == "True" or not each.get("reason") else f"{word} ({each['reason']})"
    return "Unknown"


def _count(path: str) -> Any:
    return lambda obj: len(at(obj, path, ()))


def _text(path: str) -> Any:
    return lambda obj: at(obj, path, "")


_BINDING: Final = (columns("Name, Role, Age, Users*, Groups*, ServiceAccounts*"), _binding)
_AGED: Final = plain("Name, Age")

PRINTERS: Final[Printers] = {
    ("admissionregistration.k8s.io", "MutatingWebhookConfiguration"): plain("Name, Webhooks#, Age", _count("webhooks")),
    ("admissionregistration.k8s.io", "ValidatingAdmissionPolicy"): plain(
        "Name, Validations#, ParamKind, Age", _count("spec.validations"), _param_kind
    ),
    ("admissionregistration.k8s.io", "ValidatingAdmissionPolicyBinding"): plain(
        "Name, PolicyName, ParamRef, Age", _text("spec.policyName"), _param_ref
    ),
    ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration"): plain(
        "Name, Webhooks#, Age", _count("webhooks")
    ),
    ("apiregistration.k8s.io", "APIService"): plain("Name, Service, Available, Age", _service, _availability),
    ("flowcontrol.apiserver.k8s.io", "FlowSchema"): (
        columns("Name, PriorityLevel, MatchingPrecedence, DistinguisherMethod, Age, MissingPL"),
        _flow_schema,
    ),
    ("flowcontrol.apiserver.k8s.io", "PriorityLevelConfiguration"): (
        columns("Name, Type, NominalConcurrencyShares, Queues, HandSize, QueueLengthLimit, Age"),
        _priority_level,
    ),
    ("networking.k8s.io", "IPAddress"): (columns("Name, ParentRef"), lambda obj, now: [name(obj), _parent(obj)]),
    ("networking.k8s.io", "Ingress"): (columns("Name, Class, Hosts, Address, Ports, Age"), _ingress),
    ("networking.k8s.io", "IngressClass"): plain(
        "Name, Controller, Parameters, Age", _text("spec.controller"), _ingress_class
    ),
    ("networking.k8s.io", "NetworkPolicy"): plain(
        "Name, Pod-Selector, Age", lambda obj: selector(at(obj, "spec.podSelector"))
    ),
    ("networking.k8s.io", "ServiceCIDR"): plain("Name, CIDRs, Age", lambda obj: ",".join(at(obj, "spec.cidrs", ()))),
    ("rbac.authorization.k8s.io", "ClusterRoleBinding"): _BINDING,
    ("rbac.authorization.k8s.io", "RoleBinding"): _BINDING,
    ("resource.k8s.io", "DeviceClass"): _AGED,
    ("resource.k8s.io", "ResourceClaim"): plain("Name, State, Age", _claim_state),
    ("resource.k8s.io", "ResourceClaimTemplate"): _AGED,
    ("resource.k8s.io", "ResourceSlice"): plain(
        "Name, Node, Driver, Pool, Age", _text("spec.nodeName"), _text("spec.driver"), _text("spec.pool.name")
    ),
    ("storage.k8s.io", "CSIDriver"): (
        columns(
            "Name, AttachRequired?, PodInfoOnMount?, StorageCapacity?, TokenRequests, RequiresRepublish?, Modes, Age"
        ),
        _csi_driver,
    ),
    ("storage.k8s.io", "CSINode"): plain("Name, Drivers#, Age", _count("spec.drivers")),
    ("storage.k8s.io", "VolumeAttachment"): (columns("Name, Attacher!, PV, Node, Attached?, Age"), _attachment),
    ("storage.k8s.io", "VolumeAttributesClass"): plain("Name, DriverName, Age", lambda obj: obj.get("driverName", "")),
}
