"""What is reported of a pod, replayed against what the Go kubelet reports of the same pods."""

from datetime import UTC, datetime, timedelta
from typing import Any, Final

from kit.vectors import Case, replay, unequal
from pykubelet.api import codec
from pykubelet.api.pod import ContainerState, ContainerStatus, Pod, PodStatus
from pykubelet.api.struct import changed
from pykubelet.pod.observed import ObservedContainer, ObservedPod, ObservedSandbox, State
from pykubelet.pod.status.conditions import pod_conditions
from pykubelet.pod.status.pod_status import NodeFacts, pod_status

_NOW: Final = datetime(2025, 6, 1, 12, tzinfo=UTC)
_NODE: Final = NodeFacts(runtime_name="test")
_RECORDED_CONDITIONS: Final = ("PodReadyToStartContainers", "Initialized", "PodScheduled")


def test_pods_are_reported_as_upstream() -> None:
    replay("status", _difference)


def _difference(case: Case) -> str:
    pod, observed, previous = _pod(case), _observed(case), codec.convert(PodStatus, case["previous"])
    status = pod_status(pod, observed, previous, now=_NOW, node=_NODE, is_terminal=case["podIsTerminal"])
    # The prober that stood in while this was recorded says nothing of init containers, not even of those that have
    # succeeded. The real one calls these ready, and so do we; what Initialized makes of its silence is compared here.
    silent = tuple(changed(each, ready=False, started=None) for each in status.init_container_statuses)
    conditions = pod_conditions(pod, observed, previous, silent, status.container_statuses, status.phase, _NOW)
    return unequal(case["case"], _as_recorded(changed(status, conditions=conditions)), case["status"])


def _pod(case: Case) -> Pod:
    spec = {key: case[key] for key in ("restartPolicy", "initContainers", "containers", "hostNetwork") if key in case}
    return codec.convert(Pod, {"metadata": {"name": "p", "namespace": "default", "uid": "u"}, "spec": spec})


def _observed(case: Case) -> ObservedPod:
    sandboxes = tuple(
        ObservedSandbox(id=each["id"], ready=each["state"] == "READY", ips=(each["ip"],) if each["ip"] else ())
        for each in case["sandboxes"]
    )
    containers = tuple(
        ObservedContainer(
            id=each["id"],
            name=each["name"],
            state=State(each["state"]),
            attempt=each["restartCount"],
            sandbox_id=sandboxes[0].id if sandboxes else "",
            created_at=_NOW - timedelta(seconds=each["createdSecondsAgo"]),
            exit_code=each["exitCode"],
            reason=each.get("reason", ""),
        )
        for each in case["containerRuntimeStatuses"]
    )
    return ObservedPod(uid="u", sandboxes=sandboxes, containers=containers)


def _as_recorded(status: PodStatus) -> dict[str, Any]:
    """The part of a status that was recorded."""
    return {
        "phase": status.phase,
        "reason": status.reason,
        "podIP": status.pod_ip,
        "qosClass": status.qos_class,
        "conditions": [
            {"type": each.type, "status": each.status, "reason": each.reason}
            for each in status.conditions
            if each.type in _RECORDED_CONDITIONS
        ],
        "initContainerStatuses": [_container(each) for each in status.init_container_statuses],
        "containerStatuses": [_container(each) for each in status.container_statuses],
    }


def _container(status: ContainerStatus) -> dict[str, Any]:
    return {
        "name": status.name,
        "containerID": status.container_id,
        "restartCount": status.restart_count,
        "state": _state(status.state),
        "lastState": _state(status.last_state),
    }


def _state(state: ContainerState) -> dict[str, Any]:
    if state.running is not None:
        return {"running": {}}
    if state.waiting is not None:
        return {"waiting": {"reason": state.waiting.reason}}
    if state.terminated is not None:
        return {"terminated": {"exitCode": state.terminated.exit_code, "reason": state.terminated.reason}}
    return {}
