"""Objects as rows: the columns that kubectl shows for each kind, computed here so that every client shows the same."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from pykubelet.api.durations import UNKNOWN, ago, span
from pykubelet.api.rules.well_known import DEFAULT_CLASS_ANNOTATION, OLD_CLASS_ANNOTATION
from pykubelet.apiserver import status
from pykubelet.apiserver.objects import Object, at
from pykubelet.apiserver.schema.resources import Resource
from pykubelet.apiserver.tables.pod_rows import NONE, pod_cells, pod_conditions

_UNSET: Final = "<unset>"
Cells = Callable[[Object, datetime], list[Any]]


def _columns(text: str) -> tuple[dict[str, Any], ...]:
    """`Name, Ready, IP*`: a star marks what is shown only when the output is wide, `#` a number."""
    found = []
    for index, part in enumerate(each.strip() for each in text.split(",")):
        name = part.rstrip("*#")
        is_name = (index == 0 and name == "Name") or (name == "Name" and part.endswith("*"))
        found.append(
            {
                "name": name,
                "type": "integer" if "#" in part else "string",
                "format": "name" if is_name else "",
                "description": "",
                "priority": 1 if "*" in part else 0,
            }
        )
    return tuple(found)


def table(
    resource: Resource, objects: Sequence[Object], metadata: dict[str, Any], version: str, include: str, now: datetime
) -> Object:
    columns, cells = _KINDS.get(resource.kind, _GENERIC)
    rows = []
    for obj in objects:
        row: dict[str, Any] = {"cells": cells(obj, now)}
        if resource.kind == "Pod" and (conditions := pod_conditions(obj)):
            row["conditions"] = conditions
        if include == "Object":
            row["object"] = obj
        elif include == "Metadata":
            row["object"] = partial_metadata(obj, version)
        rows.append(row)
    head = {"kind": "Table", "apiVersion": f"meta.k8s.io/{version}"}
    return {**head, "metadata": metadata, "columnDefinitions": list(columns), "rows": rows}


def partial_metadata(obj: Object, version: str) -> Object:
    return {"kind": "PartialObjectMetadata", "apiVersion": f"meta.k8s.io/{version}", "metadata": obj["metadata"]}


def wanted_objects(query: Mapping[str, str]) -> str:
    include = query.get("includeObject", "") or "Metadata"
    if include not in ("None", "Metadata", "Object"):
        raise status.bad_request(f"unrecognized includeObject value: {include!r}: use None, Metadata or Object")
    return include


def _name(obj: Object) -> str:
    return str(obj["metadata"].get("name", ""))


def _age(obj: Object, now: datetime) -> str:
    return ago(obj["metadata"].get("creationTimestamp"), now)


def _plain(columns: str, *between: Callable[[Object], Any]) -> tuple[tuple[dict[str, Any], ...], Cells]:
    """A kind with some cells between its name and its age."""
    return _columns(columns), lambda obj, now: [_name(obj), *(cell(obj) for cell in between), _age(obj, now)]


def _generic(obj: Object, now: datetime) -> list[Any]:
    return [_name(obj), obj["metadata"].get("creationTimestamp")]


def _node(obj: Object, now: datetime) -> list[Any]:
    ready = [c for c in at(obj, "status.conditions", ()) if c.get("type") == "Ready"]
    state = ["Ready" if c.get("status") == "True" else "NotReady" for c in ready[:1]] or ["Unknown"]
    if at(obj, "spec.unschedulable"):
        state.append("SchedulingDisabled")
    info = at(obj, "status.nodeInfo", {})
    prefix, roles = "node-role.kubernetes.io/", set()
    for key, value in at(obj, "metadata.labels", {}).items():
        if key.startswith(prefix) and key != prefix:
            roles.add(key.removeprefix(prefix))
        elif key == "kubernetes.io/role" and value:
            roles.add(value)
    shown = ",".join(sorted(roles)) or NONE
    head = [_name(obj), ",".join(state), shown, _age(obj, now), info.get("kubeletVersion", "")]
    system = [info.get(name) or UNKNOWN for name in ("osImage", "kernelVersion", "containerRuntimeVersion")]
    return [*head, _address(obj, "InternalIP"), _address(obj, "ExternalIP"), *system]


def _address(node: Object, kind: str) -> str:
    found = [each.get("address", "") for each in at(node, "status.addresses", ()) if each.get("type") == kind]
    return found[0] if found else NONE


def _event(obj: Object, now: datetime) -> list[Any]:
    core = obj if "involvedObject" in obj else _as_core(obj)
    first = ago(core.get("firstTimestamp") or core.get("eventTime"), now)
    last = ago(core["lastTimestamp"], now) if core.get("lastTimestamp") else first
    count = core.get("count") or 1
    if core.get("series"):
        last, count = ago(at(core, "series.lastObservedTime"), now), at(core, "series.count", 0)
    involved = core.get("involvedObject", {})
    target = "/".join(filter(None, (involved.get("kind", "").lower(), involved.get("name", ""))))
    source = at(core, "source.component") or core.get("reportingComponent", "")
    instance = at(core, "source.host") or core.get("reportingInstance", "")
    return [
        last,
        core.get("type", ""),
        core.get("reason", ""),
        target,
        involved.get("fieldPath", ""),
        f"{source}, {instance}" if instance else source,
        core.get("message", "").strip(),
        first,
        count,
        _name(obj),
    ]


def _as_core(obj: Object) -> Object:
    renamed = {
        "involvedObject": "regarding",
        "message": "note",
        "source": "deprecatedSource",
        "firstTimestamp": "deprecatedFirstTimestamp",
        "lastTimestamp": "deprecatedLastTimestamp",
        "count": "deprecatedCount",
        "reportingComponent": "reportingController",
    }
    return {**obj, **{core: obj[name] for core, name in renamed.items() if name in obj}}


def _service(obj: Object, now: datetime) -> list[Any]:
    spec = obj.get("spec", {})
    kind, outer = spec.get("type", "ClusterIP"), list(spec.get("externalIPs", ()))
    if kind == "LoadBalancer":
        ingress = at(obj, "status.loadBalancer.ingress", ())
        outer = [each.get("ip") or each.get("hostname", "") for each in ingress] + outer
    external = ",".join(outer) or ("<pending>" if kind == "LoadBalancer" else NONE)
    if kind == "ExternalName":
        external = spec.get("externalName", "")
    ports = []
    for port in spec.get("ports", ()):
        inner = f":{port['nodePort']}" if port.get("nodePort") else ""
        ports.append(f"{port.get('port', 0)}{inner}/{port.get('protocol', 'TCP')}")
    address = (spec.get("clusterIPs") or [spec.get("clusterIP") or NONE])[0]
    selector = ",".join(f"{key}={value}" for key, value in sorted((spec.get("selector") or {}).items()))
    return [_name(obj), kind, address, external, ",".join(ports) or NONE, _age(obj, now), selector or NONE]


def _endpoints(obj: Object, now: datetime) -> list[Any]:
    found: list[str] = []
    for subset in obj.get("subsets", ()):
        hosts = [each.get("ip", "") for each in subset.get("addresses", ())]
        ports = [port.get("port", 0) for port in subset.get("ports", ())]
        found += [f"[{ip}]:{port}" if ":" in ip else f"{ip}:{port}" for port in ports for ip in hosts] or hosts
    return [_name(obj), _some(found, "") if obj.get("subsets") else NONE, _age(obj, now)]


def _endpoint_slice(obj: Object, now: datetime) -> list[Any]:
    ports = [str(each.get("port") or each.get("name") or "*") for each in obj.get("ports") or ()]
    hosts = [ip for each in obj.get("endpoints") or () for ip in each.get("addresses", ())]
    return [_name(obj), obj.get("addressType", ""), _some(ports, _UNSET), _some(hosts, _UNSET), _age(obj, now)]


def _some(found: list[str], otherwise: str) -> str:
    more = f" + {len(found) - 3} more..." if len(found) > 3 else ""
    return ",".join(found[:3]) + more if found else otherwise


_MODES: Final = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX", "ReadWriteOncePod": "RWOP"}


def _modes(modes: Sequence[str]) -> str:
    return ",".join(short for mode, short in _MODES.items() if mode in modes)


def _volume_phase(obj: Object) -> str:
    return "Terminating" if at(obj, "metadata.deletionTimestamp") else at(obj, "status.phase", "")


def _class(obj: Object) -> str:
    return str(at(obj, "metadata.annotations", {}).get(OLD_CLASS_ANNOTATION) or at(obj, "spec.storageClassName", ""))


def _persistent_volume(obj: Object, now: datetime) -> list[Any]:
    spec, claim = obj.get("spec", {}), at(obj, "spec.claimRef")
    bound = f"{claim.get('namespace', '')}/{claim.get('name', '')}" if claim else ""
    return [
        _name(obj),
        str(at(spec, "capacity.storage", "0")),
        _modes(spec.get("accessModes", ())),
        spec.get("persistentVolumeReclaimPolicy", ""),
        _volume_phase(obj),
        bound,
        _class(obj),
        spec.get("volumeAttributesClassName", _UNSET),
        at(obj, "status.reason", ""),
        _age(obj, now),
        spec.get("volumeMode", _UNSET),
    ]


def _claim(obj: Object, now: datetime) -> list[Any]:
    spec = obj.get("spec", {})
    volume = spec.get("volumeName", "")
    return [
        _name(obj),
        _volume_phase(obj),
        volume,
        str(at(obj, "status.capacity", {}).get("storage", "0")) if volume else "",
        _modes(at(obj, "status.accessModes", ())) if volume else "",
        _class(obj),
        spec.get("volumeAttributesClassName", _UNSET),
        _age(obj, now),
        spec.get("volumeMode", _UNSET),
    ]


def _priority_class(obj: Object, now: datetime) -> list[Any]:
    policy = obj.get("preemptionPolicy", "")
    return [_name(obj), obj.get("value", 0), bool(obj.get("globalDefault")), _age(obj, now), policy]


def _storage_class(obj: Object, now: datetime) -> list[Any]:
    default = at(obj, "metadata.annotations", {}).get(DEFAULT_CLASS_ANNOTATION) == "true"
    return [
        f"{_name(obj)} (default)" if default else _name(obj),
        obj.get("provisioner", ""),
        obj.get("reclaimPolicy", "Delete"),
        obj.get("volumeBindingMode", "Immediate"),
        bool(obj.get("allowVolumeExpansion")),
        _age(obj, now),
    ]


def _certificate_request(obj: Object, now: datetime) -> list[Any]:
    spec = obj.get("spec", {})
    types = [each.get("type") for each in at(obj, "status.conditions", ())]
    state = "Pending"
    if types:
        state = "Denied" if "Denied" in types else "Approved" if "Approved" in types else ""
        state += ",Failed" if "Failed" in types else ""
        state += ",Issued" if at(obj, "status.certificate") else ""
    seconds = spec.get("expirationSeconds")
    wanted = NONE if seconds is None else span(seconds)
    return [
        _name(obj),
        _age(obj, now),
        spec.get("signerName") or NONE,
        spec.get("username", ""),
        wanted,
        state.strip(","),
    ]


def _component(obj: Object, now: datetime) -> list[Any]:
    health: dict[str, Any] = next((each for each in obj.get("conditions", ()) if each.get("type") == "Healthy"), {})
    word = {"True": "Healthy", None: "Unknown"}.get(health.get("status"), "Unhealthy")
    return [_name(obj), word, health.get("message", ""), health.get("error", "")]


def _quota(obj: Object, now: datetime) -> list[Any]:
    hard, used = at(obj, "status.hard", {}), at(obj, "status.used", {})
    limits: list[str] = []
    requests: list[str] = []
    for name in sorted(hard):
        shown = f"{name}: {used.get(name, 0)}/{hard[name]}"
        (limits if name.startswith("limits.") else requests).append(shown)
    return [_name(obj), ", ".join(requests), ", ".join(limits), _age(obj, now)]


_GENERIC: Final[tuple[tuple[dict[str, Any], ...], Cells]] = (_columns("Name, Created At"), _generic)
_KINDS: Final[Mapping[str, tuple[tuple[dict[str, Any], ...], Cells]]] = {
    "CertificateSigningRequest": (
        _columns("Name, Age, SignerName, Requestor, RequestedDuration, Condition"),
        _certificate_request,
    ),
    "ComponentStatus": (_columns("Name, Status, Message, Error"), _component),
    "ConfigMap": _plain("Name, Data, Age", lambda obj: len(obj.get("data", {})) + len(obj.get("binaryData", {}))),
    "EndpointSlice": (_columns("Name, AddressType, Ports, Endpoints, Age"), _endpoint_slice),
    "Endpoints": (_columns("Name, Endpoints, Age"), _endpoints),
    "Event": (
        _columns("Last Seen, Type, Reason, Object, Subobject*, Source*, Message, First Seen*, Count*, Name*"),
        _event,
    ),
    "Lease": _plain("Name, Holder, Age", lambda obj: at(obj, "spec.holderIdentity", "")),
    "Namespace": _plain("Name, Status, Age", lambda obj: at(obj, "status.phase", "")),
    "Node": (
        _columns(
            "Name, Status, Roles, Age, Version, Internal-IP*, External-IP*, OS-Image*, Kernel-Version*, "
            "Container-Runtime*"
        ),
        _node,
    ),
    "PersistentVolume": (
        _columns(
            "Name, Capacity, Access Modes, Reclaim Policy, Status, Claim, StorageClass, VolumeAttributesClass, Reason, "
            "Age, VolumeMode*"
        ),
        _persistent_volume,
    ),
    "PersistentVolumeClaim": (
        _columns("Name, Status, Volume, Capacity, Access Modes, StorageClass, VolumeAttributesClass, Age, VolumeMode*"),
        _claim,
    ),
    "Pod": (
        _columns("Name, Ready, Status, Restarts, Age, IP*, Node*, Nominated Node*, Readiness Gates*"),
        pod_cells,
    ),
    "PriorityClass": (_columns("Name, Value, Global-Default, Age, PreemptionPolicy"), _priority_class),
    "ResourceQuota": (_columns("Name, Request, Limit, Age"), _quota),
    "RuntimeClass": _plain("Name, Handler, Age", lambda obj: obj.get("handler", "")),
    "Secret": _plain("Name, Type, Data, Age", lambda obj: obj.get("type", ""), lambda obj: len(obj.get("data", {}))),
    "Service": (_columns("Name, Type, Cluster-IP, External-IP, Port(s), Age, Selector*"), _service),
    "ServiceAccount": _plain("Name, Secrets, Age", lambda obj: len(obj.get("secrets", ()))),
    "StorageClass": (
        _columns("Name, Provisioner, ReclaimPolicy, VolumeBindingMode, AllowVolumeExpansion, Age"),
        _storage_class,
    ),
}
