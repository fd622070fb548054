"""What a node has to do about a volume that has grown, as a table."""

from datetime import UTC, datetime
from typing import Any

import pytest

from pykubelet.api import codec
from pykubelet.api.quantity import Quantity, parse
from pykubelet.api.storage import ClaimedVolume
from pykubelet.pod.container.volume_expansion import Growth, failed, finished, growth, in_progress

NOT_REQUIRED = {"volume.kubernetes.io/node-expansion-not-required": "true"}


def claimed(
    has: str,
    volume: str,
    step: str = "",
    allocated: str = "",
    *,
    mode: str = "ReadWriteOnce",
    annotations: dict[str, str] | None = None,
    conditions: tuple[str, ...] = (),
) -> ClaimedVolume:
    status: dict[str, Any] = {"capacity": {"storage": has}}
    status |= {"allocatedResourceStatuses": {"storage": step}} if step else {}
    status |= {"allocatedResources": {"storage": allocated}} if allocated else {}
    status["conditions"] = [{"type": kind, "status": "True"} for kind in conditions]
    claim = {
        "metadata": {"name": "c", "namespace": "ns", "resourceVersion": "7", "annotations": annotations or {}},
        "spec": {"accessModes": [mode]},
        "status": status,
    }
    pv = {"metadata": {"name": "v"}, "spec": {"capacity": {"storage": volume}}}
    return codec.convert(ClaimedVolume, {"claim": claim, "volume": pv})


@pytest.mark.parametrize(
    ("found", "before", "expected"),
    [
        (claimed("1Gi", "1Gi"), None, "nothing"),
        (claimed("2Gi", "1Gi"), None, "nothing"),
        (claimed("1Gi", "2Gi"), "2Gi", "nothing"),
        # a controller that says nothing of how far it is
        (claimed("1Gi", "2Gi"), None, "expand 2Gi"),
        (claimed("1Gi", "2Gi"), "1Gi", "expand 2Gi"),
        (claimed("2Gi", "2Gi"), "1Gi", "expand 2Gi known"),
        # one that does
        (claimed("1Gi", "2Gi", "NodeResizePending", "2Gi"), None, "expand 2Gi followed"),
        (claimed("1Gi", "2Gi", "NodeResizeInProgress", "2Gi"), None, "expand 2Gi followed"),
        (claimed("1Gi", "3Gi", "NodeResizePending", "2Gi"), None, "expand 2Gi followed"),
        (claimed("1Gi", "2Gi", "ControllerResizeInProgress", "2Gi"), None, "wait"),
        (claimed("1Gi", "2Gi", "NodeResizeInfeasible", "2Gi"), None, "wait"),
        (claimed("1Gi", "2Gi", "", "2Gi"), None, "wait"),
        (claimed("2Gi", "2Gi", "", "2Gi"), "1Gi", "done 2Gi"),
        # every node does its part of what several nodes write to
        (claimed("2Gi", "2Gi", "", "2Gi", mode="ReadWriteMany"), "1Gi", "expand 2Gi followed known"),
        (claimed("2Gi", "2Gi", "", "2Gi", mode="ReadWriteMany", annotations=NOT_REQUIRED), "1Gi", "done 2Gi"),
    ],
)
def test_what_is_to_be_done(found: ClaimedVolume, before: str | None, expected: str) -> None:
    assert _words(growth(found, parse(before) if before else None)) == expected


def _words(todo: Growth) -> str:
    words = [todo.verdict, *([str(todo.size)] if todo.size is not None else [])]
    return " ".join([*words, *(["followed"] if todo.is_followed else []), *(["known"] if todo.is_known else [])])


def test_a_claim_is_told_of_progress_and_of_the_end_and_nothing_else() -> None:
    claim = claimed(
        "1Gi", "2Gi", "NodeResizePending", "2Gi", conditions=("FileSystemResizePending", "NodeResizeError", "Others")
    ).claim
    version = {"resourceVersion": "7"}
    assert in_progress(claim) == {
        "metadata": version,
        "status": {"allocatedResourceStatuses": {"storage": "NodeResizeInProgress"}},
    }
    assert finished(claim, Quantity.of(2)) == {
        "metadata": version,
        "status": {
            "capacity": {"storage": "2"},
            "allocatedResourceStatuses": {"storage": None},
            "conditions": [
                {"$patch": "delete", "type": "FileSystemResizePending"},
                {"$patch": "delete", "type": "NodeResizeError"},
            ],
        },
    }
    assert finished(claimed("1Gi", "2Gi").claim, Quantity.of(2))["status"] == {"capacity": {"storage": "2"}}


def test_a_failure_is_told_once() -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    new, told = claimed("1Gi", "2Gi").claim, claimed("1Gi", "2Gi", conditions=("NodeResizeError",)).claim
    first = failed(new, "no", now, infeasible=True)
    assert first is not None
    assert first["status"]["allocatedResourceStatuses"] == {"storage": "NodeResizeInfeasible"}
    assert first["status"]["conditions"][0]["message"] == "failed to expand pvc with no"
    assert failed(told, "no", now, infeasible=False) is None
