"""What has to happen next to a pod, from what its spec asks for and what the runtime has been seen to hold.

One look, one set of actions: nothing is remembered between two plans, so that an agent that has just started decides
the same as one that has watched the pod all along. The answers are upstream's, for upstream's reasons: the state of the
world alone has to be enough, also when ended containers have been tidied away in the meantime.
"""

from typing import Final, assert_never

from msgspec import Struct

from pykubelet.api.container import Container
from pykubelet.api.pod import Pod
from pykubelet.api.rules.resources import is_sidecar
from pykubelet.api.rules.restarts import restart_policy, restarts_after
from pykubelet.api.struct import changed
from pykubelet.pod.container.hash import container_hash
from pykubelet.pod.lifecycle.crash_loop_backoff import restarts_on_failure, should_restart
from pykubelet.pod.lifecycle.probe_results import NO_PROBES, ProbeResults, Result
from pykubelet.pod.lifecycle.sandbox_fitness import SandboxFitness, sandbox_fitness
from pykubelet.pod.observed import ObservedContainer, ObservedPod, State
from pykubelet.pod.resize.actions import NO_RESIZES, Resizes, needs_restart, with_updates
from pykubelet.pod.resize.allocation import Allocation

LIVENESS_PROBE: Final = "LivenessProbe"
STARTUP_PROBE: Final = "StartupProbe"
UNKNOWN: Final = "Unknown"


class Kill(Struct, frozen=True):
    """End one container. The pod goes on."""

    name: str
    container_id: str
    reason: str = ""
    """LivenessProbe and StartupProbe may bring a grace period of their own; Unknown; empty when the spec changed."""
    message: str = ""
    """For people, in the event."""


class PodActions(Struct, frozen=True, kw_only=True):
    """What to do, in this order: kill, create the sandbox, start ephemeral, init, then main containers."""

    kill_pod: bool = False
    """Stop every container and sandbox there is. `kills` are then part of that, and need no stop of their own."""
    create_sandbox: bool = False
    """A new sandbox starts from the beginning: init containers of the old one are to be removed."""
    sandbox_id: str = ""
    """The newest sandbox: where containers start, unless a new one is created. Empty when there is none to speak of."""
    attempt: int = 0
    """Of the sandbox: the new one if one is created, else the one that is there."""
    init_containers: tuple[str, ...] = ()
    """To start, in order. Should a sidecar fail to start, go on; should another, stop there."""
    containers: tuple[str, ...] = ()
    ephemeral_containers: tuple[str, ...] = ()
    kills: tuple[Kill, ...] = ()
    resizes: Resizes = NO_RESIZES
    """Before main containers start."""

    @property
    def starts(self) -> tuple[str, ...]:
        """All containers to start, in their order."""
        return (*self.ephemeral_containers, *self.init_containers, *self.containers)

    @property
    def is_empty(self) -> bool:
        """Nothing to do: the pod is as it should be, or can only be waited for."""
        return not (self.kill_pod or self.create_sandbox or self.kills or self.starts) and self.resizes.is_empty


def plan(
    pod: Pod, observed: ObservedPod, probes: ProbeResults = NO_PROBES, actuated: Allocation | None = None
) -> PodActions:
    """The actions that bring the pod one step closer to its spec. `actuated` is what its containers were told to have;
    None: they keep it."""
    actions, fits = _sandbox(pod, observed)
    if not fits:
        return _from_the_beginning(pod, observed, actions)
    # A debugging session must be possible while initialization hangs, and is never repeated.
    visitors = tuple(c.name for c in pod.spec.ephemeral_containers if observed.newest(c.name) is None)
    actions = changed(actions, ephemeral_containers=visitors)
    init = _init(pod, observed, probes, actuated)
    if init.failed:
        return changed(actions, kill_pod=True)
    if not init.done:
        return changed(actions, init_containers=init.starts, kills=init.kills, resizes=init.resizes)
    main = _main(pod, observed, probes, actuated, init.resizes)
    kills = (*init.kills, *main.kills)
    if not main.kept and not main.starts:
        return changed(actions, kill_pod=True, kills=kills)  # sidecars alone do not keep a pod alive
    return changed(actions, init_containers=init.starts, containers=main.starts, kills=kills, resizes=main.resizes)


# --- the sandbox


