"""What is reported of a pod as a whole: phase, conditions, addresses, times."""

from datetime import timedelta
from typing import Any

import pytest

from pykubelet.api.pod import Pod, PodCondition, PodStatus
from pykubelet.api.struct import changed
from pykubelet.pod.lifecycle.probe_results import ProbeResults, Result
from pykubelet.pod.observed import ObservedContainer, ObservedSandbox
from pykubelet.pod.status.pod_status import Failure, NodeFacts, Waiting
from unit.pod.status_pods import (
    BEFORE,
    BEFORE_TEXT,
    NODE,
    NOW,
    PROBE,
    SANDBOX,
    SECOND,
    look,
    pod_of,
    seen,
    told,
    value,
)

STATIC = {"annotations": {"kubernetes.io/config.source": "file"}}
OWN_TYPES = ["PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"]


def ended(name: str, code: int) -> ObservedContainer:
    return seen(name, "exited", code)


# --- phase


@pytest.mark.parametrize(
    ("pod", "containers", "circumstances", "phase"),
    [
        pytest.param(pod_of("a", "b"), (), {}, "Pending", id="nothing has been made"),
        pytest.param(pod_of(containers=[]), (), {}, "Pending", id="there is nothing to make"),
        pytest.param(pod_of("a", "b"), (seen("a"),), {}, "Pending", id="one of two has not been started"),
        pytest.param(pod_of("a", "b"), (seen("a"), seen("b", "created")), {}, "Pending", id="created is not started"),
        pytest.param(pod_of("a", "b"), (seen("a"), seen("b", "unknown")), {}, "Pending", id="lost and never seen"),
        pytest.param(pod_of("a", "b"), (seen("a"), seen("b")), {}, "Running", id="all run"),
        pytest.param(pod_of("a", "b"), (seen("a"), ended("b", 1)), {}, "Running", id="one runs, one has ended"),
        pytest.param(
            pod_of("a", "b"), (ended("a", 0), ended("b", 0)), {}, "Running", id="all ended but will be started again"
        ),
        pytest.param(
            pod_of(policy="OnFailure"), (ended("c", 1),), {}, "Running", id="a failure that will be tried again"
        ),
        pytest.param(pod_of(policy="OnFailure"), (ended("c", 0),), {}, "Succeeded", id="success ends on-failure pods"),
        pytest.param(pod_of(policy="Never"), (ended("c", 0),), {}, "Succeeded", id="success without restart"),
        pytest.param(pod_of(policy="Never"), (ended("c", 1),), {}, "Failed", id="failure without restart"),
        pytest.param(
            pod_of("a", "b", policy="Never"), (ended("a", 0), ended("b", 1)), {}, "Failed", id="one failure is enough"
        ),
        pytest.param(pod_of(), (ended("c", 0),), {"is_terminal": True}, "Succeeded", id="a stopped pod that succeeded"),
        pytest.param(pod_of(), (ended("c", 1),), {"is_terminal": True}, "Failed", id="a stopped pod that failed"),
        pytest.param(
            pod_of(metadata=STATIC),
            (ended("c", 1),),
            {"is_terminal": True},
            "Running",
            id="a static pod is never final",
        ),
        pytest.param(
            pod_of(),
            (ended("c", 1),),
            {"waiting": {"c": Waiting("CrashLoopBackOff")}},
            "Running",
            id="waiting between two runs",
        ),
        pytest.param(
            pod_of(policy="OnFailure"),
            (seen("c", "created", attempt=1), ended("c", 0)),
            {"is_terminal": True},
            "Failed",
            id="a success does not count once the next run was made",
        ),
        pytest.param(pod_of(init=("i",)), (seen("i"),), {}, "Pending", id="initializing"),
        pytest.param(pod_of(init=("i",)), (seen("i", "created"),), {}, "Pending", id="init container created"),
        pytest.param(pod_of(init=("i",)), (ended("i", 0),), {}, "Pending", id="initialized, main not started"),
        pytest.param(pod_of(init=("i",)), (ended("i", 0), seen("c")), {}, "Running", id="initialized and running"),
        pytest.param(pod_of(init=("i",), policy="Never"), (ended("i", 1),), {}, "Failed", id="init failed for good"),
        pytest.param(pod_of(init=("i",)), (ended("i", 1),), {}, "Pending", id="init failed and will be tried again"),
        pytest.param(
            pod_of(init=("i",), policy="Never"),
            (seen("i", "created", attempt=1), ended("i", 1)),
            {},
            "Failed",
            id="init failed before the attempt that waits",
        ),
        pytest.param(
            pod_of(init=("i",)), (ended("i", 1), seen("c")), {}, "Running", id="main runs although init looks failed"
        ),
        pytest.param(pod_of(init=("side",)), (seen("side"),), {}, "Pending", id="only the sidecar runs"),
        pytest.param(pod_of(init=("side",)), (seen("c"),), {}, "Pending", id="the sidecar was never seen"),
        pytest.param(pod_of(init=("side",)), (seen("side"), seen("c")), {}, "Running", id="sidecar and main run"),
        pytest.param(
            pod_of(init=("side",)),
            (seen("side"), seen("c", sandbox_id="old")),
            {},
            "Pending",
            id="main belongs to the sandbox before",
        ),
        pytest.param(
            pod_of(init=("side",)),
            (seen("side"), seen("c")),
            {"sandboxes": (changed(SANDBOX, ready=False),)},
            "Pending",
            id="the sandbox of both is dead",
        ),
        pytest.param(
            pod_of(init=("side",)), (ended("side", 1), seen("c")), {}, "Running", id="an ended sidecar does not count"
        ),
        pytest.param(
            pod_of(init=("side",), policy="Never"),
            (ended("side", 1), ended("c", 0)),
            {},
            "Succeeded",
            id="a failed sidecar does not fail the pod",
        ),
        pytest.param(
            pod_of(init=("side",), policy="Never"),
            (seen("side"), ended("c", 0)),
            {},
            "Running",
            id="the sidecar outlives main",
        ),
        pytest.param(
            pod_of(init=("side",)),
            (seen("side", "created", attempt=1), ended("side", 1), seen("c")),
            {},
            "Running",
            id="a sidecar between two runs",
        ),
    ],
)
def test_the_phase_follows_from_the_containers(
    pod: Pod, containers: tuple[ObservedContainer, ...], circumstances: dict[str, Any], phase: str
) -> None:
    assert look(pod, *containers, **circumstances).phase == phase


