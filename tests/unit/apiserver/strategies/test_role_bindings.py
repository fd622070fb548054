"""Bindings of roles."""

from typing import Any

import pytest

from kit.strategies import faults, made, strategy_of

GROUP = "rbac.authorization.k8s.io"
BINDINGS, CLUSTER_BINDINGS = strategy_of(GROUP, "rolebindings"), strategy_of(GROUP, "clusterrolebindings")
ROLE = {"kind": "ClusterRole", "name": "view"}
USER = {"kind": "User", "name": "bob"}


def test_the_group_of_roles_and_people_is_filled_in() -> None:
    account = {"kind": "ServiceAccount", "name": "robot"}
    binding = made(BINDINGS, roleRef=ROLE, subjects=[USER, account])
    assert binding["roleRef"]["apiGroup"] == GROUP
    assert [each.get("apiGroup", "") for each in binding["subjects"]] == [GROUP, ""]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ({"roleRef": ROLE, "subjects": [USER]}, []),
        ({"roleRef": ROLE}, []),
        ({"roleRef": {**ROLE, "kind": "Role"}}, []),
        ({"roleRef": {**ROLE, "kind": "Group"}}, ["roleRef.kind"]),
        ({"roleRef": {**ROLE, "name": ""}}, ["roleRef.name"]),
        ({"roleRef": {**ROLE, "name": "a/b"}}, ["roleRef.name"]),
        ({"roleRef": {**ROLE, "apiGroup": "apps"}}, ["roleRef.apiGroup"]),
        ({"roleRef": ROLE, "subjects": [{"kind": "User", "name": ""}]}, ["subjects[0].name"]),
        ({"roleRef": ROLE, "subjects": [{"kind": "Pod", "name": "x"}]}, ["subjects[0].kind"]),
        ({"roleRef": ROLE, "subjects": [{**USER, "apiGroup": "apps"}]}, ["subjects[0].apiGroup"]),
        ({"roleRef": ROLE, "subjects": [{"kind": "ServiceAccount", "name": "A b"}]}, ["subjects[0].name"]),
        ({"roleRef": ROLE, "subjects": [{"kind": "ServiceAccount", "name": "a"}]}, []),
    ],
)
def test_what_a_binding_says(content: dict[str, Any], expected: list[str]) -> None:
    assert faults(BINDINGS, made(BINDINGS, **content)) == expected


def test_a_binding_of_the_cluster_takes_cluster_roles_and_says_where_accounts_are() -> None:
    content: dict[str, Any] = {
        "roleRef": {**ROLE, "kind": "Role"},
        "subjects": [{"kind": "ServiceAccount", "name": "a"}],
    }
    assert faults(CLUSTER_BINDINGS, made(CLUSTER_BINDINGS, **content)) == ["roleRef.kind", "subjects[0].namespace"]


def test_the_role_of_a_binding_stays() -> None:
    old = made(BINDINGS, roleRef=ROLE)
    assert faults(BINDINGS, made(BINDINGS, roleRef=ROLE, subjects=[USER]), old) == []
    assert faults(BINDINGS, made(BINDINGS, roleRef={**ROLE, "name": "edit"}), old) == ["roleRef"]