def _sandbox(pod: Pod, observed: ObservedPod) -> tuple[PodActions, bool]:
    """Which sandbox to use, and whether the newest one will do."""
    match sandbox_fitness(pod, observed):
        case SandboxFitness.FITS:
            newest = observed.sandboxes[0]
            return PodActions(sandbox_id=newest.id, attempt=newest.attempt), True
        case SandboxFitness.MISSING:
            return PodActions(), False
        case SandboxFitness.WRONG_NETWORK:
            return PodActions(attempt=observed.sandboxes[0].attempt + 1), False
        case SandboxFitness.NOT_READY | SandboxFitness.UNREACHABLE:
            newest = observed.sandboxes[0]
            return PodActions(sandbox_id=newest.id, attempt=newest.attempt + 1), False
        case unknown:
            assert_never(unknown)


def _from_the_beginning(pod: Pod, observed: ObservedPod, actions: PodActions) -> PodActions:
    """The sandbox is missing or of no use: all there is must go, and the pod starts over if anything is left to run."""
    ending = changed(actions, kill_pod=True)
    if not restarts_on_failure(pod) and actions.attempt and observed.containers:
        return ending  # without any container it never got as far as running, and may still try
    starts = tuple(container.name for container in pod.spec.containers if not _is_finished(pod, observed, container))
    if not starts and _was_initialized(pod, observed):
        return ending
    afresh = changed(ending, create_sandbox=True)
    if pod.spec.init_containers:
        return changed(afresh, init_containers=(pod.spec.init_containers[0].name,))
    return changed(afresh, containers=starts)


def _is_finished(pod: Pod, observed: ObservedPod, container: Container) -> bool:
    newest = observed.newest(container.name)
    succeeded = newest is not None and newest.state is State.EXITED and newest.exit_code == 0
    return succeeded and restart_policy(pod.spec, container) == "OnFailure"


def _was_initialized(pod: Pod, observed: ObservedPod) -> bool:
    """A main container, whatever became of it, is only ever made after initialization."""
    newest = (observed.newest(container.name) for container in pod.spec.containers)
    return any(attempt is not None and attempt.state is not State.UNKNOWN for attempt in newest)


# --- init containers


class _Step(Struct, frozen=True, kw_only=True):
    """What one init container asks for."""

    restart: bool = False
    complete: bool = False
    """The one after it may start."""
    failed: bool = False
    kill: Kill | None = None
    may_resize: bool = False
    restarts_to_resize: bool = False


class _Init(Struct, frozen=True, kw_only=True):
    starts: tuple[str, ...] = ()
    kills: tuple[Kill, ...] = ()
    done: bool = False
    """The main containers may run."""
    failed: bool = False
    """The pod can never run."""
    resizes: Resizes = NO_RESIZES


def _init(pod: Pod, observed: ObservedPod, probes: ProbeResults, actuated: Allocation | None) -> _Init:
    """How far initialization has come, found from its end: ended containers may have been removed, the last one last.

    Every init container before the last one seen must have done its part; of those, only sidecars are kept running.
    """
    containers = pod.spec.init_containers
    initialized = not containers or _is_past_initialization(pod, observed)
    reached = initialized
    starts: list[str] = []
    kills: list[Kill] = []
    resizes = NO_RESIZES
    for index in range(len(containers) - 1, -1, -1):
        container = containers[index]
        newest = observed.newest(container.name)
        if newest is None:
            if reached and is_sidecar(container):
                starts.append(container.name)
            continue
        if reached and not is_sidecar(container):
            continue
        step = _init_step(pod, container, newest, probes, actuated)
        if step.failed:
            return _Init(failed=True)
        if step.complete and index + 1 == len(containers):
            initialized = True
        elif step.complete and not reached:
            starts.append(containers[index + 1].name)
        if step.restart:
            starts.append(container.name)
        if step.kill:
            kills.append(step.kill)
        resizes = changed(resizes, restarts=resizes.restarts or step.restarts_to_resize)
        if step.may_resize:
            resizes = with_updates(resizes, container, newest, actuated)
        reached = True
    if not reached:
        starts.append(containers[0].name)
    return _Init(starts=tuple(reversed(starts)), kills=tuple(kills), done=initialized, resizes=resizes)


def _is_past_initialization(pod: Pod, observed: ObservedPod) -> bool:
    """A main container that is up proves it. An ended one does not: it may belong to the sandbox before this one."""
    newest = (observed.newest(container.name) for container in pod.spec.containers)
    return any(attempt is not None and attempt.state in (State.CREATED, State.RUNNING) for attempt in newest)


