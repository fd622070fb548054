"""Rows of the kinds that make pods, scale them or guard them."""

from datetime import UTC, datetime
from typing import Any

import pytest

from pykubelet.apiserver.schema.kinds import Resources
from pykubelet.apiserver.tables.tables import table

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
TEMPLATE = {"spec": {"containers": [{"name": "c", "image": "i"}, {"name": "d", "image": "j"}]}}
SELECTOR = {"matchLabels": {"a": "b"}, "matchExpressions": [{"key": "c", "operator": "Exists"}]}


def cells(group: str, plural: str, version: str = "", **content: Any) -> list[Any]:
    resource = Resources().of(group, plural)
    metadata = {"name": "x", "creationTimestamp": "2026-01-01T11:59:30Z", **content.pop("metadata", {})}
    obj = {"kind": resource.kind, "metadata": metadata, **content}
    made = table(resource, [obj], {}, "v1", "None", NOW)
    found: list[Any] = made["rows"][0]["cells"]
    assert len(found) == len(made["columnDefinitions"])
    return found


def test_what_makes_pods_shows_how_many_there_are_and_what_they_run() -> None:
    spec = {"replicas": 3, "selector": SELECTOR, "template": TEMPLATE}
    status = {"replicas": 2, "readyReplicas": 1, "updatedReplicas": 2, "availableReplicas": 1}
    wide = ["c,d", "i,j", "a=b,c"]
    assert cells("apps", "replicasets", spec=spec, status=status) == ["x", 3, 2, 1, "30s", *wide]
    assert cells("apps", "deployments", spec=spec, status=status) == ["x", "1/3", 2, 1, "30s", *wide]
    assert cells("apps", "statefulsets", spec=spec, status=status) == ["x", "1/3", "30s", "c,d", "i,j"]
    controller = {**spec, "selector": {"a": "b"}}
    assert cells("", "replicationcontrollers", spec=controller, status=status)[-1] == "a=b"
    assert cells("apps", "replicasets")[-1] == "<none>"


def test_a_daemon_set_shows_its_nodes() -> None:
    template = {"spec": {**TEMPLATE["spec"], "nodeSelector": {"disk": "ssd"}}}
    status = {"desiredNumberScheduled": 4, "currentNumberScheduled": 3, "numberReady": 2, "numberAvailable": 1}
    found = cells("apps", "daemonsets", spec={"selector": SELECTOR, "template": template}, status=status)
    assert found == ["x", 4, 3, 2, 0, 1, "disk=ssd", "30s", "c,d", "i,j", "a=b,c"]


@pytest.mark.parametrize(
    ("spec", "status", "more", "shown"),
    [
        ({"completions": 2}, {"succeeded": 1}, {}, ["Running", "1/2", ""]),
        ({"parallelism": 3}, {}, {}, ["Running", "0/1 of 3", ""]),
        ({"parallelism": 1}, {"startTime": "2026-01-01T11:59:00Z"}, {}, ["Running", "0/1", "60s"]),
        (
            {"completions": 1},
            {
                "succeeded": 1,
                "startTime": "2026-01-01T11:00:00Z",
                "completionTime": "2026-01-01T11:00:05Z",
                "conditions": [{"type": "Complete", "status": "True"}, {"type": "Failed", "status": "False"}],
            },
            {},
            ["Complete", "1/1", "5s"],
        ),
        ({}, {"conditions": [{"type": "Failed", "status": "True"}]}, {}, ["Failed", "0/1", ""]),
        ({}, {}, {"deletionTimestamp": "2026-01-01T11:00:00Z"}, ["Terminating", "0/1", ""]),
        ({}, {"conditions": [{"type": "Suspended", "status": "True"}]}, {}, ["Suspended", "0/1", ""]),
    ],
)
def test_a_job_shows_how_far_it_is(
    spec: dict[str, Any], status: dict[str, Any], more: dict[str, Any], shown: list[Any]
) -> None:
    assert cells("batch", "jobs", spec=spec, status=status, metadata=more)[1:4] == shown


def test_a_cron_job_shows_when_it_runs() -> None:
    job = {"spec": {"template": TEMPLATE}}
    spec = {"schedule": "@daily", "suspend": False, "jobTemplate": job}
    status = {"active": [{}], "lastScheduleTime": "2026-01-01T11:00:00Z"}
    found = cells("batch", "cronjobs", spec=spec, status=status)
    assert found == ["x", "@daily", "<none>", "False", 1, "60m", "30s", "c,d", "i,j", "<none>"]
    assert cells("batch", "cronjobs", spec={"timeZone": "UTC"})[2:6] == ["UTC", "<unset>", 0, "<none>"]


METRICS: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    ({"type": "Resource", "resource": {"name": "cpu", "target": {"averageUtilization": 80}}}, {}, "cpu: <unknown>/80%"),
    (
        {"type": "Resource", "resource": {"name": "cpu", "target": {"averageUtilization": 80}}},
        {"resource": {"current": {"averageUtilization": 10}}},
        "cpu: 10%/80%",
    ),
    (
        {"type": "ContainerResource", "containerResource": {"name": "memory", "target": {"averageValue": "1Gi"}}},
        {"containerResource": {"current": {"averageValue": "2Gi"}}},
        "memory: 2Gi/1Gi",
    ),
    ({"type": "Pods", "pods": {"target": {"averageValue": "5"}}}, {}, "<unknown>/5"),
    ({"type": "Object", "object": {"target": {"value": "5"}}}, {"object": {"current": {"value": "1"}}}, "1/5"),
    ({"type": "External", "external": {"target": {"averageValue": "5"}}}, {}, "<unknown>/5 (avg)"),
    ({"type": "Strange"}, {}, "<unknown type>"),
]


@pytest.mark.parametrize(("metric", "now", "shown"), METRICS)
def test_an_autoscaler_shows_what_it_goes_by(metric: dict[str, Any], now: dict[str, Any], shown: str) -> None:
    spec = {"scaleTargetRef": {"kind": "Deployment", "name": "d"}, "maxReplicas": 4, "metrics": [metric]}
    found = cells("autoscaling", "horizontalpodautoscalers", spec=spec, status={"currentMetrics": [now]})
    assert found == ["x", "Deployment/d", shown, "<unset>", 4, 0, "30s"]


def test_an_autoscaler_with_many_metrics_shows_two() -> None:
    spec = {"metrics": [metric for metric, _, _ in METRICS[:3]], "minReplicas": 2}
    found = cells("autoscaling", "horizontalpodautoscalers", spec=spec)
    assert found[2:4] == ["cpu: <unknown>/80%, cpu: <unknown>/80% + 1 more...", "2"]


def test_budgets_and_revisions() -> None:
    found = cells("policy", "poddisruptionbudgets", spec={"minAvailable": "50%"}, status={"disruptionsAllowed": 1})
    assert found == ["x", "50%", "N/A", 1, "30s"]
    owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "controller": True}
    found = cells("apps", "controllerrevisions", revision=3, metadata={"ownerReferences": [owner]})
    assert found == ["x", "daemonset.apps/d", 3, "30s"]
