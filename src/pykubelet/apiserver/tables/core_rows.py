"""The rows of the core kinds, and of those that belong to pods, nodes and volumes."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

from pykubelet.api.durations import UNKNOWN, ago, span
from pykubelet.api.rules.well_known import DEFAULT_CLASS_ANNOTATION, OLD_CLASS_ANNOTATION
from pykubelet.apiserver.objects import Object, at
from pykubelet.apiserver.tables.columns import (
    NONE,
    UNSET,
    Printers,
    age,
    columns,
    containers,
    labels,
    name,
    plain,
    some,
)
from pykubelet.apiserver.tables.pod_rows import pod_cells


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
    head = [name(obj), ",".join(state), shown, age(obj, now), info.get("kubeletVersion", "")]
    system = [info.get(each) or UNKNOWN for each in ("osImage", "kernelVersion", "containerRuntimeVersion")]
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
        name(obj),
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
    return {**obj, **{core: obj[new] for core, new in renamed.items() if new in obj}}


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
    return [name(obj), kind, address, external, ",".join(ports) or NONE, age(obj, now), labels(spec.get("selector"))]


def _endpoints(obj: Object, now: datetime) -> list[Any]:
    found: list[str] = []
    for subset in obj.get("subsets", ()):
        hosts = [each.get("ip", "") for each in subset.get("addresses", ())]
        ports = [port.get("port", 0) for port in subset.get("ports", ())]
        found += [f"[{ip}]:{port}" if ":" in ip else f"{ip}:{port}" for port in ports for ip in hosts] or hosts
    return [name(obj), some(found, "") if obj.get("subsets") else NONE, age(obj, now)]


def _endpoint_slice(obj: Object, now: datetime) -> list[Any]:
    ports = [str(each.get("port") or each.get("name") or "*") for each in obj.get("ports") or ()]
    hosts = [ip for each in obj.get("endpoints") or () for ip in each.get("addresses", ())]
    return [name(obj), obj.get("addressType", ""), some(ports, UNSET), some(hosts, UNSET), age(obj, now)]


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
        name(obj),
        str(at(spec, "capacity.storage", "0")),
        _modes(spec.get("accessModes", ())),
        spec.get("persistentVolumeReclaimPolicy", ""),
        _volume_phase(obj),
        bound,
        _class(obj),
        spec.get("volumeAttributesClassName", UNSET),
        at(obj, "status.reason", ""),
        age(obj, now),
        spec.get("volumeMode", UNSET),
    ]


def _claim(obj: Object, now: datetime) -> list[Any]:
    spec = obj.get("spec", {})
    volume = spec.get("volumeName", "")
    return [
        name(obj),
        _volume_phase(obj),
        volume,
        str(at(obj, "status.capacity", {}).get("storage", "0")) if volume else "",
        _modes(at(obj, "status.accessModes", ())) if volume else "",
        _class(obj),
        spec.get("volumeAttributesClassName", UNSET),
        age(obj, now),
        spec.get("volumeMode", UNSET),
    ]


def _priority_class(obj: Object, now: datetime) -> list[Any]:
    policy = obj.get("preemptionPolicy", "")
    return [name(obj), obj.get("value", 0), bool(obj.get("globalDefault")), age(obj, now), policy]


def _storage_class(obj: Object, now: datetime) -> list[Any]:
    default = at(obj, "metadata.annotations", {}).get(DEFAULT_CLASS_ANNOTATION) == "true"
    return [
        f"{name(obj)} (default)" if default else name(obj),
        obj.get("provisioner", ""),
        obj.get("reclaimPolicy", "Delete"),
        obj.get("volumeBindingMode", "Immediate"),
        bool(obj.get("allowVolumeExpansion")),
        age(obj, now),
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
        name(obj),
        age(obj, now),
        spec.get("signerName") or NONE,
        spec.get("username", ""),
        wanted,
        state.strip(","),
    ]


def _component(obj: Object, now: datetime) -> list[Any]:
    health: dict[str, Any] = next((each for each in obj.get("conditions", ()) if each.get("type") == "Healthy"), {})
    word = {"True": "Healthy", None: "Unknown"}.get(health.get("status"), "Unhealthy")
    return [name(obj), word, health.get("message", ""), health.get("error", "")]


def _quota(obj: Object, now: datetime) -> list[Any]:
    hard, used = at(obj, "status.hard", {}), at(obj, "status.used", {})
    limits: list[str] = []
    requests: list[str] = []
    for each in sorted(hard):
        shown = f"{each}: {used.get(each, 0)}/{hard[each]}"
        (limits if each.startswith("limits.") else requests).append(shown)
    return [name(obj), ", ".join(requests), ", ".join(limits), age(obj, now)]


def _pod_template(obj: Object, now: datetime) -> list[Any]:
    template = obj.get("template", {})
    return [name(obj), *containers(template), labels(at(template, "metadata.labels"))]


_EVENT_COLUMNS: Final = columns(
    "Last Seen, Type, Reason, Object, Subobject*, Source*, Message, First Seen*, Count*, Name!*"
)
PRINTERS: Final[Printers] = {
    ("certificates.k8s.io", "CertificateSigningRequest"): (
        columns("Name, Age, SignerName, Requestor, RequestedDuration, Condition"),
        _certificate_request,
    ),
    ("", "ComponentStatus"): (columns("Name, Status, Message, Error"), _component),
    ("", "ConfigMap"): plain("Name, Data, Age", lambda obj: len(obj.get("data", {})) + len(obj.get("binaryData", {}))),
    ("discovery.k8s.io", "EndpointSlice"): (columns("Name, AddressType, Ports, Endpoints, Age"), _endpoint_slice),
    ("", "Endpoints"): (columns("Name, Endpoints, Age"), _endpoints),
    ("", "Event"): (_EVENT_COLUMNS, _event),
    ("coordination.k8s.io", "Lease"): plain("Name, Holder, Age", lambda obj: at(obj, "spec.holderIdentity", "")),
    ("", "Namespace"): plain("Name, Status, Age", lambda obj: at(obj, "status.phase", "")),
    ("", "Node"): (
        columns(
            "Name, Status, Roles, Age, Version, Internal-IP*, External-IP*, OS-Image*, Kernel-Version*, "
            "Container-Runtime*"
        ),
        _node,
    ),
    ("", "PersistentVolume"): (
        columns(
            "Name, Capacity, Access Modes, Reclaim Policy, Status, Claim, StorageClass, VolumeAttributesClass, Reason, "
            "Age, VolumeMode*"
        ),
        _persistent_volume,
    ),
    ("", "PersistentVolumeClaim"): (
        columns("Name, Status, Volume, Capacity, Access Modes, StorageClass, VolumeAttributesClass, Age, VolumeMode*"),
        _claim,
    ),
    ("", "Pod"): (
        columns("Name, Ready, Status, Restarts, Age, IP*, Node*, Nominated Node*, Readiness Gates*"),
        pod_cells,
    ),
    ("scheduling.k8s.io", "PriorityClass"): (
        columns("Name, Value#, Global-Default?, Age, PreemptionPolicy"),
        _priority_class,
    ),
    ("", "ResourceQuota"): (columns("Name, Request, Limit, Age"), _quota),
    ("node.k8s.io", "RuntimeClass"): plain("Name, Handler, Age", lambda obj: obj.get("handler", "")),
    ("", "Secret"): plain(
        "Name, Type, Data, Age", lambda obj: obj.get("type", ""), lambda obj: len(obj.get("data", {}))
    ),
    ("", "Service"): (columns("Name, Type, Cluster-IP, External-IP, Port(s), Age, Selector*"), _service),
    ("", "ServiceAccount"): plain("Name, Secrets, Age", lambda obj: len(obj.get("secrets", ()))),
    ("storage.k8s.io", "StorageClass"): (
        columns("Name, Provisioner, ReclaimPolicy, VolumeBindingMode, AllowVolumeExpansion, Age"),
        _storage_class,
    ),
    ("", "PodTemplate"): (columns("Name, Containers, Images, Pod Labels"), _pod_template),
    ("events.k8s.io", "Event"): (_EVENT_COLUMNS, _event),
}
