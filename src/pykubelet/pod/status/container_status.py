"""What is reported of each container: from what the runtime holds of it, what was reported before, and the probes.

The runtime may forget a container at any time. What was reported before then decides, so that an end that people have
seen does not become a container that never ran.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Final, NamedTuple, TypeVar

from msgspec import Struct

from pykubelet.api.container import Container, ResourceRequirements, VolumeMount
from pykubelet.api.pod import (
    ContainerState,
    ContainerStateRunning,
    ContainerStateTerminated,
    ContainerStateWaiting,
    ContainerStatus,
    Pod,
    PodStatus,
    VolumeMountStatus,
)
from pykubelet.api.quantity import Quantity, ResourceList
from pykubelet.api.rules.resources import MEMORY, is_sidecar
from pykubelet.api.struct import changed
from pykubelet.pod.lifecycle.crash_loop_backoff import should_restart
from pykubelet.pod.lifecycle.probe_results import ProbeResults, Result
from pykubelet.pod.observed import EnforcedLimits, ObservedContainer, ObservedPod, State
from pykubelet.pod.resize.allocation import Allocation
from pykubelet.pod.resize.shown import shown_resources

LOST_EXIT_CODE: Final = 137
"""Reported for an end that nobody saw: it must not pass for a success."""
LONGEST_MESSAGES: Final = 12 * 1024
"""Bytes that the termination messages of one pod may take together."""

_LOST: Final = "ContainerStatusUnknown"
_ZERO: Final = Quantity(0)
_NO_LIMITS: Final = EnforcedLimits()
_NOTHING: Final = ContainerState()
_WAITING: Final = ContainerState(waiting=ContainerStateWaiting())
_CREATING: Final = ContainerState(waiting=ContainerStateWaiting(reason="ContainerCreating"))
_INITIALIZING: Final = ContainerState(waiting=ContainerStateWaiting(reason="PodInitializing"))

_C = TypeVar("_C", bound=Container)


class Waiting(Struct, frozen=True):
    """Why a container is not running, as the last attempt to start it noted: CrashLoopBackOff, ErrImagePull ..."""

    reason: str
    message: str = ""


class NodeFacts(Struct, frozen=True, kw_only=True):
    """What a pod's status says of the node rather than of the pod."""

    host_ips: tuple[str, ...] = ()
    """The preferred one first; at most one of each family is reported."""
    runtime_name: str = "process"
    """A container's id is reported as `<runtime_name>://<id>`."""
    recursive_read_only: bool = False
    """Whether the runtime can make a mount read-only together with everything that is mounted below it."""


class ContainerStatuses(NamedTuple):
    """One status for each container of the spec."""

    init: tuple[ContainerStatus, ...]
    """In the order of the spec."""
    main: tuple[ContainerStatus, ...]
    """By name, as upstream has them: an agent that takes over a node must not reorder what is there."""
    ephemeral: tuple[ContainerStatus, ...]
    """By name."""


class _Facts(NamedTuple):
    """All that the status of a container may depend on beside its own spec and its status before."""

    pod: Pod
    attempts: Mapping[str, Sequence[ObservedContainer]]
    node: NodeFacts
    waiting: Mapping[str, Waiting]
    probes: ProbeResults
    longest_message: int
    actuated: Allocation


def container_statuses(
    pod: Pod,
    observed: ObservedPod,
    previous: PodStatus,
    *,
    node: NodeFacts,
    waiting: Mapping[str, Waiting],
    probes: ProbeResults,
    actuated: Mapping[str, ResourceRequirements] = {},
) -> ContainerStatuses:
    """What to report of every container. `previous` is what was reported last, `actuated` what each was told."""
    spec = pod.spec
    attempts: dict[str, list[ObservedContainer]] = {}
    for container in observed.containers:
        attempts.setdefault(container.name, []).append(container)
    facts = _Facts(pod, attempts, node, waiting, probes, longest_message(pod), actuated)

    old = {status.name: status for status in previous.init_container_statuses}
    init = tuple(_init_status(container, old.get(container.name), facts) for container in spec.init_containers)
    old = {status.name: status for status in previous.container_statuses}
    main = tuple(_main_status(container, old.get(container.name), facts) for container in _by_name(spec.containers))
    old = {status.name: status for status in previous.ephemeral_container_statuses}
    ephemeral = tuple(
        _noted(_status(container, old.get(container.name), facts), container, facts)
        for container in _by_name(spec.ephemeral_containers)
    )
    return ContainerStatuses(init, main, ephemeral)


def lost_container(message: str) -> ContainerStateTerminated:
    """The end of a container that nobody saw ending."""
    return ContainerStateTerminated(exit_code=LOST_EXIT_CODE, reason=_LOST, message=message)


