"""What is reported of one container: its state, its last state, its restarts, whether it has started and is ready."""

from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from pykubelet.api.container import ResourceRequirements
from pykubelet.api.pod import ContainerStatus, ContainerUser, LinuxContainerUser, Pod
from pykubelet.api.struct import changed
from pykubelet.pod.lifecycle.probe_results import ProbeResults, Result
from pykubelet.pod.observed import ObservedContainer
from pykubelet.pod.status.container_status import LONGEST_MESSAGES
from pykubelet.pod.status.pod_status import NodeFacts, Waiting
from unit.pod.status_pods import BEFORE, NODE, PROBE, look, only, pod_of, ran, seen, short, told

DELETED = {"deletionTimestamp": "2025-06-01T12:00:00Z"}
LOST = "exited 137 ContainerStatusUnknown"
CRASH = {"c": Waiting("CrashLoopBackOff", "back-off 10s")}


def view(status: ContainerStatus) -> tuple[str, str, int]:
    return short(status.state), short(status.last_state), status.restart_count


# --- state


@pytest.mark.parametrize(
    ("attempts", "old", "expected"),
    [
        pytest.param((), None, ("waiting ContainerCreating", "-", 0), id="never made"),
        pytest.param((seen("c"),), None, ("running", "-", 0), id="running"),
        pytest.param((seen("c", "created"),), None, ("waiting", "-", 0), id="created is waiting, for no reason"),
        pytest.param((seen("c", "unknown"),), None, ("waiting", "-", 0), id="unknown is waiting, for no reason"),
        pytest.param((seen("c", "exited", 3, reason="Error"),), None, ("exited 3 Error", "-", 0), id="ended"),
        pytest.param((seen("c", attempt=4),), ran("c", restarts=3), ("running", "-", 4), id="the runtime counts"),
        pytest.param((seen("c", attempt=1),), ran("c", restarts=3), ("running", "-", 1), id="even downwards"),
        pytest.param(
            (seen("c", attempt=1), seen("c", "exited", 1, reason="OOMKilled")),
            None,
            ("running", "exited 1 OOMKilled", 1),
            id="the attempt before is the last state",
        ),
        pytest.param(
            (seen("c", attempt=2), seen("c", "exited", 1, 1), seen("c", "exited", 2)),
            None,
            ("running", "exited 1", 2),
            id="older attempts are forgotten",
        ),
        pytest.param(
            (seen("c"),),
            ran("c", "waiting", lastState={"terminated": {"exitCode": 1}}),
            ("running", "-", 0),
            id="a last state that the runtime has forgotten is too",
        ),
        pytest.param(
            (seen("c", "unknown", attempt=1),), ran("c", restarts=4), (LOST, "-", 5), id="lost while it was running"
        ),
        pytest.param(
            (seen("c", "unknown", attempt=1),), ran("c", "exited 1", 4), ("waiting", "-", 1), id="lost after its end"
        ),
        pytest.param((), ran("c", "waiting", 2), ("waiting ContainerCreating", "-", 2), id="forgotten before it ran"),
        pytest.param((), ran("c", restarts=2), ("waiting ContainerCreating", LOST, 3), id="forgotten while it ran"),
        pytest.param((), ran("c", "exited 1", 2), ("exited 1 Error", "-", 2), id="forgotten after its end"),
        pytest.param(
            (),
            ran("c", restarts=2, lastState={"terminated": {"exitCode": 7}}),
            ("waiting ContainerCreating", "exited 7", 2),
            id="forgotten while it ran, but an earlier end is known",
        ),
        pytest.param((), ran("c", "?", 2), ("waiting ContainerCreating", "-", 2), id="nothing was known of it"),
    ],
)
def test_the_state_follows_from_the_runtime_and_the_last_report(
    attempts: tuple[ObservedContainer, ...], old: dict[str, Any] | None, expected: tuple[str, str, int]
) -> None:
    status = look(pod_of(), *attempts, previous=told(containerStatuses=[old] if old else []))
    assert view(only(status)) == expected


def test_a_container_that_vanished_from_a_deleted_pod_is_not_restarted() -> None:
    status = only(look(pod_of(metadata=DELETED), previous=told(containerStatuses=[ran("c", restarts=2)])))
    assert view(status) == ("waiting ContainerCreating", LOST, 2)
    assert status.last_state.terminated is not None
    assert status.last_state.terminated.message == (
        "The container could not be located when the pod was deleted.  The container used to be Running"
    )