@pytest.mark.parametrize(
    ("api", "previous", "containers", "expected"),
    [
        pytest.param({}, {"phase": "Failed"}, (seen("c"),), "Failed", id="what was reported stays"),
        pytest.param({"phase": "Succeeded"}, {}, (seen("c"),), "Succeeded", id="what the API shows stays"),
        pytest.param(
            {"phase": "Succeeded"}, {"phase": "Failed"}, (seen("c"),), "Succeeded", id="the API has the last word"
        ),
        pytest.param(
            {"phase": "Succeeded"}, {"phase": "Running"}, (ended("c", 1),), "Succeeded", id="even over a seen failure"
        ),
        pytest.param(
            {}, {"phase": "Succeeded"}, (ended("c", 1),), "Failed", id="a seen end corrects what nobody has read yet"
        ),
        pytest.param({}, {"phase": "Running"}, (), "Pending", id="Running is not final"),
    ],
)
def test_an_end_is_never_taken_back(
    api: dict[str, Any], previous: dict[str, Any], containers: tuple[ObservedContainer, ...], expected: str
) -> None:
    assert look(pod_of(policy="Never", status=api), *containers, previous=told(**previous)).phase == expected


@pytest.mark.parametrize(
    ("api", "previous", "expected"),
    [
        pytest.param({}, {"phase": "Running", "reason": "R", "message": "M"}, ("R", "M"), id="kept with the phase"),
        pytest.param({}, {"phase": "Pending", "reason": "R", "message": "M"}, ("", ""), id="dropped with the phase"),
        pytest.param({"reason": "R", "message": "M"}, {"phase": "Running"}, ("R", "M"), id="else the API's"),
        pytest.param({"reason": "R", "message": "M"}, {}, ("", ""), id="but not for another phase"),
    ],
)
def test_reason_and_message_belong_to_their_phase(
    api: dict[str, Any], previous: dict[str, Any], expected: tuple[str, str]
) -> None:
    status = look(pod_of(status=api), seen("c"), previous=told(**previous))
    assert (status.reason, status.message) == expected