def longest_message(pod: Pod) -> int:
    """The bytes that each container's termination message may take."""
    spec = pod.spec
    containers = len(spec.containers) + len(spec.init_containers) + len(spec.ephemeral_containers)
    return LONGEST_MESSAGES // max(containers, 1)


def whole_seconds(moment: datetime) -> datetime:
    """A time as the API keeps it. What it would drop must not look like a change."""
    if moment.tzinfo is not UTC:
        moment = moment.astimezone(UTC)
    return moment.replace(microsecond=0) if moment.microsecond else moment


def in_whole_seconds(state: ContainerState) -> ContainerState:
    """The state as the API keeps it."""
    running, ended = state.running, state.terminated
    if running is not None:
        running = changed(running, started_at=_written(running.started_at))
    if ended is not None:
        times = {"started_at": _written(ended.started_at), "finished_at": _written(ended.finished_at)}
        ended = changed(ended, **times)
    return changed(state, running=running, terminated=ended)


def _written(moment: datetime | None) -> datetime | None:
    return None if moment is None else whole_seconds(moment)


def _by_name(containers: tuple[_C, ...]) -> Sequence[_C]:
    return containers if len(containers) < 2 else sorted(containers, key=lambda container: container.name)


def starts_told(status: PodStatus, name: str) -> int:
    """How often a container has been started, by a pod's status."""
    everyone = (*status.init_container_statuses, *status.container_statuses, *status.ephemeral_container_statuses)
    told = next((each for each in everyone if each.name == name), None)
    return told.restart_count + bool(told.container_id) if told is not None else 0


# --- the three kinds


def _main_status(container: Container, old: ContainerStatus | None, facts: _Facts) -> ContainerStatus:
    status = _noted(_status(container, old, facts), container, facts)
    return _probed(status, container, old, facts)


def _init_status(container: Container, old: ContainerStatus | None, facts: _Facts) -> ContainerStatus:
    status = _status(container, old, facts)
    seen = facts.attempts.get(container.name)
    if not (seen and seen[0].state is State.EXITED and seen[0].exit_code == 0):
        status = _noted(status, container, facts)
    if is_sidecar(container):
        return _probed(status, container, old, facts)
    ended = status.state.terminated
    return changed(
        status,
        started=_is_started(status, container, old, facts),
        ready=status.ready or (ended is not None and ended.exit_code == 0),
    )


def _status(container: Container, old: ContainerStatus | None, facts: _Facts) -> ContainerStatus:
    """What the runtime shows, or what is left when it shows nothing."""
    seen = facts.attempts.get(container.name)
    if seen:
        return _seen_status(container, seen, old, facts)
    if old is not None and old.state.terminated is not None:
        return old
    return _unseen_status(container, old, facts)


# --- a container that the runtime holds


def _seen_status(
    container: Container, seen: Sequence[ObservedContainer], old: ContainerStatus | None, facts: _Facts
) -> ContainerStatus:
    newest = seen[0]
    state = _state(newest, old, facts)
    restarts = newest.attempt
    if newest.state is State.UNKNOWN and old is not None and state.terminated is not None:
        restarts = old.restart_count + 1  # its end was made up here, so nobody has counted it yet
    return ContainerStatus(
        name=container.name,
        state=state,
        last_state=_state(seen[1], old, facts) if len(seen) > 1 else _NOTHING,
        ready=False,
        restart_count=restarts,
        image=newest.image,
        image_id=newest.image_id,
        container_id=_full_id(newest, facts),
        allocated_resources=container.resources.requests,
        resources=_resources(container, newest, old, facts),
        volume_mounts=old.volume_mounts if old is not None else (),
        user=newest.user,
        stop_signal=newest.stop_signal if _asks_for_signal(container) else None,
    )


def _state(seen: ObservedContainer, old: ContainerStatus | None, facts: _Facts) -> ContainerState:
    match seen.state:
        case State.RUNNING:
            return ContainerState(running=ContainerStateRunning(started_at=_written(seen.started_at)))
        case State.EXITED:
            ended = ContainerStateTerminated(
                exit_code=seen.exit_code,
                reason=seen.reason,
                message=_cut(seen.message, facts.longest_message),
                started_at=_written(seen.started_at),
                finished_at=_written(seen.finished_at),
                container_id=_full_id(seen, facts),
            )
            return ContainerState(terminated=ended)
        case State.UNKNOWN if old is not None and old.state.running is not None:
            # It ran, and now it does not. To call that waiting would let a job run twice.
            message = "The container could not be located when the pod was terminated"
            return ContainerState(terminated=lost_container(message))
        case _:
            return _WAITING


def _cut(message: str, longest: int) -> str:
    if len(message) <= longest // 4:  # no character takes more than four bytes
        return message
    return message.encode(errors="replace")[:longest].decode(errors="ignore")


def _full_id(seen: ObservedContainer, facts: _Facts) -> str:
    return f"{facts.node.runtime_name}://{seen.id}"


