"""Which rule of a policy fits a request, and what is wrong with a file."""

from pathlib import Path

import pytest

from pykubelet.apiserver.requests.request_info import RequestInfo, request_info
from pykubelet.apiserver.requests.users import User
from pykubelet.apiserver.telemetry.audit_policy import GroupResources, Level, Policy, PolicyRule, depth, read_policy
from pykubelet.base.errors import Invalid

_PODS = "/api/v1/namespaces/ns/pods"
_EVE = User("eve", ("readers", "system:authenticated"))


def asked(path: str, method: str = "GET") -> RequestInfo:
    return request_info(method, path, {})


def resources(*names: str, group: str = "", named: tuple[str, ...] = ()) -> tuple[GroupResources, ...]:
    return (GroupResources(group=group, resources=names, resource_names=named),)


FITTING = {
    "anything": (PolicyRule(level="Metadata"), asked(_PODS)),
    "its user": (PolicyRule(level="Metadata", users=("adam", "eve")), asked(_PODS)),
    "one of its groups": (PolicyRule(level="Metadata", user_groups=("readers",)), asked(_PODS)),
    "its verb": (PolicyRule(level="Metadata", verbs=("list",)), asked(_PODS)),
    "its namespace": (PolicyRule(level="Metadata", namespaces=("ns",)), asked(_PODS)),
    "no namespace": (PolicyRule(level="Metadata", namespaces=("",)), asked("/api/v1/nodes/n")),
    "all of a group": (PolicyRule(level="Metadata", resources=resources()), asked(_PODS)),
    "its resource": (PolicyRule(level="Metadata", resources=resources("pods")), asked(_PODS)),
    "any resource": (PolicyRule(level="Metadata", resources=resources("*")), asked(f"{_PODS}/p/log")),
    "a part of it": (PolicyRule(level="Metadata", resources=resources("pods/log")), asked(f"{_PODS}/p/log")),
    "any part of it": (PolicyRule(level="Metadata", resources=resources("pods/*")), asked(f"{_PODS}/p/log")),
    "a part of any": (PolicyRule(level="Metadata", resources=resources("*/log")), asked(f"{_PODS}/p/log")),
    "its name": (PolicyRule(level="Metadata", resources=resources("pods", named=("p",))), asked(f"{_PODS}/p")),
    "a path": (PolicyRule(level="Metadata", non_resource_urls=("/healthz",)), asked("/healthz")),
    "paths below": (PolicyRule(level="Metadata", non_resource_urls=("/healthz*",)), asked("/healthz/ping")),
    "any path": (PolicyRule(level="Metadata", non_resource_urls=("*",)), asked("/version")),
}
OTHERS = {
    "another user": (PolicyRule(level="Metadata", users=("adam",)), asked(_PODS)),
    "another group": (PolicyRule(level="Metadata", user_groups=("writers",)), asked(_PODS)),
    "another verb": (PolicyRule(level="Metadata", verbs=("get",)), asked(_PODS)),
    "another namespace": (PolicyRule(level="Metadata", namespaces=("other",)), asked(_PODS)),
    "another API group": (PolicyRule(level="Metadata", resources=resources("pods", group="apps")), asked(_PODS)),
    "only the object": (PolicyRule(level="Metadata", resources=resources("pods")), asked(f"{_PODS}/p/log")),
    "only a part": (PolicyRule(level="Metadata", resources=resources("*/log")), asked(f"{_PODS}/log")),
    "another name": (PolicyRule(level="Metadata", resources=resources("pods", named=("q",))), asked(f"{_PODS}/p")),
    "a path, and it is none": (PolicyRule(level="Metadata", non_resource_urls=("*",)), asked(_PODS)),
    "a resource, and it is none": (PolicyRule(level="Metadata", resources=resources("*")), asked("/version")),
    "a path beside": (PolicyRule(level="Metadata", non_resource_urls=("/health",)), asked("/healthz")),
}


@pytest.mark.parametrize("name", FITTING)
def test_a_rule_fits(name: str) -> None:
    rule, info = FITTING[name]
    assert depth(Policy(rules=(rule,)), info, _EVE).level == "Metadata"


@pytest.mark.parametrize("name", OTHERS)
def test_a_rule_is_about_others(name: str) -> None:
    rule, info = OTHERS[name]
    assert depth(Policy(rules=(rule,)), info, _EVE).level == "None"


@pytest.mark.parametrize(
    "rule", [PolicyRule(level="Request", users=("",)), PolicyRule(level="Request", user_groups=("a",))]
)
def test_nobody_is_no_user(rule: PolicyRule) -> None:
    assert depth(Policy(rules=(rule,)), asked(_PODS), None).level == "None"


@pytest.mark.parametrize(("first", "second"), [("None", "Request"), ("RequestResponse", "None")])
def test_the_first_rule_that_fits_counts(first: Level, second: Level) -> None:
    policy = Policy(rules=(PolicyRule(level=first), PolicyRule(level=second)))
    assert depth(policy, asked(_PODS), _EVE).level == first


def test_stages_are_left_out_by_both_and_managed_fields_by_the_nearer() -> None:
    rule = PolicyRule(level="Request", omit_stages=("ResponseStarted",), omit_managed_fields=False)
    policy = Policy(rules=(rule,), omit_stages=("RequestReceived",), omit_managed_fields=True)
    found = depth(policy, asked(_PODS), _EVE)
    assert found.omitted == {"RequestReceived", "ResponseStarted"}
    assert not found.omits_managed_fields


# --- files

_HEAD = "apiVersion: audit.k8s.io/v1\nkind: Policy\n"


def test_a_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "policy.yaml"
    path.write_text(
        f"{_HEAD}omitStages: [RequestReceived]\n"
        "rules:\n- level: None\n  nonResourceURLs: [/healthz*]\n- level: Metadata\n"
    )
    policy = read_policy(str(path))
    assert [rule.level for rule in policy.rules] == ["None", "Metadata"]
    assert policy.rules[0].non_resource_urls == ("/healthz*",)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("rules: [{level: Metadata}]", "Policy of audit.k8s.io/v1"),
        (f"{_HEAD}rules: []", "nothing would be logged"),
        (f"{_HEAD}rules: [{{level: Much}}]", "level"),
        (f"{_HEAD}rules: [{{users: [a]}}]", "level"),
        (f"{_HEAD}rules: [{{level: None, user: [a]}}]", "rules[0].user: there is no such field; did you mean users?"),
        (f"{_HEAD}rules: [{{level: None, nonResourceURLs: [healthz]}}]", "begin with a /"),
        (f"{_HEAD}rules: [{{level: None, nonResourceURLs: ['/*/a']}}]", "at its end only"),
        (f"{_HEAD}rules: [{{level: None, nonResourceURLs: [/a], namespaces: [b]}}]", "both"),
        (f"{_HEAD}rules: [{{level: None, resources: [{{group: apps/v1}}]}}]", "the group alone"),
        (f"{_HEAD}rules: [{{level: None, resources: [{{resourceNames: [a]}}]}}]", "names of"),
        ("{", ""),
    ],
)
def test_a_file_that_cannot_be_meant_is_refused_with_its_place(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "policy.yaml"
    path.write_text(text)
    with pytest.raises(Invalid) as refused:
        read_policy(str(path))
    assert str(path) in str(refused.value)
    assert said in str(refused.value)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match="cannot be read"):
        read_policy(str(tmp_path / "none"))
