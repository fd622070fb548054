"""Statuses that do not come from looking at containers, and what is made of two statuses."""

from datetime import timedelta
from typing import Any

import pytest

from pykubelet.api.pod import Pod, PodStatus
from pykubelet.api.struct import changed
from pykubelet.pod.status.pod_status import (
    finished_status,
    illegal_transition,
    merge_status,
    rejected_status,
    same_status,
)
from unit.pod.status_pods import BEFORE, BEFORE_TEXT, NOW, SECOND, look, pod_of, ran, seen, short, state_of, told, value

STATIC = {"annotations": {"kubernetes.io/config.source": "file"}}
LOST = "exited 137 ContainerStatusUnknown"
READY = [{"type": type, "status": "True", "lastTransitionTime": BEFORE_TEXT} for type in ("Ready", "ContainersReady")]
DISRUPTED = {"type": "DisruptionTarget", "status": "True", "lastTransitionTime": BEFORE_TEXT}


# --- rejected


def test_a_rejected_pod_has_failed() -> None:
    status = rejected_status(pod_of(metadata={"generation": 2}), "OutOfcpu", "too much", NOW)
    assert status == told(
        phase="Failed",
        reason="OutOfcpu",
        message="Pod was rejected: too much",
        startTime="2025-06-01T12:30:15Z",
        qosClass="BestEffort",
        observedGeneration=2,
    )


def test_a_rejected_pod_keeps_its_start_time() -> None:
    assert rejected_status(pod_of(status={"startTime": BEFORE_TEXT}), "R", "m", NOW).start_time == BEFORE


# --- finished


@pytest.mark.parametrize(
    ("metadata", "phase", "expected"),
    [
        pytest.param({}, "Succeeded", "Succeeded", id="success stays"),
        pytest.param({}, "Failed", "Failed", id="failure stays"),
        pytest.param({}, "Running", "Failed", id="running becomes failed"),
        pytest.param({}, "Pending", "Failed", id="pending becomes failed"),
        pytest.param({}, "", "Failed", id="unheard of becomes failed"),
        pytest.param(STATIC, "Running", "Running", id="a static pod is not final"),
    ],
)
def test_a_finished_pod_has_a_final_phase(metadata: dict[str, Any], phase: str, expected: str) -> None:
    assert finished_status(pod_of(metadata=metadata), told(phase=phase), now=NOW).phase == expected


@pytest.mark.parametrize(
    ("init", "shown", "expected"),
    [
        pytest.param((), {}, LOST, id="no init containers"),
        pytest.param(("i",), {}, "running", id="the API shows nothing of it"),
        pytest.param(("i",), {"containerStatuses": [ran("c")]}, LOST, id="main was running"),
        pytest.param(("i",), {"containerStatuses": [ran("c", "waiting")]}, "running", id="main was waiting"),
        pytest.param(
            ("i",),
            {"containerStatuses": [ran("c", "waiting", lastState=state_of("exited 1"))]},
            LOST,
            id="main had run before",
        ),
        pytest.param(("i",), {"initContainerStatuses": [ran("i", "exited 0")]}, LOST, id="init had succeeded"),
        pytest.param(("i",), {"initContainerStatuses": [ran("i", "exited 1")]}, "running", id="init had failed"),
        pytest.param(
            ("i",),
            {"initContainerStatuses": [ran("i", lastState=state_of("exited 0"))]},
            LOST,
            id="init had succeeded before",
        ),
        pytest.param(("i",), {"initContainerStatuses": [ran("x", "exited 0")]}, "running", id="init is another one"),
        pytest.param(
            ("i",),
            {"initContainerStatuses": [ran("i", "exited 0"), ran("j", "exited 0")]},
            "running",
            id="more init containers than the spec has",
        ),
        pytest.param(
            ("side",), {"initContainerStatuses": [ran("side", started=True)]}, LOST, id="the sidecar had started"
        ),
        pytest.param(("side",), {"initContainerStatuses": [ran("side")]}, "running", id="the sidecar was starting"),
        pytest.param(
            ("side",), {"initContainerStatuses": [ran("side", "exited 0")]}, "running", id="the sidecar had ended"
        ),
    ],
)
def test_an_end_that_nobody_saw_is_a_failure_once_the_pod_was_initialized(
    init: tuple[str, ...], shown: dict[str, Any], expected: str
) -> None:
    previous = told(phase="Running", containerStatuses=[ran("c"), ran("d", "exited 0")])
    status = finished_status(pod_of("c", "d", init=init, status=shown), previous, now=NOW)
    assert [short(each.state) for each in status.container_statuses] == [expected, "exited 0 Completed"]