PREEMPTED = Failure("Preempting", "for a critical pod", yields_to_success=True, disruption="somebody more important")


@pytest.mark.parametrize(("code", "expected"), [(0, ("Succeeded", "")), (1, ("Failed", "Preempting"))])
def test_a_preempted_pod_ends_as_its_containers_do(code: int, expected: tuple[str, str]) -> None:
    pod = pod_of(restartPolicy="Always")
    stopping = look(pod, seen("c"), failure=PREEMPTED)
    assert (stopping.phase, stopping.reason) == ("Failed", "Preempting")
    status = look(pod, seen("c", "exited", code), previous=stopping, failure=PREEMPTED, is_terminal=True)
    assert (status.phase, status.reason) == expected
    (condition,) = (each for each in status.conditions if each.type == "DisruptionTarget")
    assert (condition.status, condition.reason, condition.message) == (
        "True",
        "TerminationByKubelet",
        "somebody more important",
    )


def test_the_node_may_end_a_pod_whatever_its_containers_do() -> None:
    status = look(pod_of(), seen("c"), failure=Failure("DeadlineExceeded", "too long"))
    assert (status.phase, status.reason, status.message) == ("Failed", "DeadlineExceeded", "too long")
    assert value(status, "Ready") == "False PodFailed"


# --- conditions


def test_our_conditions_come_in_upstreams_order() -> None:
    status = look(pod_of(), seen("c"))
    assert [(c.type, c.status, c.reason, c.message) for c in status.conditions] == [
        (type, "True", "", "") for type in OWN_TYPES
    ]


@pytest.mark.parametrize(
    ("pod", "containers", "initialized", "ready"),
    [
        pytest.param(pod_of(), (), "True", "False ContainersNotReady", id="no init containers, nothing made"),
        pytest.param(pod_of(), (seen("c"),), "True", "True", id="running without probes"),
        pytest.param(
            pod_of(policy="Never"), (ended("c", 0),), "True PodCompleted", "False PodCompleted", id="completed"
        ),
        pytest.param(pod_of(policy="Never"), (ended("c", 1),), "True", "False PodFailed", id="failed"),
        pytest.param(
            pod_of(init=("i",)), (), "False ContainersNotInitialized", "False ContainersNotReady", id="init not begun"
        ),
        pytest.param(
            pod_of(init=("i",)), (ended("i", 0),), "True", "False ContainersNotReady", id="init done, main not begun"
        ),
        pytest.param(
            pod_of(init=("i",)), (ended("i", 1), seen("c")), "True", "True", id="main runs: it was initialized"
        ),
        pytest.param(
            pod_of(init=("side",)), (seen("side"),), "True", "False ContainersNotReady", id="the sidecar has started"
        ),
        pytest.param(
            pod_of(init=({"name": "side", "startupProbe": PROBE},)),
            (seen("side"),),
            "False ContainersNotInitialized",
            "False ContainersNotReady",
            id="the sidecar is starting",
        ),
        pytest.param(
            pod_of(init=("side",)),
            (ended("side", 1), seen("c")),
            "True",
            "False ContainersNotReady",
            id="a pod is not ready without its sidecars",
        ),
        pytest.param(
            pod_of(init=("i",), policy="Never"),
            (ended("i", 1),),
            "False ContainersNotInitialized",
            "False PodFailed",
            id="init failed",
        ),
    ],
)
def test_conditions_follow_from_the_containers(
    pod: Pod, containers: tuple[ObservedContainer, ...], initialized: str, ready: str
) -> None:
    status = look(pod, *containers)
    assert value(status, "Initialized") == initialized
    assert value(status, "Ready") == value(status, "ContainersReady") == ready
    assert value(status, "PodScheduled") == "True"


def test_conditions_name_the_containers_that_are_missing() -> None:
    pod = pod_of("b", "a", init=("i", "side"))
    messages = {c.type: c.message for c in look(pod).conditions}
    assert messages["Initialized"] == "containers with incomplete status: [i side]"
    assert messages["Ready"] == messages["ContainersReady"] == "containers with unready status: [side b a]"


