"""Nobody gives what he does not have: who writes a role or a binding has all of its rights himself, or the right to
`escalate` the role or to `bind` it."""

from collections.abc import Mapping
from typing import Any, Final

from pykubelet.apiserver import status
from pykubelet.apiserver.objects import Object, at
from pykubelet.apiserver.requests.request_info import RequestInfo
from pykubelet.apiserver.requests.users import MASTERS, User
from pykubelet.apiserver.schema.schema import same
from pykubelet.apiserver.security.rbac.policy import BINDINGS, ROLES, Policy, RoleRef, absent
from pykubelet.apiserver.security.rbac.rules import (
    EVERYTHING,
    GROUP,
    Rule,
    TooMany,
    described,
    quoted,
    rules_of,
    uncovered,
)

_OF_COLLECTOR: Final = ("ownerReferences", "finalizers", "managedFields", "selfLink")
_AGGREGATES: Final = "must have cluster-admin privileges to use the aggregationRule"
_PLACES: Final[Mapping[str, str]] = {"Role": "roles", "ClusterRole": "clusterroles"}


def is_about_rights(info: RequestInfo) -> bool:
    return info.group == GROUP and info.resource in (*ROLES, *BINDINGS)


def check(policy: Policy, user: User, info: RequestInfo, obj: Object, old: Object | None) -> None:
    """That the user may write this role or binding; `old` is None when it is new. Raises 403 and 404."""
    if MASTERS in user.groups or (old is not None and _only_collected(obj, old)):
        return
    if info.resource in ROLES:
        _check_role(policy, user, info, obj, old)
    else:
        _check_binding(policy, user, info, obj)


def _check_role(policy: Policy, user: User, info: RequestInfo, role: Object, old: Object | None) -> None:
    if _may(policy, user, "escalate", info.resource, info.namespace, info.name):
        return
    namespace, name = info.namespace, str(at(role, "metadata.name", ""))
    if why := more_than_held(policy, user, namespace, _readable(role)):
        raise status.forbidden(info.resource, name, why, GROUP)
    aggregates = any(at(each, "aggregationRule.clusterRoleSelectors") for each in (role, old or {}))
    if aggregates and more_than_held(policy, user, namespace, EVERYTHING):
        raise status.forbidden(info.resource, name, _AGGREGATES, GROUP)


def _check_binding(policy: Policy, user: User, info: RequestInfo, binding: Object) -> None:
    namespace = info.namespace
    role = RoleRef(str(at(binding, "roleRef.kind", "")), str(at(binding, "roleRef.name", "")))
    group = str(at(binding, "roleRef.apiGroup", ""))
    place = _PLACES.get(role.kind)
    if place is not None and _may(policy, user, "bind", place, namespace, role.name, group):
        return
    rules = policy.rules_of_role(role, namespace)
    if rules is None:
        if place is None:
            raise status.internal(absent(role))
        raise status.not_found(info.resource, role.name, GROUP)
    if why := more_than_held(policy, user, namespace, rules):
        raise status.forbidden(info.resource, str(at(binding, "metadata.name", "")), why, GROUP)


def _may(policy: Policy, user: User, verb: str, resource: str, namespace: str, name: str, group: str = GROUP) -> bool:
    info = RequestInfo(
        verb, "", is_resource=True, group=group, version="*", resource=resource, namespace=namespace, name=name
    )
    return policy.verdict(user, info).is_allowed


def more_than_held(policy: Policy, user: User, namespace: str, rules: tuple[Rule, ...]) -> str:
    owned, missing = policy.rules(user, namespace)
    try:
        lacking = uncovered(owned, rules)
    except TooMany as error:
        return str(error)
    if not lacking:
        return ""
    listed = "\n".join(described(lacking))
    who = f'user "{user.name}" (groups={quoted(user.groups)})'
    text = f"{who} is attempting to grant RBAC permissions not currently held:\n{listed}"
    return f"{text}; resolution errors: [{' '.join(missing)}]" if missing else text


def _readable(role: Object) -> tuple[Rule, ...]:
    try:
        return rules_of(role)
    except (AttributeError, TypeError) as error:
        raise status.bad_request(f"the rules cannot be read: {error}") from None


def _only_collected(obj: Object, old: Object) -> bool:
    """Whether nothing is changed but what the garbage collector needs."""

    def plain(each: Object) -> dict[str, Any]:
        metadata = {key: value for key, value in each["metadata"].items() if key not in _OF_COLLECTOR}
        return {**each, "metadata": metadata}

    return same(plain(obj), plain(old))