@pytest.mark.parametrize(
    ("states", "expected"),
    [
        pytest.param([], [], id="none"),
        pytest.param(["waiting", "waiting"], [LOST, "waiting"], id="the first always counts as tried"),
        pytest.param(["running", "waiting"], [LOST, "waiting"], id="those that never had their turn keep waiting"),
        pytest.param(["waiting", "running"], [LOST, LOST], id="those before one that ran had theirs"),
        pytest.param(["exited 0", "waiting again"], ["exited 0", LOST], id="one that had run before"),
    ],
)
def test_init_containers_that_were_tried_count_as_failed(states: list[str], expected: list[str]) -> None:
    def one(place: int, state: str) -> dict[str, Any]:
        before = state_of("exited 1") if state.endswith("again") else {}
        return ran(f"i{place}", state.removesuffix(" again"), lastState=before)

    previous = told(initContainerStatuses=[one(place, state) for place, state in enumerate(states)])
    status = finished_status(pod_of(init=("i0", "i1")), previous, now=NOW)
    states = [short(each.state) for each in status.init_container_statuses]
    assert [state.removesuffix(" Completed").removesuffix(" ContainerCreating") for state in states] == expected


def test_a_finished_pod_is_not_ready() -> None:
    status = finished_status(pod_of(metadata={"generation": 3}), told(phase="Running", conditions=READY), now=NOW)
    assert value(status, "Ready") == value(status, "ContainersReady") == "False PodFailed"
    assert {(c.last_transition_time, c.observed_generation) for c in status.conditions} == {(SECOND, 3)}


def test_a_finished_pod_that_was_not_ready_keeps_its_conditions() -> None:
    previous = told(phase="Succeeded", conditions=[{"type": "Ready", "status": "False", "reason": "PodCompleted"}])
    assert finished_status(pod_of(), previous, now=NOW) == changed(previous, start_time=SECOND)


# --- illegal transitions


@pytest.mark.parametrize(
    ("pod", "old", "new", "expected"),
    [
        pytest.param(pod_of(), "exited 0", "running", "", id="it may always be started again"),
        pytest.param(pod_of(policy="Never"), "running", "waiting", "", id="it had not ended"),
        pytest.param(pod_of(policy="Never"), "exited 1", "exited 1", "", id="it stays ended"),
        pytest.param(pod_of(policy="OnFailure"), "exited 1", "running", "", id="a failure may be tried again"),
        pytest.param(
            pod_of(policy="OnFailure"),
            "exited 0",
            "running",
            "terminated container c attempted illegal transition to non-terminated state",
            id="a success is final",
        ),
        pytest.param(
            pod_of(policy="Never"),
            "exited 1",
            "waiting",
            "terminated container c attempted illegal transition to non-terminated state",
            id="without restart every end is final",
        ),
    ],
)
def test_a_container_does_not_come_back_from_a_final_end(pod: Pod, old: str, new: str, expected: str) -> None:
    before, after = told(containerStatuses=[ran("c", old)]), told(containerStatuses=[ran("c", new)])
    assert illegal_transition(pod, before, after) == expected


@pytest.mark.parametrize(
    ("init", "old", "expected"),
    [
        pytest.param("i", "exited 0", "terminated init container i attempted illegal", id="a success is final"),
        pytest.param("i", "exited 1", "", id="a failure may be tried again"),
        pytest.param("side", "exited 0", "", id="a sidecar is always started again"),
    ],
)
def test_an_init_container_does_not_come_back_from_success(init: str, old: str, expected: str) -> None:
    before, after = told(initContainerStatuses=[ran(init, old)]), told(initContainerStatuses=[ran(init)])
    problem = illegal_transition(pod_of(init=(init,), policy="OnFailure"), before, after)
    assert problem.startswith(expected)
    assert bool(problem) == bool(expected)


def test_a_status_of_another_spec_is_a_mistake() -> None:
    problem = illegal_transition(pod_of(policy="Never"), told(initContainerStatuses=[ran("x")]), PodStatus())
    assert problem == "found mismatch between pod spec and status, container: x"


# --- merged


def test_what_is_not_ours_stays() -> None:
    theirs = {"type": "example.com/Theirs", "status": "True"}
    old = told(
        phase="Running",
        conditions=[{"type": "Ready", "status": "True"}, theirs],
        resourceClaimStatuses=[{"name": "claim"}],
        extendedResourceClaimStatus={"resourceClaimName": "gpu"},
    )
    stale = {"type": "example.com/Theirs", "status": "False"}
    new = told(phase="Running", podIP="10.0.0.1", conditions=[stale, {"type": "Ready", "status": "False"}])
    merged = merge_status(old, new, now=NOW)
    assert merged == told(
        phase="Running",
        podIP="10.0.0.1",
        conditions=[theirs, {"type": "Ready", "status": "False"}],
        resourceClaimStatuses=[{"name": "claim"}],
        extendedResourceClaimStatus={"resourceClaimName": "gpu"},
    )


@pytest.mark.parametrize(
    ("old_phase", "new_phase", "could_be_running", "expected"),
    [
        pytest.param("Running", "Failed", True, ("Running", "", "was"), id="not while containers may run"),
        pytest.param("Running", "Failed", False, ("Failed", "Evicted", "is"), id="once they have ended"),
        pytest.param("Pending", "Running", True, ("Running", "Evicted", "is"), id="other changes do not wait"),
        pytest.param("Failed", "Failed", True, ("Failed", "Evicted", "is"), id="an end that is known does not wait"),
    ],
)
def test_a_pod_ends_only_when_nothing_of_it_runs(
    old_phase: str, new_phase: str, could_be_running: bool, expected: tuple[str, str, str]
) -> None:
    old, new = told(phase=old_phase, message="was"), told(phase=new_phase, reason="Evicted", message="is")
    merged = merge_status(old, new, could_be_running=could_be_running)
    assert (merged.phase, merged.reason, merged.message) == expected


