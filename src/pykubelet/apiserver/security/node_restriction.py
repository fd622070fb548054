"""What a node may write: where its content decides, a node changes only what is about itself and its own pods.

Each check answers with the reason for a refusal, or an empty text.
"""

import base64
import binascii
from collections.abc import Mapping
from typing import Any, Final

from cryptography import x509
from cryptography.x509.oid import NameOID

from pykubelet.api.rules.well_known import CLIENT_SIGNER, KUBELET_LABELS, MIRROR_ANNOTATION, SERVING_SIGNER
from pykubelet.apiserver.objects import Object, at
from pykubelet.apiserver.requests.request_info import RequestInfo
from pykubelet.apiserver.requests.users import NODE_PREFIX
from pykubelet.apiserver.security.node_rules import NODE_LEASES
from pykubelet.apiserver.security.references import api_reference
from pykubelet.apiserver.security.token_audiences import May, audience_fault
from pykubelet.apiserver.security.tokens import Find

_RESTRICTED: Final = "node-restriction.kubernetes.io"
_NODE_LABEL_SPACES: Final = ("kubelet.kubernetes.io", "node.kubernetes.io")
_CREATES: Final = ("create",)
_CHANGES: Final = ("update", "patch")


async def _may_not(right: RequestInfo) -> bool:
    return False


async def fault(
    node: str, info: RequestInfo, body: Object | None, live: Object | None, find: Find, may: May = _may_not
) -> str:
    """`body` is the object as it would be stored, `live` the one that it would replace; `may`: what roles give."""
    verb = "create" if info.verb in _CHANGES and live is None else info.verb  # an update may create
    match info.group, info.resource:
        case ("", "pods"):
            return await _pod(node, info, verb, body or {}, live, find)
        case ("", "nodes"):
            return _node(node, info, verb, body or {}, live or {})
        case ("", "persistentvolumeclaims"):
            return _claim(node, info, body or {}, live or {})
        case ("", "serviceaccounts"):
            return await _token(node, info, body or {}, find, may)
        case ("coordination.k8s.io", "leases"):
            name = at(body, "metadata.name", "") if verb == "create" else info.name
            if info.namespace != NODE_LEASES:
                return f'can only access leases in the "{NODE_LEASES}" system namespace'
            return "" if name == node else "can only access node lease with the same name as the requesting node"
        case ("storage.k8s.io", "csinodes"):
            name = at(body, "metadata.name", "") if verb == "create" else info.name
            return "" if name == node else "can only access CSINode with the same name as the requesting node"
        case ("resource.k8s.io", "resourceslices"):
            return _slice(node, verb, body or {}, live or {})
        case ("certificates.k8s.io", "certificatesigningrequests"):
            return _request(node, body or {}) if verb == "create" else ""
    return ""


async def _pod(node: str, info: RequestInfo, verb: str, body: Object, live: Object | None, find: Find) -> str:
    bound = at(live, "spec.nodeName", "")
    match info.subresource, verb:
        case ("", "create"):
            return await _mirror_pod(node, body, find)
        case ("", "delete"):
            return "" if bound == node else f'node "{node}" can only delete pods with spec.nodeName set to itself'
        case ("", _):
            return f'unexpected operation "{verb.upper()}", node "{node}" can only create and delete mirror pods'
        case ("status", "update" | "patch"):
            return _pod_status(node, body, live or {})
        case ("eviction", "create"):
            pod = live if live and live.get("kind") == "Pod" else await find("", "pods", info.namespace, info.name)
            ours = at(pod, "spec.nodeName") == node
            return "" if ours else f"node {node} can only evict pods with spec.nodeName set to itself"
        case ("status" | "eviction", _):
            return f'unexpected operation "{verb.upper()}"'
    return f"unexpected pod subresource \"{info.subresource}\", only 'status' and 'eviction' are allowed"


async def _mirror_pod(node: str, pod: Object, find: Find) -> str:
    if MIRROR_ANNOTATION not in at(pod, "metadata.annotations", {}):
        return f'pod does not have "{MIRROR_ANNOTATION}" annotation, node "{node}" can only create mirror pods'
    if at(pod, "spec.nodeName") != node:
        return f'node "{node}" can only create pods with spec.nodeName set to itself'
    owners = at(pod, "metadata.ownerReferences", [])
    if len(owners) > 1:
        return f'node "{node}" can only create pods with a single owner reference set to itself'
    owner: Mapping[str, Any] = owners[0] if owners else {}
    if (owner.get("apiVersion"), owner.get("kind"), owner.get("name")) != ("v1", "Node", node):
        return f'node "{node}" can only create pods with an owner reference set to itself'
    if not owner.get("controller"):
        return f'node "{node}" can only create pods with a controller owner reference set to itself'
    if owner.get("blockOwnerDeletion"):
        return f'node "{node}" must not set blockOwnerDeletion on an owner reference'
    there = await find("", "nodes", "", node)
    if there is None:
        return f'nodes "{node}" not found'
    if owner.get("uid") != at(there, "metadata.uid"):
        return f"node {node} UID mismatch: expected {owner.get('uid')} got {at(there, 'metadata.uid')}"
    if found := api_reference(pod):
        return f'node "{node}" can not create pods that reference {found}'
    return ""


