"""Who may do what. Four kinds of users have rights: masters, nodes, whoever brings a bootstrap token, and the server
itself when it comes to a kubelet, which asks us whether it may.

Everybody who is somebody may find out what the server has, and what he may do himself.
"""

from typing import Any, Final

from pykubelet.apiserver import status
from pykubelet.apiserver.requests.request_info import RequestInfo
from pykubelet.apiserver.requests.users import (
    AUTHENTICATED,
    BOOTSTRAPPERS,
    KUBELET_CLIENT,
    MASTERS,
    SERVICE_ACCOUNTS,
    User,
    node_name,
)
from pykubelet.apiserver.security.node_rules import PLAIN, NodeRules
from pykubelet.apiserver.status import ApiError

CERTIFICATES: Final = "certificates.k8s.io"
PUBLIC_PATHS: Final = ("/healthz", "/livez", "/readyz", "/version")
_DISCOVERY: Final = (*PUBLIC_PATHS, "/api", "/apis", "/openapi")
_BELOW: Final = ("/api/", "/apis/", "/healthz/", "/livez/", "/readyz/", "/openapi/", "/version/")
_ISSUER: Final = ("/.well-known/openid-configuration", "/openid/v1/jwks")
_READ: Final = ("get", "list", "watch")
_READ_PATHS: Final = ("get", "head", "options")
_SELF: Final = (
    ("authentication.k8s.io", "selfsubjectreviews"),
    ("authorization.k8s.io", "selfsubjectaccessreviews"),
    ("authorization.k8s.io", "selfsubjectrulesreviews"),
)
_BOOTSTRAP_VERBS: Final = ("create", "get", "list", "watch")
_KUBELET_PARTS: Final = ("configz", "healthz", "log", "metrics", "pods", "proxy", "stats")
"""What the API of a kubelet consists of, as rights to a node: upstream's role system:kubelet-api-admin."""


class Authorizer:
    def __init__(self, nodes: NodeRules) -> None:
        self._nodes = nodes

    async def refusal(self, user: User, info: RequestInfo) -> str | None:
        """The reason, which may be empty; None when the user may."""
        if MASTERS in user.groups or is_public(info):
            return None
        if AUTHENTICATED not in user.groups:
            return ""
        if _everybody_may(info):
            return None
        if not info.is_resource:
            may = info.verb in _READ_PATHS and info.path in _ISSUER and SERVICE_ACCOUNTS in user.groups
            return None if may else ""
        node = node_name(user)
        if node is not None:
            if not node:
                return f'unknown node for user "{user.name}"'
            if _asks_for_its_certificate(info):
                return None
            return await self._nodes.refusal(node, info)
        if BOOTSTRAPPERS in user.groups and _bootstrapper_may(info):
            return None
        if user.name == KUBELET_CLIENT and _kubelet_client_may(info):
            return None
        return ""

    def rules(self, user: User) -> dict[str, Any]:
        """All that a user may do in any namespace, as the status of a SelfSubjectRulesReview."""
        resources: list[dict[str, Any]] = []
        paths: list[dict[str, Any]] = []
        incomplete, problem = False, ""
        if MASTERS in user.groups:
            resources.append(_rule(("*",), ("*",), ("*",)))
            paths.append({"verbs": ["*"], "nonResourceURLs": ["*"]})
        if AUTHENTICATED in user.groups:
            for group, plural in _SELF:
                resources.append(_rule(("create",), (group,), (plural,)))
            everything = [*_DISCOVERY, *(f"{each}*" for each in _BELOW)]
            paths.append({"verbs": ["get"], "nonResourceURLs": sorted(everything)})
        if node_name(user) is not None:
            incomplete, problem = True, "node authorizer does not support user rule resolution"
            resources += [_rule(verbs, (group,), (plural,)) for (group, plural), verbs in PLAIN.items()]
        elif BOOTSTRAPPERS in user.groups:
            resources.append(_rule(_BOOTSTRAP_VERBS, (CERTIFICATES,), ("certificatesigningrequests",)))
        elif user.name == KUBELET_CLIENT:
            resources.append(_rule(_READ, ("",), ("nodes",)))
            resources.append(_rule(("*",), ("",), tuple(f"nodes/{part}" for part in _KUBELET_PARTS)))
        found: dict[str, Any] = {"resourceRules": resources, "nonResourceRules": paths, "incomplete": incomplete}
        return {**found, "evaluationError": problem} if problem else found


def is_public(info: RequestInfo) -> bool:
    """What anybody may see, even without saying who he is."""
    path = info.path.rstrip("/") or "/"
    below = any(path.startswith(f"{each}/") for each in PUBLIC_PATHS)
    return not info.is_resource and info.verb in _READ_PATHS and (path in PUBLIC_PATHS or below)


def sentence(user: User, info: RequestInfo, reason: str) -> str:
    """What a refusal says after `... is forbidden: `."""
    if not info.is_resource:
        words = f'User "{user.name}" cannot {info.verb} path "{info.path}"'
    else:
        resource = f"{info.resource}/{info.subresource}" if info.subresource else info.resource
        where = f'in the namespace "{info.namespace}"' if info.namespace else "at the cluster scope"
        words = f'User "{user.name}" cannot {info.verb} resource "{resource}" in API group "{info.group}" {where}'
    return f"{words}: {reason}" if reason else words


def forbidden(info: RequestInfo, text: str) -> ApiError:
    """The answer to a request that was refused with this sentence."""
    if info.is_resource:
        return status.forbidden(info.resource, info.name, text, info.group)
    return ApiError(403, "Forbidden", f"forbidden: {text}", {})


def _everybody_may(info: RequestInfo) -> bool:
    if info.is_resource:
        return info.verb == "create" and not info.subresource and (info.group, info.resource) in _SELF
    path = info.path if info.path == "/" else info.path.rstrip("/")
    return info.verb in _READ_PATHS and (path in _DISCOVERY or info.path.startswith(_BELOW))


def _asks_for_its_certificate(info: RequestInfo) -> bool:
    """The permission that the approval of certificates asks for."""
    is_request = (info.group, info.resource) == (CERTIFICATES, "certificatesigningrequests")
    return is_request and info.verb == "create" and info.subresource == "selfnodeclient"


def _bootstrapper_may(info: RequestInfo) -> bool:
    if (info.group, info.resource) != (CERTIFICATES, "certificatesigningrequests"):
        return False
    if info.subresource:
        return info.verb == "create" and info.subresource == "nodeclient"
    return info.verb in _BOOTSTRAP_VERBS


def _kubelet_client_may(info: RequestInfo) -> bool:
    if (info.group, info.resource) != ("", "nodes"):
        return False
    return info.subresource in _KUBELET_PARTS if info.subresource else info.verb in _READ


def _rule(verbs: tuple[str, ...], groups: tuple[str, ...], resources: tuple[str, ...]) -> dict[str, Any]:
    return {"verbs": list(verbs), "apiGroups": list(groups), "resources": list(resources)}
