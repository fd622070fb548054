"""What a node may ask for: its own objects, the pods that are bound to it, and what those pods need. Nothing else.

A rule answers with the reason for a refusal, or None when it allows. What depends on the content of a write is decided
in `node_restriction`.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from pykubelet.api.selectors import parse_fields
from pykubelet.apiserver.objects import at
from pykubelet.apiserver.requests.request_info import RequestInfo
from pykubelet.apiserver.security.references import Pods, Volumes
from pykubelet.apiserver.security.tokens import Find

NODE_LEASES: Final = "kube-node-lease"
_READ: Final = ("get", "list", "watch")
_OWN: Final = ("get", "create", "update", "patch", "delete")
_OF_SLICES: Final = ("get", "watch", "list", "create", "update", "patch", "delete", "deletecollection")

Rule = Callable[[str, RequestInfo], Awaitable[str | None]]

# group, resource or resource/subresource -> verbs
PLAIN: Final[Mapping[tuple[str, str], tuple[str, ...]]] = {
    ("authentication.k8s.io", "tokenreviews"): ("create",),
    ("authorization.k8s.io", "subjectaccessreviews"): ("create",),
    ("authorization.k8s.io", "localsubjectaccessreviews"): ("create",),
    ("", "services"): _READ,
    ("", "events"): ("create", "update", "patch"),
    ("events.k8s.io", "events"): ("create", "update", "patch"),
    ("", "endpoints"): ("get",),
    ("discovery.k8s.io", "endpointslices"): ("list", "watch"),  # of services that the node answers for
    ("certificates.k8s.io", "certificatesigningrequests"): ("create", *_READ),
    ("certificates.k8s.io", "clustertrustbundles"): _READ,
    ("node.k8s.io", "runtimeclasses"): _READ,
    ("storage.k8s.io", "csidrivers"): _READ,
}


class NodeRules:
    def __init__(self, pods: Pods, volumes: Volumes, find: Find) -> None:
        self._pods = pods
        self._volumes = volumes
        self._find = find
        self._own: Mapping[tuple[str, str], Rule] = {
            ("", "secrets"): self._secret,
            ("", "configmaps"): self._read_of_pods,
            ("", "persistentvolumeclaims"): self._claim,
            ("", "persistentvolumes"): self._volume,
            ("", "serviceaccounts"): self._service_account,
            ("", "nodes"): self._node,
            ("", "pods"): self._pod,
            ("coordination.k8s.io", "leases"): self._lease,
            ("resource.k8s.io", "resourceclaims"): self._device_claim,
            ("resource.k8s.io", "resourceslices"): self._slice,
            ("storage.k8s.io", "csinodes"): self._csi_node,
            ("storage.k8s.io", "volumeattachments"): self._attachment,
        }

    async def refusal(self, node: str, info: RequestInfo) -> str | None:
        """The reason, which may be empty; None when the node may."""
        rule = self._own.get((info.group, info.resource))
        if rule is not None:
            return await rule(node, info)
        wanted = f"{info.resource}/{info.subresource}" if info.subresource else info.resource
        return None if info.verb in PLAIN.get((info.group, wanted), ()) else ""

    async def _read_of_pods(self, node: str, info: RequestInfo) -> str | None:
        if info.verb not in _READ:
            return "can only read resources of this type"
        if info.subresource:
            return "cannot read subresource"
        if not info.namespace:
            return "can only read namespaced object of this type"
        return await self._is_needed(node, info.resource, info.namespace, named(info))

    async def _secret(self, node: str, info: RequestInfo) -> str | None:
        """Also one that a volume needs to be mounted, wherever it is."""
        refused = await self._read_of_pods(node, info)
        if refused != _unrelated(node):
            return refused
        wanted = info.namespace, named(info)
        for claim in {volume.claim for volume in await self._volumes() if wanted in volume.secrets}:
            if await self._is_needed(node, "persistentvolumeclaims", *claim) is None:
                return None
        return refused

    async def _claim(self, node: str, info: RequestInfo) -> str | None:
        if info.subresource == "status":
            if info.verb not in ("update", "patch"):
                return "can only get/update/patch this type"
            return await self._is_needed(node, info.resource, info.namespace, info.name)
        return _get_only(info) or await self._is_needed(node, info.resource, info.namespace, info.name)

    async def _volume(self, node: str, info: RequestInfo) -> str | None:
        if refused := _get_only(info):
            return refused
        volume = await self._find("", "persistentvolumes", "", info.name)
        claim = at(volume, "spec.claimRef", {})
        if not claim.get("name"):
            return _unrelated(node)
        return await self._is_needed(node, "persistentvolumeclaims", claim.get("namespace", ""), claim["name"])

    async def _service_account(self, node: str, info: RequestInfo) -> str | None:
        if info.verb == "get" and not info.subresource:
            return await self._read_of_pods(node, info)
        if info.verb != "create" or not info.name:
            return "can only create tokens for individual service accounts"
        if info.subresource != "token":
            return "can only create token subresource of serviceaccount"
        return await self._is_needed(node, info.resource, info.namespace, info.name)

    async def _lease(self, node: str, info: RequestInfo) -> str | None:
        if info.verb not in _OWN:
            return "can only get, create, update, patch, or delete a node lease"
        if info.namespace != NODE_LEASES:
            return f'can only access leases in the "{NODE_LEASES}" system namespace'
        if info.verb != "create" and info.name != node:
            return "can only access node lease with the same name as the requesting node"
        return None

    async def _csi_node(self, node: str, info: RequestInfo) -> str | None:
        if info.verb not in _OWN:
            return "can only get, create, update, patch, or delete a CSINode"
        if info.subresource:
            return "cannot authorize CSINode subresources"
        if info.verb != "create" and info.name != node:
            return "can only access CSINode with the same name as the requesting node"
        return None

    async def _attachment(self, node: str, info: RequestInfo) -> str | None:
        if refused := _get_only(info):
            return refused
        found = await self._find("storage.k8s.io", "volumeattachments", "", info.name)
        return None if at(found, "spec.nodeName") == node else _unrelated(node)

    async def _device_claim(self, node: str, info: RequestInfo) -> str | None:
        return _get_only(info) or await self._is_needed(node, info.resource, info.namespace, info.name)

    async def _slice(self, node: str, info: RequestInfo) -> str | None:
        if info.subresource:
            return "cannot authorize ResourceSlice subresources"
        if info.verb == "create":
            return None
        if info.verb in ("get", "update", "patch", "delete"):
            found = await self._find("resource.k8s.io", "resourceslices", "", info.name)
            return None if at(found, "spec.nodeName") == node else _unrelated(node)
        if info.verb not in ("list", "watch", "deletecollection"):
            return f"only the following verbs are allowed for a ResourceSlice: {', '.join(_OF_SLICES)}"
        if _selected(info, "spec.nodeName") == node:
            return None
        return "can only list/watch/deletecollection resourceslices with nodeName field selector"

    async def _node(self, node: str, info: RequestInfo) -> str | None:
        if info.subresource == "status":
            return None if info.verb in ("update", "patch") else ""
        if info.subresource:
            return ""
        if info.verb in ("create", "update", "patch"):
            return None
        if info.verb not in _READ:
            return ""
        name = named(info)
        if name == node:
            return None
        if not name:
            return f"node '{node}' cannot read all nodes, only its own Node object"
        return f"node '{node}' cannot read '{name}', only its own Node object"

    async def _pod(self, node: str, info: RequestInfo) -> str | None:
        match info.subresource, info.verb:
            case ("", "get"):
                return await self._bound(node, info.namespace, info.name)
            case ("", "list" | "watch"):
                if _selected(info, "spec.nodeName") == node:
                    return None
                if name := named(info):
                    return await self._bound(node, info.namespace, name)
                return "can only list/watch pods with spec.nodeName field selector"
            case ("", "create" | "delete") | ("status", "update" | "patch") | ("eviction", "create"):
                return None
        return ""

    async def _bound(self, node: str, namespace: str, name: str) -> str | None:
        pod = await self._find("", "pods", namespace, name) if namespace and name else None
        return None if pod is not None and at(pod, "spec.nodeName") == node else _unrelated(node)

    async def _is_needed(self, node: str, plural: str, namespace: str, name: str) -> str | None:
        if not name:
            return "No Object name found"
        wanted = (plural, name)
        for pod in await self._pods(namespace) if namespace else ():
            if pod.node == node and wanted in pod.references:
                return None
        return _unrelated(node)


def named(info: RequestInfo) -> str:
    """The one object that is asked for, also by a field selector."""
    return info.name or _selected(info, "metadata.name")


def _selected(info: RequestInfo, field: str) -> str:
    try:
        selector = parse_fields(info.field_selector)
    except ValueError:
        return ""
    return next((each.values[0] for each in selector if each.key == field and each.operator == "="), "")


def _get_only(info: RequestInfo) -> str:
    if info.verb != "get":
        return "can only get individual resources of this type"
    return "cannot get subresource" if info.subresource else ""


def _unrelated(node: str) -> str:
    return f"no relationship found between node '{node}' and this object"