def test_main_containers_wait_for_initialization() -> None:
    status = look(pod_of(init=("i",), ephemeral=("e",)))
    everyone = (*status.init_container_statuses, *status.container_statuses, *status.ephemeral_container_statuses)
    assert {short(each.state) for each in everyone} == {"waiting PodInitializing"}


def test_a_running_container_is_described_in_full() -> None:
    zone = timezone(timedelta(hours=2))
    started = datetime(2025, 6, 1, 13, 0, 0, 700_000, tzinfo=zone)
    status = only(look(pod_of(), seen("c", started_at=started)))
    assert status == ContainerStatus(
        name="c",
        state=status.state,
        ready=True,
        started=True,
        image="img",
        image_id="img@sha",
        container_id="test://c-0",
        resources=ResourceRequirements(),
    )
    assert status.state.running is not None
    assert status.state.running.started_at == BEFORE


def test_whom_a_container_runs_as_is_told_where_the_runtime_says_so() -> None:
    user = ContainerUser(linux=LinuxContainerUser(uid=7, gid=8, supplemental_groups=(9,)))
    pod = pod_of("c")
    assert look(pod, seen("c", user=user)).container_statuses[0].user == user
    assert look(pod, seen("c")).container_statuses[0].user is None


def test_an_end_is_described_in_full() -> None:
    moment = BEFORE + timedelta(milliseconds=300)
    last = seen("c", "exited", 143, reason="Error", message="bye", started_at=moment, finished_at=moment)
    ended = only(look(pod_of(), last)).state.terminated
    assert ended is not None
    assert (ended.exit_code, ended.signal, ended.reason, ended.message) == (143, None, "Error", "bye")
    assert (ended.started_at, ended.finished_at, ended.container_id) == (BEFORE, BEFORE, "test://c-0")


@pytest.mark.parametrize(
    ("message", "containers", "expected"),
    [
        pytest.param("x" * LONGEST_MESSAGES, ("c",), LONGEST_MESSAGES, id="one container may use it all"),
        pytest.param("x" * (LONGEST_MESSAGES + 1), ("c",), LONGEST_MESSAGES, id="but no more"),
        pytest.param("x" * LONGEST_MESSAGES, ("c", "d", "e"), LONGEST_MESSAGES // 3, id="three share it"),
        pytest.param("é" * LONGEST_MESSAGES, ("c",), LONGEST_MESSAGES, id="bytes are counted"),
        pytest.param("a" + "é" * LONGEST_MESSAGES, ("c",), LONGEST_MESSAGES - 1, id="no character is cut in two"),
    ],
)
def test_termination_messages_share_the_room_that_a_pod_has(
    message: str, containers: tuple[str, ...], expected: int
) -> None:
    status = look(pod_of(*containers), seen("c", "exited", message=message))
    ended = status.container_statuses[0].state.terminated
    assert ended is not None
    assert len(ended.message.encode()) == expected


# --- what kept it from starting


@pytest.mark.parametrize(
    ("pod", "attempts", "old", "expected"),
    [
        pytest.param(pod_of(), (), None, ("waiting CrashLoopBackOff", "-", 0), id="never made"),
        pytest.param(pod_of(), (seen("c"),), None, ("running", "-", 0), id="it runs after all"),
        pytest.param(
            pod_of(),
            (seen("c", "exited", 1), seen("c", "exited", 2)),
            None,
            ("waiting CrashLoopBackOff", "exited 1", 0),
            id="between two runs",
        ),
        pytest.param(
            pod_of(policy="Never"), (seen("c", "exited", 1),), None, ("exited 1", "-", 0), id="it ended for good"
        ),
        pytest.param(
            pod_of(policy="OnFailure"), (seen("c", "exited"),), None, ("exited 0", "-", 0), id="it succeeded for good"
        ),
        pytest.param(
            pod_of(policy="OnFailure"),
            (seen("c", "exited", 1),),
            None,
            ("waiting CrashLoopBackOff", "exited 1", 0),
            id="it failed and will be tried again",
        ),
        pytest.param(
            pod_of(policy="Never"),
            (seen("c", "created"),),
            None,
            ("waiting CrashLoopBackOff", "-", 0),
            id="created but not started",
        ),
        pytest.param(
            pod_of(metadata=DELETED), (), None, ("waiting ContainerCreating", "-", 0), id="the pod is leaving"
        ),
        pytest.param(
            pod_of(),
            (),
            ran("c", "exited 1", 2),
            ("waiting CrashLoopBackOff", "exited 1 Error", 2),
            id="forgotten after its end",
        ),
    ],
)
def test_a_container_that_is_to_start_says_why_it_has_not(
    pod: Pod, attempts: tuple[ObservedContainer, ...], old: dict[str, Any] | None, expected: tuple[str, str, int]
) -> None:
    status = look(pod, *attempts, previous=told(containerStatuses=[old] if old else []), waiting=CRASH)
    assert view(only(status)) == expected


def test_the_reason_comes_with_its_message() -> None:
    waiting = only(look(pod_of(), waiting=CRASH)).state.waiting
    assert waiting is not None
    assert (waiting.reason, waiting.message) == ("CrashLoopBackOff", "back-off 10s")


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        pytest.param(0, "exited 0", id="one that succeeded is done"),
        pytest.param(1, "waiting CrashLoopBackOff", id="one that failed waits"),
    ],
)
def test_an_init_container_runs_until_it_succeeds(code: int, expected: str) -> None:
    waiting = {"i": Waiting("CrashLoopBackOff")}
    status = look(pod_of(init=("i",)), seen("i", "exited", code), waiting=waiting)
    assert short(status.init_container_statuses[0].state) == expected