def _init_step(
    pod: Pod, container: Container, newest: ObservedContainer, probes: ProbeResults, actuated: Allocation | None
) -> _Step:
    match newest.state:
        case State.CREATED:
            return _Step(restart=True)  # creating and starting are one act: the runtime could not start it
        case State.RUNNING:
            return _running_sidecar(container, newest, probes, actuated) if is_sidecar(container) else _Step()
        case State.EXITED:
            if is_sidecar(container):
                return _Step(restart=True)
            if newest.exit_code == 0 and newest.reason != "OOMKilled":
                return _Step(complete=True)
            is_tried_again = restarts_after(pod.spec, container, newest.exit_code)
            return _Step(restart=True) if is_tried_again else _Step(failed=True)
        case State.UNKNOWN:
            if not is_sidecar(container) and restart_policy(pod.spec, container) == "Never":
                return _Step(failed=True)
            return _Step(restart=True, kill=_kill_of_unknown(newest, "Init container"))
        case _:
            assert_never(newest.state)


def _running_sidecar(
    container: Container, newest: ObservedContainer, probes: ProbeResults, actuated: Allocation | None
) -> _Step:
    """The next one waits for its startup probe; its liveness is its own affair, and stops nobody else."""
    if container.startup_probe is not None:
        startup = probes.startup.get(newest.id)
        if startup is Result.FAILURE:
            message = f"Init container {container.name} failed startup probe"
            return _Step(restart=True, kill=Kill(newest.name, newest.id, STARTUP_PROBE, message))
        if startup is not Result.SUCCESS:
            return _Step()
    kill = None
    if newest.hash != container_hash(container):
        kill = Kill(newest.name, newest.id, "", f"Init container {container.name} definition changed")
    elif container.liveness_probe is not None and probes.liveness.get(newest.id) is Result.FAILURE:
        kill = Kill(newest.name, newest.id, LIVENESS_PROBE, f"Init container {container.name} failed liveness probe")
    if kill is not None:
        return _Step(complete=True, restart=True, kill=kill)
    may_resize = container.liveness_probe is None or newest.id in probes.liveness
    if may_resize and needs_restart(container, actuated):
        return _Step(complete=True, restart=True, kill=_kill_to_resize(newest), restarts_to_resize=True)
    return _Step(complete=True, may_resize=may_resize)


# --- main containers


class _Main(Struct, frozen=True, kw_only=True):
    starts: tuple[str, ...]
    kills: tuple[Kill, ...]
    kept: int
    """How many run, and may go on."""
    resizes: Resizes


def _main(
    pod: Pod, observed: ObservedPod, probes: ProbeResults, actuated: Allocation | None, resizes: Resizes
) -> _Main:
    starts: list[str] = []
    kills: list[Kill] = []
    kept = 0
    for container in pod.spec.containers:
        newest = observed.newest(container.name)
        if newest is None or newest.state is not State.RUNNING:
            if should_restart(pod, container, newest):
                starts.append(container.name)
                if newest is not None and newest.state is State.UNKNOWN:
                    kills.append(_kill_of_unknown(newest, "Container"))
        elif kill := _kill_of_running(pod, container, newest, probes):
            kills.append(kill)
            if _comes_back(pod, container, kill):
                starts.append(container.name)
        elif needs_restart(container, actuated):
            kills.append(_kill_to_resize(newest))
            starts.append(container.name)
            resizes = changed(resizes, restarts=True)
        else:
            kept += 1
            resizes = with_updates(resizes, container, newest, actuated)
    return _Main(starts=tuple(starts), kills=tuple(kills), kept=kept, resizes=resizes)


def _kill_of_running(pod: Pod, container: Container, newest: ObservedContainer, probes: ProbeResults) -> Kill | None:
    reason, trouble = "", ""
    if newest.hash != container_hash(container):
        trouble = "definition changed"
    elif probes.liveness.get(newest.id) is Result.FAILURE:
        reason, trouble = LIVENESS_PROBE, "failed liveness probe"
    elif probes.startup.get(newest.id) is Result.FAILURE:
        reason, trouble = STARTUP_PROBE, "failed startup probe"
    if not trouble:
        return None
    kill = Kill(newest.name, newest.id, reason, f"Container {container.name} {trouble}")
    return changed(kill, message=f"{kill.message}, will be restarted") if _comes_back(pod, container, kill) else kill


def _kill_to_resize(newest: ObservedContainer) -> Kill:
    return Kill(newest.name, newest.id, "", f"Container {newest.name} resize requires restart")


def _comes_back(pod: Pod, container: Container, kill: Kill) -> bool:
    """A changed container always does: its author wants the new one. After a failure the restart policy decides; what
    has not ended yet has no code that rules could be about."""
    return not kill.reason or restart_policy(pod.spec, container) != "Never"


def _kill_of_unknown(newest: ObservedContainer, kind: str) -> Kill:
    """It may still be running, and two of a kind must never run side by side."""
    message = f'{kind} is in "{newest.state}" state, try killing it before restart'
    return Kill(newest.name, newest.id, UNKNOWN, message)
