"""Configurations of webhooks."""

from typing import Any

import pytest

from kit.strategies import faults, made, strategy_of
from pykubelet.api.codec import DecodeError

GROUP = "admissionregistration.k8s.io"
VALIDATING = strategy_of(GROUP, "validatingwebhookconfigurations")
MUTATING = strategy_of(GROUP, "mutatingwebhookconfigurations")
RULE: dict[str, Any] = {"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}
SERVICE: dict[str, Any] = {"namespace": "a", "name": "b"}
HOOK: dict[str, Any] = {
    "name": "a.example.com",
    "clientConfig": {"url": "https://example.com/x"},
    "sideEffects": "None",
    "admissionReviewVersions": ["v1"],
    "rules": [RULE],
}


def test_what_is_left_out_is_filled_in() -> None:
    (hook,) = made(MUTATING, webhooks=[{**HOOK, "clientConfig": {"service": SERVICE}}])["webhooks"]
    assert hook["clientConfig"]["service"]["port"] == 443
    assert hook["rules"][0]["scope"] == "*"
    assert {name: hook[name] for name in ("failurePolicy", "matchPolicy", "timeoutSeconds", "reinvocationPolicy")} == {
        "failurePolicy": "Fail",
        "matchPolicy": "Equivalent",
        "timeoutSeconds": 10,
        "reinvocationPolicy": "Never",
    }
    assert (hook["namespaceSelector"], hook["objectSelector"]) == ({}, {})
    assert "reinvocationPolicy" not in made(VALIDATING, webhooks=[HOOK])["webhooks"][0]


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, []),
        ({"name": ""}, ["name"]),
        ({"name": "a.b"}, ["name"]),
        ({"sideEffects": None}, ["sideEffects"]),
        ({"sideEffects": "Some"}, ["sideEffects"]),
        ({"failurePolicy": "Maybe"}, ["failurePolicy"]),
        ({"matchPolicy": "About"}, ["matchPolicy"]),
        ({"timeoutSeconds": 31}, ["timeoutSeconds"]),
        ({"timeoutSeconds": 0}, ["timeoutSeconds"]),
        ({"admissionReviewVersions": []}, ["admissionReviewVersions"]),
        ({"admissionReviewVersions": ["v2"]}, ["admissionReviewVersions"]),
        ({"admissionReviewVersions": ["v1", "v1"]}, ["admissionReviewVersions[1]"]),
        ({"clientConfig": {}}, ["clientConfig"]),
        ({"clientConfig": {"url": "https://a", "service": SERVICE}}, ["clientConfig"]),
        ({"clientConfig": {"url": "http://a"}}, ["clientConfig.url"]),
        ({"clientConfig": {"url": "https://u:p@a"}}, ["clientConfig.url"]),
        ({"clientConfig": {"url": "https://a/?x=1"}}, ["clientConfig.url"]),
        ({"clientConfig": {"url": "https://a/#x"}}, ["clientConfig.url"]),
        ({"clientConfig": {"url": "https:///x"}}, ["clientConfig.url"]),
        ({"clientConfig": {"url": "https://a:99999"}}, ["clientConfig.url"]),
        ({"clientConfig": {"service": {**SERVICE, "path": "xy"}}}, ["clientConfig.service.path"]),
        ({"clientConfig": {"service": {**SERVICE, "path": "/a//b"}}}, ["clientConfig.service.path"]),
        ({"clientConfig": {"service": {**SERVICE, "port": 0}}}, ["clientConfig.service.port"]),
        ({"clientConfig": {"service": {"name": "a"}}}, ["clientConfig.service.name"]),
        ({"rules": [{**RULE, "operations": ["*", "CREATE"]}]}, ["rules[0].operations"]),
        ({"rules": [{**RULE, "operations": ["LOOK"]}]}, ["rules[0].operations[0]"]),
        ({"rules": [{**RULE, "apiGroups": []}]}, ["rules[0].apiGroups"]),
        ({"rules": [{**RULE, "apiVersions": [""]}]}, ["rules[0].apiVersions[0]"]),
        ({"rules": [{**RULE, "resources": ["*/*", "pods"]}]}, ["rules[0].resources"]),
        ({"rules": [{**RULE, "resources": ["*", "pods"]}]}, ["rules[0].resources"]),
        ({"rules": [{**RULE, "resources": ["pods/*", "pods/status"]}]}, ["rules[0].resources[1]"]),
        ({"rules": [{**RULE, "scope": "World"}]}, ["rules[0].scope"]),
        ({"objectSelector": {"matchLabels": {"-": "x"}}}, ["objectSelector.matchLabels"]),
        ({"matchConditions": [{"name": "a", "expression": "1 +"}]}, ["matchConditions[0].expression"]),
        ({"matchConditions": [{"name": "a", "expression": "'x'"}]}, ["matchConditions[0].expression"]),
        ({"matchConditions": [{"name": "a", "expression": "nobody"}]}, ["matchConditions[0].expression"]),
        ({"matchConditions": [{"name": "a", "expression": "true"}] * 2}, ["matchConditions[1].name"]),
    ],
)
def test_what_a_webhook_says_of_itself(change: dict[str, Any], expected: list[str]) -> None:
    hook = {name: value for name, value in {**HOOK, **change}.items() if value is not None}
    assert faults(VALIDATING, made(VALIDATING, webhooks=[hook])) == [f"webhooks[0].{each}" for each in expected]


def test_no_two_have_one_name() -> None:
    assert faults(VALIDATING, made(VALIDATING, webhooks=[HOOK, HOOK])) == ["webhooks[1].name"]


def test_a_certificate_is_base64_that_may_be_wrapped() -> None:
    client = {"url": "https://example.com/x", "caBundle": "YWJj\nZGVm"}
    (hook,) = made(MUTATING, webhooks=[{**HOOK, "clientConfig": client}])["webhooks"]
    assert hook["clientConfig"]["caBundle"] == "YWJjZGVm"
    with pytest.raises(DecodeError, match="illegal base64 data at input byte 3"):
        MUTATING.normal({"webhooks": [{**HOOK, "clientConfig": {**client, "caBundle": "not base64"}}]})