def _resources(
    container: Container, seen: ObservedContainer, old: ContainerStatus | None, facts: _Facts
) -> ResourceRequirements:
    """What the container has, where it may have anything: as its runtime says; else as it was told; else, while it goes
    on running, as was said of it before. Of memory requests no runtime knows."""
    wanted, told = container.resources, facts.actuated.get(container.name)
    if seen.state is not State.RUNNING:
        return wanted
    known = told
    if known is None and old is not None and _is_the_same(seen, old, facts):
        known = old.resources
    known = changed(known or ResourceRequirements(), requests=_without_memory(known))
    if told is not None and MEMORY in wanted.requests:
        known = changed(known, requests={**known.requests, MEMORY: told.requests.get(MEMORY, _ZERO)})
    shown = shown_resources(seen.limits or _NO_LIMITS, wanted, known)
    return changed(
        wanted,
        limits={**wanted.limits, **shown.limits} if wanted.limits else {},
        requests={**wanted.requests, **shown.requests} if wanted.requests else {},
    )


def _without_memory(known: ResourceRequirements | None) -> ResourceList:
    return {name: much for name, much in known.requests.items() if name != MEMORY} if known is not None else {}


# --- a container that the runtime does not hold


def _asks_for_signal(container: Container) -> bool:
    """Who does not ask is not told: it is nothing that pods know of."""
    return container.lifecycle is not None and container.lifecycle.stop_signal is not None


def _unseen_status(container: Container, old: ContainerStatus | None, facts: _Facts) -> ContainerStatus:
    """Not made yet, or forgotten. One that was running when last reported must have ended meanwhile."""
    restarts = old.restart_count if old is not None else 0
    last_state = old.last_state if old is not None else _NOTHING
    if old is not None and old.state.running is not None and last_state.terminated is None:
        message = "The container could not be located when the pod was deleted.  The container used to be Running"
        last_state = changed(last_state, terminated=lost_container(message))
        if facts.pod.metadata.deletion_timestamp is None:
            restarts += 1  # it will be started again
    return ContainerStatus(
        name=container.name,
        state=_INITIALIZING if facts.pod.spec.init_containers else _CREATING,
        last_state=last_state,
        ready=False,
        restart_count=restarts,
        image=container.image,
        image_id="",
        volume_mounts=tuple(_mount_status(mount, facts.node) for mount in container.volume_mounts),
    )


def _mount_status(mount: VolumeMount, node: NodeFacts) -> VolumeMountStatus:
    if not mount.read_only:
        return VolumeMountStatus(name=mount.name, mount_path=mount.mount_path)
    recursive = (
        mount.recursive_read_only in ("IfPossible", "Enabled")
        and mount.mount_propagation in (None, "None")
        and node.recursive_read_only
    )
    return VolumeMountStatus(
        name=mount.name,
        mount_path=mount.mount_path,
        read_only=True,
        recursive_read_only="Enabled" if recursive else "Disabled",
    )


# --- what else is known of it


def _noted(status: ContainerStatus, container: Container, facts: _Facts) -> ContainerStatus:
    """A container that is to be started says why it has not been, when an attempt noted a reason."""
    note = facts.waiting.get(container.name)
    if note is None:
        return status
    seen = facts.attempts.get(container.name)
    if not should_restart(facts.pod, container, seen[0] if seen else None):
        return status
    return changed(
        status,
        state=ContainerState(waiting=ContainerStateWaiting(reason=note.reason, message=note.message)),
        last_state=status.state if status.state.terminated is not None else status.last_state,
    )


def _probed(
    status: ContainerStatus, container: Container, old: ContainerStatus | None, facts: _Facts
) -> ContainerStatus:
    started = _is_started(status, container, old, facts)
    return changed(status, started=started, ready=_is_ready(container, old, facts) if started else status.ready)


def _is_started(status: ContainerStatus, container: Container, old: ContainerStatus | None, facts: _Facts) -> bool:
    if status.state.running is None:
        return False
    newest = facts.attempts[container.name][0]
    result = facts.probes.startup.get(newest.id)
    if result is not None:
        return result is Result.SUCCESS
    return container.startup_probe is None or (_is_the_same(newest, old, facts) and bool(old and old.started))


def _is_ready(container: Container, old: ContainerStatus | None, facts: _Facts) -> bool:
    """Of a started container. Until the first answer it is what it was: an agent's restart does not flip readiness."""
    newest = facts.attempts[container.name][0]
    result = facts.probes.readiness.get(newest.id)
    if result is Result.SUCCESS or container.readiness_probe is None:
        return True
    return result is None and _is_the_same(newest, old, facts) and bool(old and old.ready)


def _is_the_same(seen: ObservedContainer, old: ContainerStatus | None, facts: _Facts) -> bool:
    """Whether the last report was about this very attempt, already running."""
    return old is not None and old.state.running is not None and old.container_id == _full_id(seen, facts)
