"""Objects as rows."""

from datetime import UTC, datetime
from typing import Any

import pytest

from pykubelet.api.durations import span
from pykubelet.apiserver.schema.kinds import Resources
from pykubelet.apiserver.tables.pod_rows import pod_cells
from pykubelet.apiserver.tables.tables import table

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
BORN = "2026-01-01T11:59:30Z"


def _pod(status: dict[str, Any], **more: Any) -> dict[str, Any]:
    spec = {"containers": [{"name": "a"}, {"name": "b"}], **more.pop("spec", {})}
    return {"metadata": {"name": "p", "creationTimestamp": BORN, **more}, "spec": spec, "status": status}


def _container(name: str, ready: bool = False, restarts: int = 0, **state: Any) -> dict[str, Any]:
    return {"name": name, "ready": ready, "restartCount": restarts, "state": state}


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-5, "<invalid>"),
        (-1, "0s"),
        (119, "119s"),
        (120, "2m"),
        (150, "2m30s"),
        (601, "10m"),
        (3 * 3600, "3h"),
        (3 * 3600 + 60, "3h1m"),
        (20 * 3600, "20h"),
        (2 * 86400, "2d"),
        (2 * 86400 + 3600, "2d1h"),
        (30 * 86400, "30d"),
        (800 * 86400, "2y70d"),
        (4000 * 86400, "10y"),
    ],
)
def test_ages_are_short_and_as_fine_as_they_need_to_be(seconds: int, text: str) -> None:
    assert span(seconds) == text


@pytest.mark.parametrize(
    ("status", "ready", "word"),
    [
        ({"phase": "Pending"}, "0/2", "Pending"),
        ({"phase": "Failed", "reason": "Evicted"}, "0/2", "Evicted"),
        (
            {
                "phase": "Running",
                "containerStatuses": [
                    _container("a", True, running={}),
                    _container("b", waiting={"reason": "CrashLoopBackOff"}),
                ],
            },
            "1/2",
            "CrashLoopBackOff",
        ),
        (
            {"phase": "Pending", "initContainerStatuses": [_container("i", terminated={"exitCode": 3})]},
            "0/2",
            "Init:ExitCode:3",
        ),
        ({"phase": "Pending", "initContainerStatuses": [_container("i", running={})]}, "0/2", "Init:0/1"),
        (
            {"phase": "Succeeded", "containerStatuses": [_container("a", terminated={"reason": "Completed"})]},
            "0/2",
            "Completed",
        ),
    ],
)
def test_one_word_says_how_a_pod_is(status: dict[str, Any], ready: str, word: str) -> None:
    init = [{"name": "i"}] if "initContainerStatuses" in status else []
    cells = pod_cells(_pod(status, spec={"initContainers": init}), NOW)
    assert cells[1:3] == [ready, word]


def test_a_pod_that_is_being_deleted_is_terminating() -> None:
    assert pod_cells(_pod({"phase": "Running"}, deletionTimestamp=BORN), NOW)[2] == "Terminating"


def test_restarts_come_with_the_time_of_the_last() -> None:
    ended = {"lastState": {"terminated": {"finishedAt": "2026-01-01T11:55:00Z"}}}
    status = {"phase": "Running", "containerStatuses": [{**_container("a", True, 3, running={}), **ended}]}
    assert pod_cells(_pod(status), NOW)[3] == "3 (5m ago)"


def test_every_kind_has_as_many_cells_as_columns() -> None:
    for resource in Resources():
        obj = {"metadata": {"name": "x", "creationTimestamp": BORN}}
        shown = table(resource, [obj], {}, "v1", "Metadata", NOW)
        assert len(shown["rows"][0]["cells"]) == len(shown["columnDefinitions"]), resource.kind


def test_a_node_shows_its_roles_and_whether_it_takes_pods() -> None:
    node = {
        "metadata": {"name": "n", "creationTimestamp": BORN, "labels": {"node-role.kubernetes.io/control-plane": ""}},
        "spec": {"unschedulable": True},
        "status": {"conditions": [{"type": "Ready", "status": "True"}], "nodeInfo": {"kubeletVersion": "v1.34.0"}},
    }
    cells = table(Resources().of("", "nodes"), [node], {}, "v1", "None", NOW)["rows"][0]["cells"]
    assert cells[:5] == ["n", "Ready,SchedulingDisabled", "control-plane", "30s", "v1.34.0"]
