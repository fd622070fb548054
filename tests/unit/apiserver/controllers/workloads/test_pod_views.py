"""A pod as its owner sees it."""

from datetime import timedelta
from typing import Any

from kit.cluster import START
from pykubelet.apiserver.controllers.workloads.pod_views import next_availability, pod_view
from pykubelet.apiserver.objects import Object


def pod(since: str | None = "2026-01-02T03:04:00Z", **metadata: Any) -> Object:
    conditions = [{"type": "Ready", "status": "True", "lastTransitionTime": since}] if since else []
    return {"metadata": {"name": "a", **metadata}, "status": {"phase": "Running", "conditions": conditions}}


def test_a_pod_is_available_once_it_was_ready_for_long_enough() -> None:
    view = pod_view(pod())
    assert view.is_available(0, START)
    assert view.is_available(5, START)
    assert not view.is_available(6, START)
    assert not pod_view(pod(None)).is_available(0, START)
    assert not pod_view(pod("never")).is_available(1, START)
    assert next_availability([view], 30, START) == 25
    assert next_availability([view], 30, START + timedelta(minutes=1)) is None
    assert next_availability([view], 0, START) is None


def test_a_pod_that_is_over_or_leaves_is_not_active() -> None:
    assert pod_view(pod()).is_active
    leaving = pod_view(pod(deletionTimestamp="2026-01-02T03:04:05Z"))
    assert (leaving.is_active, leaving.is_terminating) == (False, True)
    ended = pod_view({**pod(), "status": {"phase": "Failed"}})
    assert (ended.is_active, ended.is_terminating) == (False, False)


def test_the_node_that_an_affinity_names_is_where_it_is_aimed_at() -> None:
    field = {"key": "metadata.name", "operator": "In", "values": ["n1"]}
    required = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    assert pod_view({**pod(), "spec": {"affinity": affinity}}).aimed_at == "n1"
    assert pod_view({**pod(), "spec": {"affinity": affinity, "nodeName": "n2"}}).aimed_at == "n2"
    assert pod_view(pod()).aimed_at == ""
