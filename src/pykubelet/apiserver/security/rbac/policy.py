"""All roles and bindings, by whom they are for: what somebody may do is found without looking at anybody else's.

It is told of every change as the cache learns of it, and never waits. What it cannot read gives nobody anything.
"""

import logging
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from pykubelet.apiserver.objects import UNREADABLE, Object, at
from pykubelet.apiserver.requests.request_info import RequestInfo
from pykubelet.apiserver.requests.users import SERVICE_ACCOUNT_PREFIX, User
from pykubelet.apiserver.security.node_rules import named
from pykubelet.apiserver.security.rbac.rules import GROUP, Rule, allows, rules_of

log = logging.getLogger(__name__)

Place = tuple[str, str]
"""namespace, name; the namespace is empty for what is of the whole cluster"""
Subject = tuple[str, str]
"""`user` or `group`, and its name"""
ROLES: Final = ("roles", "clusterroles")
BINDINGS: Final = ("rolebindings", "clusterrolebindings")


class RoleRef(msgspec.Struct, frozen=True, gc=False):
    kind: str
    name: str


class Grant(msgspec.Struct, frozen=True, gc=False):
    """A role that a binding gives to one subject."""

    binding: Place
    role: RoleRef
    to: str
    """The subject, as an answer names it."""

    def __str__(self) -> str:
        namespace, name = self.binding
        kind, whole = ("RoleBinding", f"{name}/{namespace}") if namespace else ("ClusterRoleBinding", name)
        return f'{kind} "{whole}" of {self.role.kind} "{self.role.name}" to {self.to}'


class Verdict(msgspec.Struct, frozen=True, gc=False):
    is_allowed: bool
    reason: str = ""


class Policy:
    def __init__(self) -> None:
        self._roles: dict[Place, tuple[Rule, ...]] = {}
        self._unread: dict[Place, Object] = {}
        """Roles that nobody has asked for as yet: a large one takes a while to read."""
        self._grants: dict[tuple[str, Subject], dict[str, Grant]] = {}
        """By namespace and subject, and then by the name of the binding."""
        self._subjects: dict[Place, tuple[Subject, ...]] = {}

    # --- what is told

    def tell(self, plural: str, place: Place, obj: Object | None) -> None:
        """Of what is there now; None: nothing."""
        if plural in ROLES:
            self._roles.pop(place, None)
            self._unread.pop(place, None)
            if obj is not None:
                self._unread[place] = obj
            return
        self._forget_binding(place)
        try:
            if obj is not None:
                self._add_binding(place, obj)
        except UNREADABLE as error:
            log.error("%s %s cannot be read, and gives nobody anything: %s", plural, "/".join(place), error)

    def _add_binding(self, place: Place, binding: Object) -> None:
        role = RoleRef(str(at(binding, "roleRef.kind", "")), str(at(binding, "roleRef.name", "")))
        found: dict[Subject, Grant] = {}
        for given in binding.get("subjects") or ():
            subject = _subject(given, place[0])
            if subject is not None:
                found.setdefault(subject, Grant(place, role, _said(given, place[0])))
        for subject, grant in found.items():
            self._grants.setdefault((place[0], subject), {})[place[1]] = grant
        self._subjects[place] = tuple(found)

    def _forget_binding(self, place: Place) -> None:
        for subject in self._subjects.pop(place, ()):
            key = place[0], subject
            grants = self._grants[key]
            del grants[place[1]]
            if not grants:
                del self._grants[key]

    # --- what is asked

    def verdict(self, user: User, info: RequestInfo) -> Verdict:
        name = named(info) if info.verb in ("list", "watch") else info.name
        missing: list[str] = []
        for grant in self.grants(user, info.namespace):
            rules = self.rules_of_role(grant.role, grant.binding[0])
            if rules is None:
                missing.append(absent(grant.role))
                continue
            for rule in rules:
                if allows(rule, info, name):
                    return Verdict(True, f"RBAC: allowed by {grant}")
        return Verdict(False, f"RBAC: {_together(missing)}" if missing else "")

    def rules(self, user: User, namespace: str) -> tuple[list[Rule], list[str]]:
        """-> all that the user may do in a namespace and in the cluster, and what could not be found of it."""
        found: list[Rule] = []
        missing: list[str] = []
        seen: set[Place] = set()
        for grant in self.grants(user, namespace):
            if grant.binding in seen:
                continue
            seen.add(grant.binding)
            rules = self.rules_of_role(grant.role, grant.binding[0])
            if rules is None:
                missing.append(absent(grant.role))
            else:
                found += rules
        return found, missing

    def grants(self, user: User, namespace: str) -> Iterator[Grant]:
        subjects = [("user", user.name), *(("group", group) for group in user.groups)]
        for where in ("", namespace) if namespace else ("",):
            for subject in subjects:
                found = self._grants.get((where, subject))
                if found is not None:
                    yield from found.values()

    def rules_of_role(self, role: RoleRef, namespace: str) -> tuple[Rule, ...] | None:
        """`namespace`: of the binding. None: there is no such role."""
        if role.kind == "ClusterRole":
            return self._rules(("", role.name))
        return self._rules((namespace, role.name)) if role.kind == "Role" and namespace else None

    def _rules(self, place: Place) -> tuple[Rule, ...] | None:
        unread = self._unread.pop(place, None)
        if unread is not None:
            try:
                self._roles[place] = rules_of(unread)
            except UNREADABLE as error:
                log.error("role %s cannot be read, and gives nobody anything: %s", "/".join(place), error)
        return self._roles.get(place)


def absent(role: RoleRef) -> str:
    if role.kind not in ("Role", "ClusterRole"):
        return f'unsupported role reference kind: "{role.kind}"'
    return f'{role.kind.lower()}.{GROUP} "{role.name}" not found'


def _together(faults: list[str]) -> str:
    each = list(dict.fromkeys(faults))
    return each[0] if len(each) == 1 else f"[{', '.join(each)}]"


def _subject(given: Mapping[str, Any], namespace: str) -> Subject | None:
    name = given["name"]
    if not isinstance(name, str):
        raise TypeError(f"the name of a subject is {name!r}")
    match given.get("kind"):
        case "User":
            return "user", name
        case "Group":
            return "group", name
        case "ServiceAccount":
            home = given.get("namespace") or namespace
            return ("user", f"{SERVICE_ACCOUNT_PREFIX}{home}:{name}") if home else None
    return None


def _said(given: Mapping[str, Any], namespace: str) -> str:
    name = given["name"]
    if given["kind"] == "ServiceAccount":
        name = f"{name}/{given.get('namespace') or namespace}"
    return f'{given["kind"]} "{name}"'
