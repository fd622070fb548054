"""What a kube-apiserver of v1.34 was seen to say of single fields: where it finds a fault, and where none."""

from typing import Any

import pytest

from kit.strategies import faults, made, strategy_of
from pykubelet.apiserver.custom.naming import approval
from pykubelet.apiserver.strategies.status_conditions import conditions_faults

EVENT: dict[str, Any] = {
    "regarding": {"kind": "Pod", "name": "p", "namespace": "default"},
    "reason": "R",
    "action": "A",
    "type": "Normal",
    "reportingController": "a.b/c",
    "reportingInstance": "i",
    "eventTime": "2026-11-15T10:00:00.000000Z",
}
FLOW: dict[str, Any] = {"priorityLevelConfiguration": {"name": "a"}}
USER = {"kind": "User", "user": {"name": "u"}}
ALL = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "namespaces": ["*"]}
HERE = {"addresses": [{"ip": "10.0.0.1"}]}
HPA: dict[str, Any] = {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "D", "name": "d"}, "maxReplicas": 3}
TARGET = {"type": "Utilization", "averageUtilization": 50}
CPU = {"name": "cpu", "target": TARGET}
VOLUME: dict[str, Any] = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/x"}}
SLICE = {"addressType": "IPv4"}


def rule(**more: Any) -> dict[str, Any]:
    return {"spec": {**FLOW, "rules": [{"subjects": [{**USER, **more.pop("subject", {})}], **more}]}}


def metric(**more: Any) -> dict[str, Any]:
    return {"spec": {**HPA, "metrics": [{"type": "Resource", "resource": CPU, **more}]}}


CASES: list[tuple[str, dict[str, Any], list[str]]] = [
    ("/endpoints", {"subsets": [{"addresses": []}]}, ["subsets[0]"]),
    ("/endpoints", {"subsets": [{"addresses": [{"ip": "127.0.0.1"}]}]}, ["subsets[0].addresses[0].ip"]),
    ("/endpoints", {"subsets": [{"addresses": [{"ip": "10.0.0.1", "hostname": "A"}]}]},
     ["subsets[0].addresses[0].hostname"]),
    ("/endpoints", {"subsets": [{**HERE, "ports": [{"port": 80}, {"port": 81}]}]},
     ["subsets[0].ports[0].name", "subsets[0].ports[1].name"]),
    ("/endpoints", {"subsets": [{**HERE, "ports": [{"port": 80, "protocol": "X"}]}]}, ["subsets[0].ports[0].protocol"]),
    ("/nodes", {"spec": {"podCIDR": "a"}}, ["spec.podCIDRs[0]"]),
    ("/nodes", {"spec": {"podCIDR": "10.1.0.0/24", "podCIDRs": ["a"]}}, []),
    ("/persistentvolumes", {"spec": {**VOLUME, "csi": {"driver": "a", "volumeHandle": "b"}}}, ["spec.csi"]),
    ("/persistentvolumes", {"spec": {**VOLUME, "cephfs": {}}}, ["spec.cephFS"]),
    ("/persistentvolumes", {"spec": {**VOLUME, "flexVolume": {"driver": "a"}}}, []),
    ("events.k8s.io/events", EVENT, []),
    ("events.k8s.io/events", {**EVENT, "regarding": {"namespace": "another"}}, []),
    ("events.k8s.io/events", {**EVENT, "deprecatedCount": 1}, ["count"]),
    ("events.k8s.io/events", {**EVENT, "deprecatedSource": {"host": "a"}}, ["source"]),
    ("events.k8s.io/events", {**EVENT, "reportingController": "A b!"}, ["reportingController"]),
    ("events.k8s.io/events", {**EVENT, "series": {"count": 1}}, ["series.count", "series.lastObservedTime"]),
    ("flowcontrol.apiserver.k8s.io/flowschemas", {"spec": {**FLOW, "matchingPrecedence": 1}},
     ["spec.matchingPrecedence"]),
    ("flowcontrol.apiserver.k8s.io/flowschemas", rule(resourceRules=[ALL]), []),
    ("flowcontrol.apiserver.k8s.io/flowschemas", rule(resourceRules=[ALL], subject={"group": {"name": "g"}}),
     ["spec.rules[0].subjects[0].group"]),
    ("flowcontrol.apiserver.k8s.io/flowschemas", rule(resourceRules=[{**ALL, "verbs": ["sing"]}]),
     ["spec.rules[0].resourceRules[0].verbs"]),
    ("flowcontrol.apiserver.k8s.io/flowschemas", rule(resourceRules=[{**ALL, "namespaces": ["A"]}]),
     ["spec.rules[0].resourceRules[0].namespaces[0]"]),
    ("flowcontrol.apiserver.k8s.io/flowschemas", rule(nonResourceRules=[{"verbs": ["get"], "nonResourceURLs": ["a"]}]),
     ["spec.rules[0].nonResourceRules[0].nonResourceURLs[0]"]),
    ("discovery.k8s.io/endpointslices", {**SLICE, "endpoints": [{"addresses": ["10.0.0.1"], "zone": "A b!"}]}, []),
    ("discovery.k8s.io/endpointslices",
     {**SLICE, "endpoints": [{"addresses": ["10.0.0.1"], "hints": {"forNodes": [{"name": "A"}]}}]},
     ["endpoints[0].hints.forNodes[0].name"]),
    ("autoscaling/horizontalpodautoscalers", metric(), []),
    ("autoscaling/horizontalpodautoscalers", metric(pods={"metric": {"name": "a"}, "target": TARGET}),
     ["spec.metrics[0].pods", "spec.metrics[0].pods.target.averageValue"]),
    ("autoscaling/horizontalpodautoscalers", {"spec": {**HPA, "scaleTargetRef": {**HPA["scaleTargetRef"],
     "apiVersion": "apps"}}}, ["spec.scaleTargetRef.apiVersion"]),
    ("storage.k8s.io/volumeattachments",
     {"spec": {"attacher": "d.io", "nodeName": "n", "source": {"persistentVolumeName": "p", "inlineVolumeSpec": {}}}},
     ["spec.source"]),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "content", "expected"), CASES)
