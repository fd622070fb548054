"""Which pods go first, and what the status says."""

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from kit.cluster import START
from pykubelet.apiserver.controllers.workloads.pod_views import PodView, pod_view
from pykubelet.apiserver.controllers.workloads.replica_rules import status_of, to_delete
from pykubelet.apiserver.objects import Object

NOW = START
OLD = NOW - timedelta(hours=1)
WELL = {
    "node": "n1",
    "phase": "Running",
    "is_ready": True,
    "ready_since": OLD,
    "created": OLD,
}


def pod(name: str, **facts: Any) -> PodView:
    plain = pod_view({"metadata": {"name": name, "namespace": "default", "uid": name}})
    return msgspec.structs.replace(plain, **{**WELL, **facts})


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({"node": ""}, {}),
        ({"phase": "Pending"}, {"phase": "Unknown"}),
        ({"phase": "Unknown"}, {}),
        ({"is_ready": False}, {}),
        ({"cost": -5}, {}),
        ({}, {"cost": 1}),
        ({"ready_since": NOW - timedelta(seconds=5)}, {}),
        ({"ready_since": None}, {}),
        ({"restarts": (2, 0)}, {"restarts": (1, 5)}),
        ({"restarts": (1, 1)}, {"restarts": (1, 0)}),
        ({"created": NOW - timedelta(seconds=1)}, {}),
        ({"node": "", "cost": 100}, {"cost": -100}),
        ({"phase": "Pending", "restarts": (0, 0)}, {"restarts": (9, 9)}),
    ],
)
def test_the_one_that_is_missed_least_goes_first(first: dict[str, Any], second: dict[str, Any]) -> None:
    for one, other in (("a", "z"), ("z", "a")):
        pods = [pod(one, **first), pod(other, **second)]
        assert to_delete(pods, pods, 1, NOW) == [pods[0]]
        assert to_delete(pods[::-1], pods, 1, NOW) == [pods[0]]


def test_of_those_that_share_a_node_one_goes_first() -> None:
    pods = [pod("alone", node="n2"), pod("one"), pod("two")]
    (gone,) = to_delete(pods, pods, 1, NOW)
    assert gone.node == "n1"
    related = [*pods, pod("x", node="n2"), pod("y", node="n2")]
    (gone,) = to_delete(pods, related, 1, NOW)
    assert gone.name == "alone"


def test_among_the_old_it_is_a_matter_of_chance_and_always_the_same() -> None:
    pods = [pod(name, ready_since=OLD - timedelta(minutes=number)) for number, name in enumerate("dbca")]
    assert [each.name for each in to_delete(pods, pods, 2, NOW)] == ["a", "b"]


def owner(**status: Any) -> Object:
    spec = {"replicas": 2, "minReadySeconds": 10, "template": {"metadata": {"labels": {"app": "web"}}}}
    return {"metadata": {"name": "web", "generation": 4}, "spec": spec, "status": status}


def test_the_status_counts_what_is_there() -> None:
    pods = [
        pod("a", labels={"app": "web"}),
        pod("b", labels={"app": "other"}, ready_since=NOW - timedelta(seconds=9)),
        pod("c", is_ready=False),
    ]
    assert status_of(owner(), pods, "", NOW) == {
        "replicas": 3,
        "fullyLabeledReplicas": 1,
        "readyReplicas": 2,
        "availableReplicas": 1,
        "observedGeneration": 4,
    }


def test_a_failure_is_told_once_and_taken_back() -> None:
    told = status_of(owner(), [], "no", NOW)["conditions"]
    assert told == [
        {
            "type": "ReplicaFailure",
            "status": "True",
            "reason": "FailedCreate",
            "message": "no",
            "lastTransitionTime": "2026-01-02T03:04:05Z",
        }
    ]
    later = NOW + timedelta(minutes=1)
    assert status_of(owner(conditions=told), [], "still no", later)["conditions"] == told
    assert "conditions" not in status_of(owner(conditions=told), [], "", later)
    many = [pod("a"), pod("b"), pod("c")]
    assert status_of(owner(), many, "no", NOW)["conditions"][0]["reason"] == "FailedDelete"


@pytest.mark.parametrize(
    ("text", "cost"), [("7", 7), ("-7", -7), ("+7", 0), ("x", 0), ("", 0), ("99999999999", 0), ("2147483648", 0)]
)
def test_a_deletion_cost_that_is_no_number_counts_for_nothing(text: str, cost: int) -> None:
    annotations = {"controller.kubernetes.io/pod-deletion-cost": text}
    assert pod_view({"metadata": {"name": "a", "annotations": annotations}}).cost == cost
