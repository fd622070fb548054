"""Which volume a claim gets, and what both look like then. Pure; names and words are upstream's."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from pykubelet.api.codec import convert
from pykubelet.api.quantity import Quantity
from pykubelet.api.quantity import parse as parse_quantity
from pykubelet.api.rules.node_affinity import term_holds
from pykubelet.api.scheduling import NodeSelectorTerm
from pykubelet.api.selectors import from_json, matches
from pykubelet.apiserver.objects import Object, at
from pykubelet.apiserver.strategies.storage_classes import class_of

BIND_COMPLETED: Final = "pv.kubernetes.io/bind-completed"
BY_CONTROLLER: Final = "pv.kubernetes.io/bound-by-controller"
PROVISIONER: Final = "volume.kubernetes.io/storage-provisioner"
OLD_PROVISIONER: Final = "volume.beta.kubernetes.io/storage-provisioner"
SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"
NO_PROVISIONER: Final = "kubernetes.io/no-provisioner"
DELAYED: Final = "WaitForFirstConsumer"

Labels = Mapping[str, str]


def in_class(claim: Object, name: str) -> Object | None:
    """A claim that says nothing of a class. None: it does."""
    if at(claim, "spec.storageClassName") is not None:
        return None
    return {**claim, "spec": {**claim["spec"], "storageClassName": name}}


def annotation(obj: Object, name: str) -> str:
    found: str = at(obj, "metadata.annotations", {}).get(name, "")
    return found


def size_of(obj: Object) -> Quantity:
    """Of a claim what it asks for, of a volume what it has."""
    amount = at(obj, "spec.capacity.storage") or at(obj, "spec.resources.requests.storage", "0")
    return parse_quantity(str(amount))


def is_for(volume: Object, claim: Object) -> bool:
    """Whether the volume is kept for this claim, by whomever."""
    ref, metadata = at(volume, "spec.claimRef", {}), claim["metadata"]
    if (ref.get("namespace"), ref.get("name")) != (metadata.get("namespace"), metadata["name"]):
        return False
    return ref.get("uid") in (None, "", metadata.get("uid"))


def mismatch(volume: Object, claim: Object) -> str:
    """Why a volume that somebody chose for a claim does not do; empty: it does."""
    if size_of(volume) < size_of(claim):
        return "requested PV is too small"
    if class_of(volume) != class_of(claim):
        return "storageClassName does not match"
    if at(volume, "spec.volumeAttributesClassName", "") != at(claim, "spec.volumeAttributesClassName", ""):
        return "volumeAttributesClassName does not match"
    if _mode(volume) != _mode(claim):
        return "incompatible volumeMode"
    if not set(at(claim, "spec.accessModes", ())) <= set(at(volume, "spec.accessModes", ())):
        return "incompatible accessMode"
    return ""


def best_volume(
    claim: Object,
    volumes: Iterable[Object],
    *,
    delayed: bool = False,
    node: tuple[str, Labels] | None = None,
    taken: frozenset[str] = frozenset(),
) -> Object | None:
    """The smallest that does, with the fewest modes beyond those asked for. `delayed`: only one that is kept for it:
    any other is chosen with its node, and `node` is that node. `taken` are others' by now."""
    found: list[Object] = []
    wanted, size, mode = from_json(at(claim, "spec.selector")), size_of(claim), _mode(claim)
    for volume in volumes:
        if at(volume, "spec.claimRef") and not is_for(volume, claim):
            continue  # most are others', and soon passed over
        if volume["metadata"]["name"] in taken or _mode(volume) != mode:
            continue
        if at(volume, "metadata.deletionTimestamp") or size_of(volume) < size:
            continue
        if node is not None and not reaches(volume, *node):
            continue
        if is_for(volume, claim):
            return volume
        if delayed or at(volume, "spec.claimRef") or at(volume, "status.phase") != "Available":
            continue
        if not matches(wanted, at(volume, "metadata.labels", {})):
            continue
        if not mismatch(volume, claim):
            found.append(volume)
    return min(found, key=_closeness, default=None)


def _closeness(volume: Object) -> tuple[int, Quantity, str]:
    return len(at(volume, "spec.accessModes", ())), size_of(volume), volume["metadata"]["name"]


def reaches(volume: Object, node: str, labels: Labels) -> bool:
    """Whether the volume can be used on a node."""
    terms = at(volume, "spec.nodeAffinity.required.nodeSelectorTerms")
    if terms is None:
        return True
    return any(term_holds(convert(NodeSelectorTerm, term), node, labels) for term in terms)