def test_the_same_fields_are_at_fault(kind: str, content: dict[str, Any], expected: list[str]) -> None:
    strategy = strategy_of(*kind.split("/"))
    assert faults(strategy, made(strategy, **content)) == expected


def test_of_the_secrets_of_an_account_only_the_names_are_kept() -> None:
    strategy = strategy_of("", "serviceaccounts")
    account = made(strategy, secrets=[{"name": "s", "namespace": "other", "kind": "Secret"}])
    strategy.prepare_update(account, account, "")
    assert account["secrets"] == [{"name": "s"}]


def test_what_all_versions_of_a_definition_share_is_told_once() -> None:
    strategy = strategy_of("apiextensions.k8s.io", "customresourcedefinitions")
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"a": {"type": "wrong"}}}}
    version = {"served": True, "schema": schema}
    names = {"plural": "as", "kind": "A"}
    versions = [{**version, "name": "v1", "storage": True}, {**version, "name": "v2", "storage": False}]
    spec = {"group": "a.io", "scope": "Namespaced", "names": names, "versions": versions}
    crd = made(strategy, metadata={"name": "as.a.io"}, spec=spec)
    assert set(faults(strategy, crd)) == {"spec.validation.openAPIV3Schema.properties[a].type"}
    del crd["spec"]["versions"][1]["schema"]["openAPIV3Schema"]["properties"]
    assert set(faults(strategy, crd)) == {"spec.versions[0].schema.openAPIV3Schema.properties[a].type"}


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ({"type": "A", "status": "True", "reason": "R", "lastTransitionTime": "2026-01-01T00:00:00Z"}, []),
        ({}, ["type", "status", "lastTransitionTime", "reason"]),
        ({"type": "A b", "status": "Yes", "reason": "1", "lastTransitionTime": "x"}, ["type", "status", "reason"]),
        (
            {"type": "A", "status": "True", "reason": "R" * 1025, "lastTransitionTime": "x", "message": "m" * 32_769},
            ["reason", "message"],
        ),
    ],
)
def test_conditions_have_the_form_that_all_share(condition: dict[str, Any], expected: list[str]) -> None:
    found = [each.field.removeprefix("status.conditions[0].") for each in conditions_faults([condition])]
    assert sorted(set(found)) == sorted(expected)
    again = {each.field for each in conditions_faults([condition, condition])}
    assert "status.conditions[1].type" in again


def test_only_a_load_balancer_has_addresses_in_its_status() -> None:
    strategy = strategy_of("", "services")
    service = made(strategy, spec={"ports": [{"port": 80}]}, status={"loadBalancer": {"ingress": [{"ip": "10.0.0.1"}]}})
    found = [each.field for each in strategy.validate_update(service, service, "status")]
    assert found == ["status.loadBalancer.ingress"]


@pytest.mark.parametrize(
    ("group", "annotation", "expected"),
    [
        ("example.com", "", None),
        ("a.k8s.io", "", "MissingAnnotation"),
        ("a.k8s.io", "unapproved, a test", "UnapprovedAnnotation"),
        ("k8s.io", "https://example.com/1", "ApprovedAnnotation"),
        ("notk8s.io", "", None),
    ],
)
def test_groups_of_kubernetes_say_who_has_approved_them(group: str, annotation: str, expected: str | None) -> None:
    annotations = {"api-approved.kubernetes.io": annotation} if annotation else {}
    found = approval({"metadata": {"annotations": annotations}, "spec": {"group": group}})
    assert (found and found["reason"]) == expected