def test_an_ephemeral_container_says_why_it_has_not_started() -> None:
    status = look(pod_of(ephemeral=("e",)), waiting={"e": Waiting("ErrImagePull")})
    assert short(status.ephemeral_container_statuses[0].state) == "waiting ErrImagePull"


# --- started and ready


@pytest.mark.parametrize("kind", ["main", "sidecar"])
@pytest.mark.parametrize(
    ("startup", "readiness", "results", "expected"),
    [
        pytest.param(False, False, {}, (True, True), id="no probes"),
        pytest.param(True, False, {}, (False, False), id="startup not known yet"),
        pytest.param(True, False, {"startup": Result.UNKNOWN}, (False, False), id="startup unknown"),
        pytest.param(True, False, {"startup": Result.FAILURE}, (False, False), id="startup failed"),
        pytest.param(True, False, {"startup": Result.SUCCESS}, (True, True), id="started"),
        pytest.param(False, True, {}, (True, False), id="readiness not known yet"),
        pytest.param(False, True, {"readiness": Result.UNKNOWN}, (True, False), id="readiness unknown"),
        pytest.param(False, True, {"readiness": Result.FAILURE}, (True, False), id="readiness failed"),
        pytest.param(False, True, {"readiness": Result.SUCCESS}, (True, True), id="ready"),
        pytest.param(True, True, {"readiness": Result.SUCCESS}, (False, False), id="ready but not started"),
    ],
)
def test_a_running_container_is_started_and_ready_when_its_probes_say_so(
    kind: str, startup: bool, readiness: bool, results: dict[str, Result], expected: tuple[bool, bool]
) -> None:
    name = "side" if kind == "sidecar" else "c"
    probes = {"startupProbe": startup, "readinessProbe": readiness}
    container = {"name": name, **{probe: PROBE for probe, wanted in probes.items() if wanted}}
    pod = pod_of(init=(container,)) if kind == "sidecar" else pod_of(container)
    found = ProbeResults(**{probe: {f"{name}-0": result} for probe, result in results.items()})
    status = look(pod, seen(name), probes=found)
    (one,) = status.init_container_statuses or status.container_statuses
    assert (one.started, one.ready) == expected


@pytest.mark.parametrize(
    ("attempt", "results", "expected"),
    [
        pytest.param(0, {}, (True, True), id="no answer yet: as it was"),
        pytest.param(0, {"readiness": Result.FAILURE}, (True, False), id="no longer ready"),
        pytest.param(0, {"startup": Result.UNKNOWN}, (False, False), id="startup is being asked again"),
        pytest.param(1, {}, (False, False), id="another attempt begins anew"),
    ],
)
def test_an_agent_that_restarts_does_not_flip_readiness(
    attempt: int, results: dict[str, Result], expected: tuple[bool, bool]
) -> None:
    pod = pod_of({"name": "c", "startupProbe": PROBE, "readinessProbe": PROBE})
    previous = told(containerStatuses=[ran("c", ready=True, started=True, containerID="test://c-0")])
    found = ProbeResults(**{probe: {"c-0": result} for probe, result in results.items()})
    status = only(look(pod, seen("c", attempt=attempt), previous=previous, probes=found))
    assert (status.started, status.ready) == expected


