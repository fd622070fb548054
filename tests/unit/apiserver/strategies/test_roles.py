"""Roles."""

from typing import Any

import pytest

from kit.strategies import faults, made, strategy_of

GROUP = "rbac.authorization.k8s.io"
ROLES, CLUSTER_ROLES = strategy_of(GROUP, "roles"), strategy_of(GROUP, "clusterroles")
PODS: dict[str, Any] = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        (PODS, []),
        ({**PODS, "verbs": []}, ["rules[0].verbs"]),
        ({**PODS, "apiGroups": []}, ["rules[0].apiGroups"]),
        ({**PODS, "resources": []}, ["rules[0].resources"]),
        ({"verbs": ["get"], "nonResourceURLs": ["/x"]}, ["rules[0].nonResourceURLs"]),
        ({**PODS, "nonResourceURLs": ["/x"]}, ["rules[0].nonResourceURLs"] * 2),
    ],
)
def test_a_rule_of_a_namespace_is_about_objects(rule: dict[str, Any], expected: list[str]) -> None:
    assert faults(ROLES, made(ROLES, rules=[rule])) == expected


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ({"verbs": ["get"], "nonResourceURLs": ["/x"]}, []),
        ({**PODS, "nonResourceURLs": ["/x"]}, ["rules[0].nonResourceURLs"]),
        ({"verbs": ["get"]}, ["rules[0].apiGroups", "rules[0].resources"]),
    ],
)
def test_a_rule_of_the_cluster_is_about_objects_or_about_paths(rule: dict[str, Any], expected: list[str]) -> None:
    assert faults(CLUSTER_ROLES, made(CLUSTER_ROLES, rules=[rule])) == expected


@pytest.mark.parametrize("name", ["system:controller:x", "Ä b", "a_B"])
def test_names_may_be_what_a_path_can_hold(name: str) -> None:
    assert faults(ROLES, made(ROLES, metadata={"name": name, "namespace": "default"})) == []


@pytest.mark.parametrize("name", [".", "..", "a/b", "a%b"])
def test_names_may_not_be_what_a_path_cannot_hold(name: str) -> None:
    assert faults(ROLES, made(ROLES, metadata={"name": name, "namespace": "default"})) == ["metadata.name"]


def test_who_gathers_says_what() -> None:
    path = "aggregationRule.clusterRoleSelectors"
    assert faults(CLUSTER_ROLES, made(CLUSTER_ROLES, aggregationRule={})) == [path]
    bad = {"clusterRoleSelectors": [{"matchExpressions": [{"key": "a", "operator": "Near"}]}]}
    assert faults(CLUSTER_ROLES, made(CLUSTER_ROLES, aggregationRule=bad)) == [
        f"{path}[0].matchExpressions[0].operator"
    ]
