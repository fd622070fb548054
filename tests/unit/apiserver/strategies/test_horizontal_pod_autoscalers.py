"""Autoscalers in both of their versions."""

from typing import Any

import pytest

from kit.api_process import Api
from pykubelet.apiserver.strategies.autoscaler_versions import v1_of, v2_of
from unit.apiserver.verbs.bodies import MERGE

FIRST = "/apis/autoscaling/v1/namespaces/default/horizontalpodautoscalers"
SECOND = FIRST.replace("v1", "v2")
TARGET = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}
SELECTOR = {"matchLabels": {"a": "b"}}
METRICS: list[dict[str, Any]] = [
    {"type": "Resource", "resource": {"name": "memory", "target": {"type": "AverageValue", "averageValue": "1Gi"}}},
    {
        "type": "ContainerResource",
        "containerResource": {
            "name": "cpu",
            "container": "c",
            "target": {"type": "Utilization", "averageUtilization": 60},
        },
    },
    {
        "type": "Pods",
        "pods": {
            "metric": {"name": "m", "selector": SELECTOR},
            "target": {"type": "AverageValue", "averageValue": "1"},
        },
    },
    {
        "type": "Object",
        "object": {
            "describedObject": TARGET,
            "metric": {"name": "m", "selector": SELECTOR},
            "target": {"type": "Value", "value": "5"},
        },
    },
    {
        "type": "External",
        "external": {"metric": {"name": "m", "selector": SELECTOR}, "target": {"type": "Value", "value": "3"}},
    },
    {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}}},
]


def autoscaler(**spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "h"}, "spec": {"scaleTargetRef": TARGET, "maxReplicas": 3, **spec}}


def test_nothing_is_lost_on_the_way_to_the_first_version_and_back() -> None:
    behavior = {"scaleDown": {"stabilizationWindowSeconds": 60}}
    condition = {"type": "AbleToScale", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    current = [
        {"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": 5, "averageValue": "1m"}}}
    ]
    status = {"currentReplicas": 1, "desiredReplicas": 2, "conditions": [condition], "currentMetrics": current}
    stored = {**autoscaler(metrics=METRICS, behavior=behavior), "apiVersion": "autoscaling/v2", "status": status}
    first = v1_of(stored)
    assert first["spec"] == {"scaleTargetRef": TARGET, "maxReplicas": 3, "targetCPUUtilizationPercentage": 80}
    assert first["status"] == {"currentReplicas": 1, "desiredReplicas": 2, "currentCPUUtilizationPercentage": 5}
    assert v2_of(first) == stored


def test_an_annotation_that_cannot_be_read_says_nothing() -> None:
    broken = autoscaler()
    broken["metadata"]["annotations"] = {"autoscaling.alpha.kubernetes.io/metrics": "{", "kept": "x"}
    stored = v2_of({**broken, "apiVersion": "autoscaling/v1"})
    assert stored["metadata"] == {"name": "h", "annotations": {"kept": "x"}}
    assert "metrics" not in stored["spec"]


async def test_both_versions_are_one_object(api: Api) -> None:
    code, made = await api.ask("POST", FIRST, autoscaler(targetCPUUtilizationPercentage=70))
    assert (code, made["apiVersion"]) == (201, "autoscaling/v1")
    _, second = await api.ask("GET", f"{SECOND}/h")
    assert second["metadata"]["uid"] == made["metadata"]["uid"]
    assert second["spec"]["metrics"][0]["resource"]["target"] == {"type": "Utilization", "averageUtilization": 70}
    code, _ = await api.ask("PATCH", f"{SECOND}/h", {"spec": {"maxReplicas": 9}}, kind=MERGE)
    assert code == 200
    _, first = await api.ask("GET", FIRST)
    assert first["items"][0]["spec"]["maxReplicas"] == 9
    assert first["items"][0]["spec"]["targetCPUUtilizationPercentage"] == 70


async def test_an_autoscaler_gets_its_defaults_in_both_versions(api: Api) -> None:
    spec = {"scaleTargetRef": TARGET, "maxReplicas": 3, "behavior": {"scaleDown": {"selectPolicy": "Min"}}}
    code, made = await api.ask("POST", SECOND, {"metadata": {"name": "a"}, "spec": spec})
    assert code == 201, made
    assert made["spec"]["minReplicas"] == 1
    assert made["spec"]["metrics"][0]["resource"]["target"] == {"type": "Utilization", "averageUtilization": 80}
    assert [each["value"] for each in made["spec"]["behavior"]["scaleUp"]["policies"]] == [4, 100]
    assert made["spec"]["behavior"]["scaleDown"]["selectPolicy"] == "Min"
    old = {"scaleTargetRef": TARGET, "maxReplicas": 3}
    code, made = await api.ask("POST", FIRST, {"metadata": {"name": "b"}, "spec": old})
    assert code == 201, made
    _, seen = await api.ask("GET", f"{FIRST}/b")
    assert seen["spec"]["targetCPUUtilizationPercentage"] == 80


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"maxReplicas": 0}, "spec.maxReplicas"),
        ({"minReplicas": 5}, "spec.maxReplicas"),
        ({"minReplicas": 0}, "spec.minReplicas"),
        ({"scaleTargetRef": {"kind": "Deployment", "name": ""}}, "spec.scaleTargetRef.name"),
        ({"metrics": [{"type": "Other"}]}, "spec.metrics[0].type"),
        ({"metrics": [{"type": "Resource"}]}, "spec.metrics[0].resource"),
        (
            {"metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization"}}}]},
            "spec.metrics[0].resource.target.averageUtilization",
        ),
        (
            {"behavior": {"scaleUp": {"stabilizationWindowSeconds": 3601}}},
            "spec.behavior.scaleUp.stabilizationWindowSeconds",
        ),
        (
            {"behavior": {"scaleUp": {"policies": [{"type": "Pods", "value": 0, "periodSeconds": 1}]}}},
            "spec.behavior.scaleUp.policies[0].value",
        ),
    ],
)
async def test_an_autoscaler_that_makes_no_sense_is_refused(api: Api, spec: dict[str, Any], field: str) -> None:
    whole = {"scaleTargetRef": TARGET, "maxReplicas": 3, **spec}
    code, answer = await api.ask("POST", SECOND, {"metadata": {"name": "a"}, "spec": whole})
    assert code == 422, answer
    assert field in [each["field"] for each in answer["details"]["causes"]]
