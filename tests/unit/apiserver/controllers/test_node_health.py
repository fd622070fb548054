"""Taints that a node's conditions call for, and when they drive a pod away."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from pykubelet.apiserver.controllers.node_health import driving_taints, leaves_at, lost, not_ready, stay, tainted

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
TEXT = "2026-01-02T03:04:05Z"
KEY = "node.kubernetes.io/unreachable"


def node(*conditions: tuple[str, str], taints: list[dict[str, Any]] | None = None, **spec: Any) -> dict[str, Any]:
    told = [{"type": kind, "status": status} for kind, status in conditions]
    return {
        "metadata": {"name": "n1", "creationTimestamp": TEXT},
        "spec": {**spec, **({"taints": taints} if taints else {})},
        "status": {"conditions": told} if told else {},
    }


def pod(*tolerations: dict[str, Any], **more: Any) -> dict[str, Any]:
    metadata = {"name": "p", "namespace": "default"}
    return {"metadata": metadata, "spec": {"nodeName": "n1", "tolerations": list(tolerations)}, **more}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (node(("Ready", "True")), []),
        (node(("Ready", "False")), [("not-ready", "NoSchedule"), ("not-ready", "NoExecute")]),
        (node(("Ready", "Unknown")), [("unreachable", "NoSchedule"), ("unreachable", "NoExecute")]),
        (node(), [("not-ready", "NoSchedule"), ("not-ready", "NoExecute")]),
        (node(("Ready", "True"), ("PIDPressure", "True")), [("pid-pressure", "NoSchedule")]),
        (node(("Ready", "True"), ("NetworkUnavailable", "True")), [("network-unavailable", "NoSchedule")]),
        (node(("Ready", "True"), unschedulable=True), [("unschedulable", "NoSchedule")]),
    ],
)
def test_conditions_become_taints(given: dict[str, Any], expected: list[tuple[str, str]]) -> None:
    changed = tainted(given, TEXT)
    found = (changed or given)["spec"].get("taints", [])
    assert [(each["key"].partition("/")[2], each["effect"]) for each in found] == expected
    assert changed is None or tainted(changed, "later") is None


def test_a_taint_that_stays_keeps_its_time_and_those_of_others_stay() -> None:
    old = {"key": KEY, "effect": "NoExecute", "timeAdded": "2026-01-01T00:00:00Z"}
    theirs = {"key": "theirs", "effect": "NoSchedule"}
    changed = tainted(node(("Ready", "Unknown"), taints=[theirs, old]), TEXT)
    assert changed is not None
    assert changed["spec"]["taints"] == [theirs, old, {"key": KEY, "effect": "NoSchedule", "timeAdded": TEXT}]


def test_nobody_knows_how_a_lost_node_is_and_it_says_whether_it_ever_spoke() -> None:
    conditions = {each["type"]: each for each in lost(node(("Ready", "True")), TEXT)["status"]["conditions"]}
    assert {each["status"] for each in conditions.values()} == {"Unknown"}
    assert conditions["Ready"]["reason"] == "NodeStatusUnknown"
    assert conditions["DiskPressure"]["reason"] == "NodeStatusNeverUpdated"


@pytest.mark.parametrize(
    ("tolerations", "expected"),
    [
        ([], NOW),
        ([{"operator": "Exists"}], None),
        ([{"key": KEY, "operator": "Exists"}], None),
        ([{"key": KEY, "operator": "Exists", "tolerationSeconds": 300}], NOW + timedelta(seconds=240)),
        ([{"key": KEY, "operator": "Exists", "tolerationSeconds": -5}], NOW - timedelta(seconds=60)),
        ([{"key": "other", "operator": "Exists"}], NOW),
    ],
)
def test_a_pod_leaves_when_its_tolerance_ends(tolerations: list[dict[str, Any]], expected: datetime | None) -> None:
    taint = {"key": KEY, "effect": "NoExecute", "timeAdded": "2026-01-02T03:03:05Z"}
    taints = driving_taints(node(taints=[taint, {"key": "a", "effect": "NoSchedule"}]))
    assert leaves_at(stay(pod(*tolerations)), taints, NOW) == expected


def test_a_pod_whose_tolerations_cannot_be_read_is_left_in_peace() -> None:
    taints = driving_taints(node(taints=[{"key": KEY, "effect": "NoExecute"}]))
    assert leaves_at(stay(pod({"tolerationSeconds": "soon"})), taints, NOW) is None


def test_a_pod_of_a_lost_node_is_not_ready_and_one_that_was_not_stays_as_it_was() -> None:
    ready = pod(status={"conditions": [{"type": "Ready", "status": "True"}]})
    changed = not_ready(ready, TEXT)
    assert changed is not None
    assert changed["status"]["conditions"] == [{"type": "Ready", "status": "False", "lastTransitionTime": TEXT}]
    assert not_ready(changed, "later") is None