@pytest.mark.parametrize(
    ("host_network", "sandboxes", "expected"),
    [
        pytest.param(False, (), "False", id="no sandbox"),
        pytest.param(False, (SANDBOX,), "True", id="a ready one"),
        pytest.param(False, (changed(SANDBOX, ready=False),), "False", id="a dead one"),
        pytest.param(
            False, (SANDBOX, changed(SANDBOX, id="old", ready=False)), "True", id="a ready one after a dead one"
        ),
        pytest.param(False, (changed(SANDBOX, ready=False), SANDBOX), "False", id="the newest one is dead"),
        pytest.param(False, (SANDBOX, SANDBOX), "False", id="two at once"),
        pytest.param(False, (changed(SANDBOX, ips=()),), "False", id="without an address"),
        pytest.param(True, (SANDBOX,), "False", id="not on the host's network"),
        pytest.param(
            True, (ObservedSandbox(id="sb", ready=True, host_network=True),), "True", id="on the host's network"
        ),
    ],
)
def test_containers_can_start_in_one_ready_reachable_sandbox(
    host_network: bool, sandboxes: tuple[ObservedSandbox, ...], expected: str
) -> None:
    status = look(pod_of(hostNetwork=host_network), sandboxes=sandboxes)
    assert value(status, "PodReadyToStartContainers") == expected


def test_conditions_of_others_stay_and_come_first() -> None:
    theirs = PodCondition(type="example.com/Theirs", status="Unknown", last_transition_time=BEFORE)
    stale = {"type": "Ready", "status": "True"}
    shown = [{"type": theirs.type, "status": "Unknown", "lastTransitionTime": BEFORE_TEXT}, stale]
    status = look(pod_of(status={"conditions": shown}))
    assert status.conditions[0] == theirs
    assert [c.type for c in status.conditions[1:]] == OWN_TYPES


@pytest.mark.parametrize(
    ("shown", "place"),
    [
        pytest.param(["Other"], 1, id="appended"),
        pytest.param(["DisruptionTarget", "Other"], 0, id="in the place of the one that the API shows"),
    ],
)
def test_a_disruption_that_we_reported_is_kept(shown: list[str], place: int) -> None:
    api = {"conditions": [{"type": type, "status": "False"} for type in shown]}
    ours = {"type": "DisruptionTarget", "status": "True", "reason": "Evicted", "lastTransitionTime": BEFORE_TEXT}
    status = look(pod_of(status=api), previous=told(conditions=[ours]))
    kept = status.conditions[place]
    assert (kept.type, kept.reason, kept.last_transition_time) == ("DisruptionTarget", "Evicted", BEFORE)
    assert len(status.conditions) == len({"DisruptionTarget", "Other"}) + len(OWN_TYPES)


# --- times and generations


def test_a_condition_is_dated_when_its_value_changes() -> None:
    first = look(pod_of())
    assert {c.last_transition_time for c in first.conditions} == {SECOND}
    second = look(pod_of(), seen("c"), previous=first, now=NOW + timedelta(minutes=1))
    moved = {c.type for c in second.conditions if c.last_transition_time != SECOND}
    assert moved == {"Ready", "ContainersReady"}


def test_a_new_reason_for_the_same_value_does_not_move_the_time() -> None:
    first = look(pod_of(policy="Never"))
    second = look(pod_of(policy="Never"), ended("c", 1), previous=first, now=NOW + timedelta(minutes=1))
    assert value(first, "Ready") != value(second, "Ready")
    assert {c.last_transition_time for c in second.conditions} == {SECOND}


def test_the_start_time_is_set_once() -> None:
    first = look(pod_of())
    assert first.start_time == SECOND
    assert look(pod_of(), previous=first, now=NOW + timedelta(days=1)).start_time == SECOND


@pytest.mark.parametrize(
    ("generation", "previous", "expected"),
    [(None, None, None), (3, None, 3), (3, 2, 3), (3, 4, 4), (None, 2, 2), (0, 0, None)],
)
def test_the_observed_generation_never_goes_back(
    generation: int | None, previous: int | None, expected: int | None
) -> None:
    pod = pod_of(metadata={"generation": generation} if generation is not None else {})
    status = look(pod, previous=PodStatus(observed_generation=previous))
    assert status.observed_generation == expected
    assert {c.observed_generation for c in status.conditions} == {generation or None}


# --- addresses and class