def _pod_status(node: str, body: Object, live: Object) -> str:
    if at(live, "spec.nodeName") != node:
        return f'node "{node}" can only update pod status for pods with spec.nodeName set to itself'  # noqa: S608 - a sentence
    if at(body, "metadata.labels", {}) != at(live, "metadata.labels", {}):
        return f'node "{node}" cannot update labels through pod status'
    for field, words in (
        ("resourceClaimStatuses", "resource claim statues"),
        ("extendedResourceClaimStatus", "extended resource claim status"),
    ):
        if at(body, f"status.{field}") != at(live, f"status.{field}"):
            return f'node "{node}" cannot update {words}'
    return ""


def _node(node: str, info: RequestInfo, verb: str, body: Object, live: Object) -> str:
    name = info.name or at(body, "metadata.name", "")
    if name != node:
        return f'node "{node}" is not allowed to modify node "{name}"'
    if verb not in (*_CREATES, *_CHANGES):
        return ""
    labels = forbidden_labels(at(body, "metadata.labels", {}), at(live, "metadata.labels", {}))
    source = at(body, "spec.configSource")
    if verb == "create":
        if source is not None:
            return f'node "{node}" is not allowed to create pods with a non-nil configSource'
        if labels:
            return f'node "{node}" is not allowed to set the following labels: {", ".join(labels)}'
        return ""
    if source is not None and source != at(live, "spec.configSource"):
        return f'node "{node}" is not allowed to update configSource to a new non-nil configSource'
    if at(body, "spec.taints", []) != at(live, "spec.taints", []):
        return f'node "{node}" is not allowed to modify taints'
    if at(body, "metadata.ownerReferences", []) != at(live, "metadata.ownerReferences", []):
        return f'node "{node}" is not allowed to modify ownerReferences'
    return f"is not allowed to modify labels: {', '.join(labels)}" if labels else ""


def forbidden_labels(new: Mapping[str, str], old: Mapping[str, str]) -> list[str]:
    """Those of the labels that differ which a node must not touch: they would steer pods to it."""
    differ = [key for key in sorted({*new, *old}) if new.get(key) != old.get(key)]
    return [key for key in differ if _is_restricted(key)]


def _is_restricted(key: str) -> bool:
    space = key.partition("/")[0] if "/" in key else ""
    if _is_within(space, _RESTRICTED):
        return True
    is_kubernetes = _is_within(space, "kubernetes.io") or _is_within(space, "k8s.io")
    is_for_nodes = key in KUBELET_LABELS or any(_is_within(space, each) for each in _NODE_LABEL_SPACES)
    return is_kubernetes and not is_for_nodes


def _is_within(space: str, domain: str) -> bool:
    return space == domain or space.endswith(f".{domain}")


def _slice(node: str, verb: str, body: Object, live: Object) -> str:
    """That an update leaves a slice where it is, its own rules say."""
    verb = "delete" if verb == "deletecollection" else verb
    about = {"create": body, "delete": live}.get(verb)
    if about is None or at(about, "spec.nodeName") == node:
        return ""
    return f"can only {verb} ResourceSlice with the same NodeName as the requesting node"


def _claim(node: str, info: RequestInfo, body: Object, live: Object) -> str:
    if info.subresource != "status":
        return "may only update PVC status"
    if _without_amounts(body) != _without_amounts(live):
        return f'node "{node}" is not allowed to update fields other than status.quantity and status.conditions'
    return ""


def _without_amounts(claim: Object) -> Object:
    amounts = ("capacity", "conditions", "allocatedResources", "allocatedResourceStatuses")
    metadata = {k: v for k, v in at(claim, "metadata", {}).items() if k not in ("resourceVersion", "managedFields")}
    status = {k: v for k, v in at(claim, "status", {}).items() if k not in amounts}
    return {**claim, "metadata": metadata, "status": status}


async def _token(node: str, info: RequestInfo, body: Object, find: Find, may: May) -> str:
    if info.verb != "create" or info.subresource != "token":
        return ""
    reference = at(body, "spec.boundObjectRef", {})
    if reference.get("apiVersion") != "v1" or reference.get("kind") != "Pod" or not reference.get("name"):
        return "node requested token not bound to a pod"
    if not reference.get("uid"):
        return "node requested token with a pod binding without a uid"
    pod = await find("", "pods", info.namespace, reference["name"])
    if pod is None:
        return f'pods "{reference["name"]}" not found'
    if at(pod, "metadata.uid") != reference["uid"]:
        return (
            f"the UID in the bound object reference ({reference['uid']}) does not match the UID in record. "
            "The object might have been deleted and then recreated"
        )
    if at(pod, "spec.nodeName") != node:
        return "node requested token bound to a pod scheduled on a different node"
    return await audience_fault(node, info, at(body, "spec.audiences", []), pod, find, may)


def _request(node: str, body: Object) -> str:
    if at(body, "spec.signerName") not in (SERVING_SIGNER, CLIENT_SIGNER):
        return ""
    try:
        pem = base64.b64decode(at(body, "spec.request", ""), validate=True)
        names = x509.load_pem_x509_csr(pem).subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    except (ValueError, binascii.Error):
        return "unable to parse csr"
    if [each.value for each in names] != [f"{NODE_PREFIX}{node}"]:
        return f"can only create a node CSR with CN={NODE_PREFIX}{node}"
    return ""
