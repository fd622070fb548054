"""Requests and grants are judged by roles and bindings as upstream judges them."""

from typing import Any

from kit.vectors import Case, replay
from pykubelet.apiserver.requests.request_info import RequestInfo
from pykubelet.apiserver.requests.users import User
from pykubelet.apiserver.security.rbac.escalation import more_than_held
from pykubelet.apiserver.security.rbac.policy import Policy
from pykubelet.apiserver.security.rbac.rules import rule_of

_FIELDS = {"Roles": "roles", "ClusterRoles": "clusterroles"}
_FIELDS |= {"RoleBindings": "rolebindings", "ClusterRoleBindings": "clusterrolebindings"}


def of_case(case: Case) -> Policy:
    policy = Policy()
    for field, plural in _FIELDS.items():
        for obj in case[field]:
            metadata = obj["metadata"]
            policy.tell(plural, (metadata.get("namespace", ""), metadata["name"]), obj)
    return policy


def asked(request: dict[str, Any]) -> RequestInfo:
    names = ("Group", "Resource", "Subresource", "Namespace", "Name")
    given = {name.lower(): request.get(name, "") for name in names}
    return RequestInfo(request["Verb"], request.get("Path", ""), is_resource=request["IsResource"], **given)


def difference(case: Case) -> str:
    policy, rules = of_case(case), tuple(map(rule_of, case["Given"]))
    for number, request in enumerate(case["Requests"]):
        user, info = User(request["User"], tuple(request["Groups"])), asked(request)
        if policy.verdict(user, info).is_allowed != case["Allowed"][number]:
            return f"{request}: {policy.verdict(user, info)}"
        said = more_than_held(policy, user, info.namespace, rules).partition("; resolution errors")[0]
        if said != case["Grants"][number].partition("; resolution errors")[0]:
            return f"{request}: {said}"
    return ""


def test_requests_and_grants_are_judged_as_upstream_judges_them() -> None:
    replay("rbac", difference)