@pytest.mark.parametrize(
    ("ips", "host_ips", "expected"),
    [
        pytest.param((), ("192.168.0.1",), (), id="none yet"),
        pytest.param(("10.0.0.1",), (), ("10.0.0.1",), id="one"),
        pytest.param(("fd00::1", "10.0.0.1"), (), ("10.0.0.1", "fd00::1"), id="IPv4 first"),
        pytest.param(("10.0.0.1", "fd00::1"), ("fd00::9",), ("fd00::1", "10.0.0.1"), id="the node's family first"),
        pytest.param(("10.0.0.1", "10.0.0.2", "fd00::1"), (), ("10.0.0.1", "fd00::1"), id="one of each family"),
        pytest.param(("010.0.00.1", "FD00:0::0001"), (), ("10.0.0.1", "fd00::1"), id="in their usual spelling"),
        pytest.param(("::ffff:10.0.0.1",), (), ("10.0.0.1",), id="an IPv4 address in disguise"),
        pytest.param(("10.0.0.1", "nonsense"), (), (), id="nonsense"),
        pytest.param(("fe80::1%eth0",), (), (), id="a zone is nonsense"),
        pytest.param(("10..0.1",), (), (), id="a hole is nonsense"),
    ],
)
def test_a_pod_has_its_sandboxs_addresses(
    ips: tuple[str, ...], host_ips: tuple[str, ...], expected: tuple[str, ...]
) -> None:
    status = look(pod_of(), sandboxes=(changed(SANDBOX, ips=ips),), node=NodeFacts(host_ips=host_ips))
    assert tuple(each.ip for each in status.pod_ips) == expected
    assert status.pod_ip == (expected[0] if expected else "")


@pytest.mark.parametrize(
    ("ips", "host_ips", "expected"),
    [
        pytest.param((), (), (), id="the node has none"),
        pytest.param((), ("192.168.0.1",), ("192.168.0.1",), id="one"),
        pytest.param((), ("192.168.0.1", "fd00::9"), ("192.168.0.1", "fd00::9"), id="two"),
        pytest.param((), ("192.168.0.1", "192.168.0.2"), ("192.168.0.1",), id="one of each family"),
        pytest.param(("10.9.9.9",), ("192.168.0.1", "fd00::9"), ("10.9.9.9", "fd00::9"), id="the runtime's word first"),
    ],
)
def test_a_pod_on_the_hosts_network_has_its_addresses(
    ips: tuple[str, ...], host_ips: tuple[str, ...], expected: tuple[str, ...]
) -> None:
    sandbox = ObservedSandbox(id="sb", ready=True, ips=ips, host_network=True)
    status = look(pod_of(hostNetwork=True), sandboxes=(sandbox,), node=NodeFacts(host_ips=host_ips))
    assert tuple(each.ip for each in status.pod_ips) == expected
    assert tuple(each.ip for each in status.host_ips) == host_ips
    assert status.host_ip == (host_ips[0] if host_ips else "")


@pytest.mark.parametrize(
    ("sandboxes", "expected"),
    [
        pytest.param((), "10.0.0.7", id="gone"),
        pytest.param((changed(SANDBOX, ready=False, ips=()),), "10.0.0.7", id="dead"),
        pytest.param((changed(SANDBOX, ips=()),), "", id="a new one that has none yet"),
        pytest.param((SANDBOX,), "10.0.0.10", id="a new one with another"),
    ],
)
def test_an_ended_pod_keeps_its_address(sandboxes: tuple[ObservedSandbox, ...], expected: str) -> None:
    previous = told(podIP="10.0.0.7", podIPs=[{"ip": "10.0.0.7"}])
    assert look(pod_of(), previous=previous, sandboxes=sandboxes).pod_ip == expected


def test_the_quality_of_service_is_reported() -> None:
    assert look(pod_of()).qos_class == "BestEffort"
    assert look(pod_of({"name": "c", "resources": {"requests": {"cpu": "1"}}})).qos_class == "Burstable"


def test_ready_follows_the_probes() -> None:
    pod = pod_of({"name": "c", "readinessProbe": PROBE})
    probes = ProbeResults(readiness={"c-0": Result.SUCCESS})
    assert value(look(pod, seen("c")), "Ready") == "False ContainersNotReady"
    assert value(look(pod, seen("c"), probes=probes, node=NODE), "Ready") == "True"
