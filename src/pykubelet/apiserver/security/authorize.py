"""Who may do what: masters everything, nodes what the rules for nodes say, and everybody what roles give him."""

from typing import Any, Final

from pykubelet.apiserver import status
from pykubelet.apiserver.requests.request_info import RequestInfo
from pykubelet.apiserver.requests.users import MASTERS, User, node_name
from pykubelet.apiserver.security.node_rules import NodeRules
from pykubelet.apiserver.security.rbac.policy import Policy, Verdict
from pykubelet.apiserver.status import ApiError

_ALLOWED: Final = Verdict(True)


class Authorizer:
    def __init__(self, nodes: NodeRules, policy: Policy) -> None:
        self._nodes = nodes
        self._policy = policy

    async def verdict(self, user: User, info: RequestInfo) -> Verdict:
        """Whether the user may, and why or why not, as far as there is something to say about it."""
        if MASTERS in user.groups:
            return _ALLOWED
        node, said = node_name(user), ""
        if node is not None:
            reason = await self._of_node(user, node, info)
            if reason is None:
                return _ALLOWED
            said = reason
        found = self._policy.verdict(user, info)
        if found.is_allowed or not said:
            return found
        return Verdict(False, "\n".join(filter(None, (said, found.reason))))

    async def _of_node(self, user: User, node: str, info: RequestInfo) -> str | None:
        """The reason for a refusal, which may be empty; None: it may."""
        if not node:
            return f'unknown node for user "{user.name}"'
        return await self._nodes.refusal(node, info) if info.is_resource else ""

    def rules(self, user: User, namespace: str) -> dict[str, Any]:
        """All that a user may do in a namespace, as the status of a SelfSubjectRulesReview."""
        found, faults = self._policy.rules(user, namespace)
        resources: list[dict[str, Any]] = []
        paths: list[dict[str, Any]] = []
        for rule in found:
            if rule.resources:
                named = {"resourceNames": list(rule.names)} if rule.names else {}
                what = {"apiGroups": list(rule.groups), "resources": list(rule.resources)}
                resources.append({"verbs": list(rule.verbs), **what, **named})
            if rule.paths:
                paths.append({"verbs": list(rule.verbs), "nonResourceURLs": list(rule.paths)})
        is_node = node_name(user) is not None
        if is_node:
            faults = ["node authorizer does not support user rule resolution", *faults]
        answer: dict[str, Any] = {"resourceRules": resources, "nonResourceRules": paths, "incomplete": is_node}
        return {**answer, "evaluationError": ", ".join(faults)} if faults else answer


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
