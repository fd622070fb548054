"""The policy: what it knows is what it was told last, and what it cannot read gives nobody anything."""

from typing import Any

import pytest

from pykubelet.apiserver.requests.request_info import RequestInfo
from pykubelet.apiserver.requests.users import User, authenticated, service_account_user
from pykubelet.apiserver.security.rbac.policy import Policy

READS = {"rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]}]}
BOB = authenticated("bob", ("dev",))
ROBOT = service_account_user("a", "robot", "", {})


def binding(*subjects: tuple[str, str], role: str = "reads", kind: str = "ClusterRole", home: str = "") -> Any:
    place = {"namespace": home} if home else {}
    return {
        "roleRef": {"kind": kind, "name": role},
        "subjects": [{"kind": kind_, "name": name, **place} for kind_, name in subjects],
    }


def made() -> Policy:
    policy = Policy()
    policy.tell("clusterroles", ("", "reads"), READS)
    return policy


def pods(namespace: str = "", verb: str = "list", **more: str) -> RequestInfo:
    return RequestInfo(verb, "", is_resource=True, resource="pods", namespace=namespace, **more)


def may(policy: Policy, user: User, namespace: str = "") -> bool:
    return policy.verdict(user, pods(namespace)).is_allowed


def test_a_binding_in_a_namespace_gives_nothing_elsewhere() -> None:
    policy = made()
    policy.tell("rolebindings", ("a", "b"), binding(("User", "bob")))
    assert [may(policy, BOB, each) for each in ("a", "b", "")] == [True, False, False]
    policy.tell("clusterrolebindings", ("", "c"), binding(("Group", "dev")))
    assert [may(policy, BOB, each) for each in ("a", "b", "")] == [True, True, True]


def test_the_newest_that_was_told_counts_and_what_is_gone_gives_nothing() -> None:
    policy = made()
    policy.tell("clusterrolebindings", ("", "c"), binding(("User", "bob"), ("Group", "dev")))
    policy.tell("clusterrolebindings", ("", "c"), binding(("User", "eve")))
    assert not may(policy, BOB)
    assert may(policy, authenticated("eve"))
    policy.tell("clusterroles", ("", "reads"), {"rules": None})
    assert not may(policy, authenticated("eve"))
    policy.tell("clusterroles", ("", "reads"), READS)
    policy.tell("clusterrolebindings", ("", "c"), None)
    policy.tell("clusterrolebindings", ("", "c"), None)
    assert not may(policy, authenticated("eve"))


def test_an_account_is_one_of_its_own_namespace() -> None:
    policy = made()
    policy.tell("rolebindings", ("b", "x"), binding(("ServiceAccount", "robot")))
    assert not may(policy, ROBOT, "b")
    policy.tell("rolebindings", ("b", "x"), binding(("ServiceAccount", "robot"), home="a"))
    assert may(policy, ROBOT, "b")
    policy.tell("clusterrolebindings", ("", "x"), binding(("ServiceAccount", "robot")))
    assert not may(policy, ROBOT)


def test_a_binding_of_the_cluster_cannot_take_a_role_of_a_namespace() -> None:
    policy = made()
    policy.tell("roles", ("a", "local"), READS)
    policy.tell("clusterrolebindings", ("", "x"), binding(("User", "bob"), role="local", kind="Role"))
    assert not may(policy, BOB, "a")
    assert policy.verdict(BOB, pods("a")).reason == 'RBAC: role.rbac.authorization.k8s.io "local" not found'


def test_a_refusal_names_the_roles_that_are_missing_and_a_permission_its_source() -> None:
    policy = made()
    policy.tell("rolebindings", ("a", "x"), binding(("ServiceAccount", "robot"), role="gone"))
    assert policy.verdict(ROBOT, pods("a")).reason == 'RBAC: clusterrole.rbac.authorization.k8s.io "gone" not found'
    policy.tell("rolebindings", ("a", "y"), binding(("ServiceAccount", "robot")))
    assert policy.verdict(ROBOT, pods("a")).reason == (
        'RBAC: allowed by RoleBinding "y/a" of ClusterRole "reads" to ServiceAccount "robot/a"'
    )


def test_a_list_of_one_named_object_is_a_request_for_that_object() -> None:
    policy = Policy()
    rule = {**READS["rules"][0], "resourceNames": ["mine"], "verbs": ["*"]}
    policy.tell("clusterroles", ("", "reads"), {"rules": [rule]})
    policy.tell("clusterrolebindings", ("", "c"), binding(("User", "bob")))

    def allowed(verb: str, selector: str) -> bool:
        return policy.verdict(BOB, pods("a", verb, field_selector=selector)).is_allowed

    assert allowed("list", "metadata.name=mine")
    assert allowed("watch", "metadata.name=mine")
    for verb, selector in (
        ("list", ""),
        ("list", "metadata.name!=mine"),
        ("list", "spec.nodeName=mine"),
        ("deletecollection", "metadata.name=mine"),
        ("create", "metadata.name=mine"),
    ):
        assert not allowed(verb, selector), (verb, selector)


@pytest.mark.parametrize(
    "bad",
    [
        {"roleRef": {"kind": "ClusterRole", "name": "reads"}, "subjects": [{"kind": "User", "name": ["bob"]}]},
        {"roleRef": {"kind": "ClusterRole", "name": "reads"}, "subjects": [{"kind": "User"}]},
        {"roleRef": {"kind": "ClusterRole", "name": "reads"}, "subjects": ["bob"]},
        {"roleRef": "reads", "subjects": [{"kind": "User", "name": "bob"}]},
        {"roleRef": {"kind": "ClusterRole", "name": "reads"}, "subjects": 7},
    ],
)
def test_a_binding_that_cannot_be_read_gives_nobody_anything(bad: Any) -> None:
    policy = made()
    policy.tell("clusterrolebindings", ("", "c"), binding(("User", "bob")))
    policy.tell("clusterrolebindings", ("", "c"), bad)
    assert not may(policy, BOB)
    policy.tell("clusterrolebindings", ("", "c"), binding(("User", "bob")))
    assert may(policy, BOB)


def test_a_role_that_cannot_be_read_allows_nothing_any_longer() -> None:
    policy = made()
    policy.tell("clusterrolebindings", ("", "c"), binding(("User", "bob")))
    policy.tell("clusterroles", ("", "reads"), {"rules": [{**READS["rules"][0]}, {"verbs": "everything"}]})
    assert not may(policy, BOB)


def test_all_that_somebody_may_is_told_once_for_each_binding() -> None:
    policy = made()
    policy.tell("clusterrolebindings", ("", "c"), binding(("User", "bob"), ("Group", "dev")))
    policy.tell("rolebindings", ("a", "x"), binding(("User", "bob"), role="gone"))
    rules, faults = policy.rules(BOB, "a")
    assert [rule.json() for rule in rules] == READS["rules"]
    assert faults == ['clusterrole.rbac.authorization.k8s.io "gone" not found']
