"""The conditions of a pod: what has been reached on the way to serving, and since when."""

from collections.abc import Iterable
from datetime import datetime
from typing import Final

from pykubelet.api.container import Container
from pykubelet.api.pod import ContainerStatus, Pod, PodCondition, PodStatus
from pykubelet.api.rules.resources import is_sidecar
from pykubelet.api.struct import changed
from pykubelet.pod.lifecycle.sandbox_fitness import SandboxFitness, sandbox_fitness
from pykubelet.pod.observed import ObservedPod
from pykubelet.pod.resize.conditions import IN_PROGRESS, PENDING
from pykubelet.pod.status.phase import FAILED, SUCCEEDED
from pykubelet.pod.status.readiness_gates import why_gates_are_closed

SCHEDULED: Final = "PodScheduled"
READY_TO_START: Final = "PodReadyToStartContainers"
INITIALIZED: Final = "Initialized"
CONTAINERS_READY: Final = "ContainersReady"
READY: Final = "Ready"
DISRUPTION_TARGET: Final = "DisruptionTarget"
"""Ours and others': it says who is taking the pod away."""

OWN_CONDITIONS: Final = frozenset(
    (SCHEDULED, READY_TO_START, INITIALIZED, CONTAINERS_READY, READY, PENDING, IN_PROGRESS)
)
"""Only the kubelet writes these; all others are left as they are."""


def pod_conditions(
    pod: Pod,
    observed: ObservedPod,
    previous: PodStatus,
    init: tuple[ContainerStatus, ...],
    main: tuple[ContainerStatus, ...],
    phase: str,
    now: datetime,
    resize: tuple[PodCondition, ...] = (),
) -> tuple[PodCondition, ...]:
    """Other people's conditions as the API shows them, then our own. `now` is in whole seconds."""
    conditions = [condition for condition in pod.status.conditions if condition.type not in OWN_CONDITIONS]
    conditions += resize
    disruption = condition_of(previous.conditions, DISRUPTION_TARGET)
    if disruption is not None:
        conditions = with_condition(conditions, disruption)
    statuses = {status.name: status for status in (*init, *main)}
    generation = pod.metadata.generation or None

    def ours(type: str, reason: str = "", message: str = "", *, status: str = "") -> None:
        value = status or ("False" if reason else "True")
        conditions.append(
            PodCondition(type=type, observed_generation=generation, status=value, reason=reason, message=message)
        )

    ours(READY_TO_START, status="True" if sandbox_fitness(pod, observed) is SandboxFitness.FITS else "False")
    completed = phase == SUCCEEDED
    ours(INITIALIZED, *_why_not_initialized(pod, statuses, main, phase), status="True" if completed else "")
    why_not = _why_containers_are_not_ready(pod, statuses, phase)
    ours(READY, *(why_not if why_not[0] else why_gates_are_closed(pod, conditions)))
    ours(CONTAINERS_READY, *why_not)
    ours(SCHEDULED)
    return stamped(conditions, previous, now)


def closed_by_phase(conditions: Iterable[PodCondition], generation: int | None, phase: str) -> list[PodCondition]:
    """The conditions of a pod that has ended: whatever is said of its containers, it serves nobody."""
    reason = "PodFailed" if phase == FAILED else "PodCompleted"
    closed = list(conditions)
    for type in (CONTAINERS_READY, READY):
        before = condition_of(closed, type) or PodCondition(type=type)
        ended = changed(before, observed_generation=generation, status="False", reason=reason, message="")
        closed = with_condition(closed, ended)
    return closed


def is_ready_in(status: PodStatus) -> bool:
    """Whether it says that the pod, or all of its containers, are ready."""
    return any(each.status == "True" and each.type in (CONTAINERS_READY, READY) for each in status.conditions)


# --- reasons: ("", "") means that there is none


def _why_containers_are_not_ready(pod: Pod, statuses: dict[str, ContainerStatus], phase: str) -> tuple[str, str]:
    serving: list[Container] = [container for container in pod.spec.init_containers if is_sidecar(container)]
    serving.extend(pod.spec.containers)
    unknown = [container.name for container in serving if container.name not in statuses]
    if phase == FAILED:
        return "PodFailed", ""
    if phase == SUCCEEDED and not unknown:
        return "PodCompleted", ""
    unready = [each.name for each in serving if each.name in statuses and not statuses[each.name].ready]
    return _reason("ContainersNotReady", unknown, "unready", unready)


def _why_not_initialized(
    pod: Pod, statuses: dict[str, ContainerStatus], main: tuple[ContainerStatus, ...], phase: str
) -> tuple[str, str]:
    if phase == SUCCEEDED:
        return "PodCompleted", ""
    if any(status.state.running is not None or status.state.terminated is not None for status in main):
        return "", ""  # it has been, even when a sidecar is starting again
    incomplete = [
        container.name
        for container in pod.spec.init_containers
        if not (statuses[container.name].started if is_sidecar(container) else statuses[container.name].ready)
    ]
    return _reason("ContainersNotInitialized", [], "incomplete", incomplete)


def _reason(reason: str, unknown: list[str], what: str, names: list[str]) -> tuple[str, str]:
    messages = []
    if unknown:
        messages.append(f"containers with unknown status: [{' '.join(unknown)}]")
    if names:
        messages.append(f"containers with {what} status: [{' '.join(names)}]")
    return (reason, ", ".join(messages)) if messages else ("", "")


# --- lists of conditions


def condition_of(conditions: Iterable[PodCondition], type: str) -> PodCondition | None:
    for condition in conditions:
        if condition.type == type:
            return condition
    return None


def with_condition(conditions: list[PodCondition], condition: PodCondition) -> list[PodCondition]:
    """With that one in the place of its like, or at the end."""
    for place, each in enumerate(conditions):
        if each.type == condition.type:
            return [*conditions[:place], condition, *conditions[place + 1 :]]
    return [*conditions, condition]


def stamped(conditions: Iterable[PodCondition], previous: PodStatus, now: datetime) -> tuple[PodCondition, ...]:
    """With the time since when each of our conditions has had its value."""
    before = {condition.type: condition for condition in reversed(previous.conditions)}
    return tuple(
        _since(condition, before.get(condition.type), now)
        if condition.type in OWN_CONDITIONS or condition.type == DISRUPTION_TARGET
        else condition
        for condition in conditions
    )


def _since(condition: PodCondition, before: PodCondition | None, now: datetime) -> PodCondition:
    if condition.type in (PENDING, IN_PROGRESS):
        return condition  # they come dated
    kept = before is not None and before.status == condition.status
    moment = before.last_transition_time if kept and before is not None else now
    return changed(condition, last_transition_time=moment)