@pytest.mark.parametrize("old_phase", ["Running", "Failed"])
@pytest.mark.parametrize("could_be_running", [False, True])
def test_a_disruption_is_reported_together_with_the_end(old_phase: str, could_be_running: bool) -> None:
    merged = merge_status(
        told(phase=old_phase), told(phase="Failed", conditions=[DISRUPTED]), now=NOW, could_be_running=could_be_running
    )
    is_the_end = old_phase == "Running" and not could_be_running
    assert [c.last_transition_time for c in merged.conditions] == ([SECOND] if is_the_end else [])


def test_a_disruption_that_was_known_keeps_its_place_and_time() -> None:
    other = {"type": "Other", "status": "True"}
    old = told(phase="Running", conditions=[DISRUPTED, other])
    new = told(phase="Failed", conditions=[DISRUPTED | {"reason": "Evicted"}])
    merged = merge_status(old, new, now=NOW)
    assert [(c.type, c.reason) for c in merged.conditions] == [("DisruptionTarget", "Evicted"), ("Other", "")]
    assert merged.conditions[0].last_transition_time == BEFORE


@pytest.mark.parametrize(("phase", "reason"), [("Failed", "PodFailed"), ("Succeeded", "PodCompleted")])
def test_an_ended_pod_is_never_reported_as_ready(phase: str, reason: str) -> None:
    merged = merge_status(told(phase="Running"), told(phase=phase, conditions=READY), now=NOW)
    assert value(merged, "Ready") == value(merged, "ContainersReady") == f"False {reason}"
    assert {c.last_transition_time for c in merged.conditions} == {SECOND}
    undated = merge_status(told(phase="Running"), told(phase=phase, conditions=READY))
    assert value(undated, "Ready") == f"False {reason}"


# --- compared


RICH = look(pod_of("a", "b", init=("i",)), seen("a"), seen("i", "exited", finished_at=BEFORE, started_at=BEFORE))


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(RICH, id="itself"),
        pytest.param(
            changed(RICH, start_time=SECOND + timedelta(milliseconds=5)),
            id="fractions of seconds",
        ),
        pytest.param(
            changed(RICH, conditions=tuple(changed(c, last_transition_time=BEFORE) for c in RICH.conditions)),
            id="when conditions changed",
        ),
        pytest.param(
            changed(RICH, conditions=tuple(changed(c, observed_generation=9) for c in RICH.conditions)),
            id="the generation of conditions",
        ),
        pytest.param(changed(RICH, conditions=RICH.conditions[::-1]), id="the order of conditions"),
        pytest.param(
            changed(RICH, conditions=(*RICH.conditions, *told(conditions=[{"type": "Theirs"}]).conditions)),
            id="conditions of others",
        ),
        pytest.param(changed(RICH, container_statuses=RICH.container_statuses[::-1]), id="the order of containers"),
        pytest.param(
            changed(RICH, resource_claim_statuses=told(resourceClaimStatuses=[{"name": "x"}]).resource_claim_statuses),
            id="claims, which others write",
        ),
    ],
)
def test_statuses_that_say_the_same_are_the_same(other: PodStatus) -> None:
    assert same_status(RICH, other)
    assert same_status(other, RICH)


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(changed(RICH, phase="Failed"), id="phase"),
        pytest.param(changed(RICH, pod_ip="10.0.0.99"), id="address"),
        pytest.param(changed(RICH, start_time=BEFORE), id="start time"),
        pytest.param(changed(RICH, observed_generation=9), id="observed generation"),
        pytest.param(changed(RICH, conditions=RICH.conditions[1:]), id="a condition less"),
        pytest.param(
            changed(RICH, conditions=(changed(RICH.conditions[0], status="Unknown"), *RICH.conditions[1:])),
            id="a condition's value",
        ),
        pytest.param(
            changed(RICH, conditions=(changed(RICH.conditions[0], message="why"), *RICH.conditions[1:])),
            id="a condition's message",
        ),
        pytest.param(
            changed(RICH, conditions=(*RICH.conditions, *told(conditions=[DISRUPTED]).conditions)),
            id="a disruption",
        ),
        pytest.param(
            look(pod_of("a", "b", init=("i",)), seen("a"), seen("b"), seen("i", "exited", finished_at=BEFORE)),
            id="a container's state",
        ),
    ],
)
def test_statuses_that_say_something_else_differ(other: PodStatus) -> None:
    assert not same_status(RICH, other)
    assert not same_status(other, RICH)


def test_fractions_of_seconds_in_a_containers_life_do_not_count() -> None:
    status = RICH.init_container_statuses[0]
    assert status.state.terminated is not None
    later = changed(status.state.terminated, finished_at=BEFORE + timedelta(microseconds=7))
    other = changed(RICH, init_container_statuses=(changed(status, state=changed(status.state, terminated=later)),))
    assert same_status(RICH, other)