def _mode(obj: Object) -> str:
    mode: str = at(obj, "spec.volumeMode", "Filesystem")
    return mode


# --- what changes


def reference(claim: Object) -> dict[str, Any]:
    metadata = claim["metadata"]
    return {
        "kind": "PersistentVolumeClaim",
        "apiVersion": "v1",
        "namespace": metadata["namespace"],
        "name": metadata["name"],
        "uid": metadata.get("uid", ""),
        "resourceVersion": metadata.get("resourceVersion", ""),
    }


def kept_for(volume: Object, claim: Object) -> Object | None:
    """The volume, the claim's own. None: it is so already, or somebody else's by now."""
    ref = at(volume, "spec.claimRef", {})
    if ref and not is_for(volume, claim):
        return None
    if ref.get("uid") == claim["metadata"].get("uid"):
        return None
    made = annotated(volume, {} if ref else {BY_CONTROLLER: "yes"})
    return {**made, "spec": {**made["spec"], "claimRef": reference(claim)}}


def let_go(volume: Object, *, wholly: bool) -> Object:
    """No longer that claim's; not `wholly`: one of the same name may have it."""
    spec = {name: value for name, value in volume["spec"].items() if name != "claimRef"}
    if not wholly:
        ref = volume["spec"]["claimRef"]
        spec["claimRef"] = {name: value for name, value in ref.items() if name not in ("uid", "resourceVersion")}
    annotations = {
        name: value for name, value in at(volume, "metadata.annotations", {}).items() if name != BY_CONTROLLER
    }
    return {**volume, "metadata": {**volume["metadata"], "annotations": annotations}, "spec": spec}


def bound_to(claim: Object, volume: Object) -> Object | None:
    """The claim, with its volume; None: it is so already."""
    name, has = volume["metadata"]["name"], at(claim, "spec.volumeName", "")
    if has not in ("", name) or (has and annotation(claim, BIND_COMPLETED)):
        return None
    made = annotated(claim, {BIND_COMPLETED: "yes", **({} if has else {BY_CONTROLLER: "yes"})})
    return {**made, "spec": {**made["spec"], "volumeName": name}}


def bound_status(claim: Object, volume: Object) -> Object | None:
    """None: it says so already."""
    status = claim.get("status") or {}
    wanted = {**status, "phase": "Bound", "accessModes": at(volume, "spec.accessModes", [])}
    if status.get("phase") != "Bound":  # later it is for whoever makes it larger
        wanted["capacity"] = at(volume, "spec.capacity", {})
        if attributes := at(volume, "spec.volumeAttributesClassName", ""):
            wanted["currentVolumeAttributesClassName"] = attributes
    return None if wanted == status else {**claim, "status": wanted}


def in_phase(obj: Object, phase: str, now: str = "", message: str = "") -> Object | None:
    """None: it is in it."""
    status = obj.get("status") or {}
    if status.get("phase") == phase and status.get("message", "") == message:
        return None
    made = {name: value for name, value in status.items() if name != "message"} | {"phase": phase}
    if message:
        made["message"] = message
    if now and status.get("phase") != phase:
        made["lastPhaseTransitionTime"] = now
    return {**obj, "status": made}


def annotated(obj: Object, more: Mapping[str, str]) -> Object:
    metadata = obj["metadata"]
    return {**obj, "metadata": {**metadata, "annotations": {**metadata.get("annotations", {}), **more}}}


# --- who uses what


def claim_names(pod: Object) -> tuple[str, ...]:
    """Those of a pod's volumes, also of such as are the pod's own."""
    named = (at(volume, "persistentVolumeClaim.claimName", "") for volume in at(pod, "spec.volumes", ()))
    return (*(name for name in named if name), *own_claim_names(pod))


def own_claim_names(pod: Object) -> Iterator[str]:
    """Those that are made for the pod, and go with it."""
    for volume in at(pod, "spec.volumes", ()):
        if volume.get("ephemeral") is not None:
            yield f"{pod['metadata']['name']}-{volume['name']}"


def waiting_for(pod: Object) -> tuple[str, str, tuple[str, ...]] | None:
    """Namespace and name of a pod that has no node yet, and its claims; None: it has one, or needs no claim."""
    names = () if at(pod, "spec.nodeName") else claim_names(pod)
    return (pod["metadata"].get("namespace", ""), pod["metadata"]["name"], names) if names else None