@pytest.mark.parametrize(
    ("attempts", "expected"),
    [
        pytest.param((), (False, False), id="not made"),
        pytest.param((seen("i"),), (True, False), id="running"),
        pytest.param((seen("i", "exited", 1),), (False, False), id="failed"),
        pytest.param((seen("i", "exited", 0),), (False, True), id="succeeded"),
    ],
)
def test_an_init_container_is_ready_once_it_has_succeeded(
    attempts: tuple[ObservedContainer, ...], expected: tuple[bool, bool]
) -> None:
    (status,) = look(pod_of(init=("i",)), *attempts).init_container_statuses
    assert (status.started, status.ready) == expected


def test_nothing_is_said_of_an_ephemeral_containers_readiness() -> None:
    (status,) = look(pod_of(ephemeral=("e",)), seen("e")).ephemeral_container_statuses
    assert (short(status.state), status.started, status.ready) == ("running", None, False)


# --- order, mounts, resources


def test_main_and_ephemeral_containers_come_by_name_and_init_containers_in_their_order() -> None:
    status = look(pod_of("b", "a", init=("z", "side", "y"), ephemeral=("f", "e")), seen("alien"))
    assert [each.name for each in status.container_statuses] == ["a", "b"]
    assert [each.name for each in status.init_container_statuses] == ["z", "side", "y"]
    assert [each.name for each in status.ephemeral_container_statuses] == ["e", "f"]


@pytest.mark.parametrize(
    ("mount", "supported", "expected"),
    [
        pytest.param({}, True, (None, None), id="writable"),
        pytest.param({"readOnly": False}, True, (None, None), id="writable in so many words"),
        pytest.param({"readOnly": True}, True, (True, "Disabled"), id="read-only"),
        pytest.param({"readOnly": True, "recursiveReadOnly": "Disabled"}, True, (True, "Disabled"), id="not recursive"),
        pytest.param({"readOnly": True, "recursiveReadOnly": "IfPossible"}, True, (True, "Enabled"), id="possible"),
        pytest.param({"readOnly": True, "recursiveReadOnly": "IfPossible"}, False, (True, "Disabled"), id="impossible"),
        pytest.param({"readOnly": True, "recursiveReadOnly": "Enabled"}, True, (True, "Enabled"), id="recursive"),
        pytest.param(
            {"readOnly": True, "recursiveReadOnly": "Enabled", "mountPropagation": "HostToContainer"},
            True,
            (True, "Disabled"),
            id="propagated mounts cannot be",
        ),
    ],
)
def test_mounts_tell_how_read_only_they_are(
    mount: dict[str, Any], supported: bool, expected: tuple[bool | None, str | None]
) -> None:
    pod = pod_of({"name": "c", "volumeMounts": [{"name": "v", "mountPath": "/v", **mount}]})
    first = look(pod, node=NodeFacts(recursive_read_only=supported))
    (reported,) = only(first).volume_mounts
    assert (reported.read_only, reported.recursive_read_only) == expected
    assert only(look(pod, seen("c"), previous=first)).volume_mounts == (reported,)


def test_resources_are_what_the_spec_asks_for() -> None:
    pod = pod_of({"name": "c", "resources": {"requests": {"cpu": "1"}, "limits": {"memory": "1Gi"}}})
    wanted = pod.spec.containers[0].resources
    for state in ("running", "exited", "created"):
        status = only(look(pod, seen("c", state)))
        assert (status.resources, status.allocated_resources) == (wanted, wanted.requests)
    assert only(look(pod)).resources is None


@pytest.mark.parametrize(
    ("attempt", "state", "cpu"),
    [
        pytest.param(0, "running", "1", id="it runs on"),
        pytest.param(1, "running", "2", id="it was started again"),
        pytest.param(0, "exited", "2", id="it has ended"),
    ],
)
def test_a_container_that_runs_on_keeps_the_resources_that_it_was_started_with(
    attempt: int, state: str, cpu: str
) -> None:
    before = look(pod_of({"name": "c", "resources": {"requests": {"cpu": "1"}}}), seen("c"))
    resized = pod_of({"name": "c", "resources": {"requests": {"cpu": "2"}}})
    status = only(look(resized, seen("c", state, attempt=attempt), previous=before))
    assert status.resources is not None
    assert str(status.resources.requests["cpu"]) == cpu
    assert str(status.allocated_resources["cpu"]) == "2"


def test_the_runtimes_name_is_part_of_the_id() -> None:
    assert only(look(pod_of(), seen("c"), node=changed(NODE, runtime_name="containerd"))).container_id == (
        "containerd://c-0"
    )
