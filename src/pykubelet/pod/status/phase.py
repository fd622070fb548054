"""The phase of a pod: one word for where it is in its life."""

from collections.abc import Iterable
from typing import Final

from pykubelet.api.pod import ContainerStatus, Pod, PodSpec
from pykubelet.api.rules.pod_kinds import is_static
from pykubelet.api.rules.resources import is_sidecar
from pykubelet.api.rules.restarts import has_own_policy, restarts_after

PENDING: Final = "Pending"
RUNNING: Final = "Running"
SUCCEEDED: Final = "Succeeded"
FAILED: Final = "Failed"


def is_terminal_phase(phase: str) -> bool:
    """A pod that has Succeeded or Failed never runs again."""
    return phase in (SUCCEEDED, FAILED)


def pod_phase(
    pod: Pod,
    init: tuple[ContainerStatus, ...],
    main: tuple[ContainerStatus, ...],
    *,
    is_terminal: bool,
    has_begun: bool,
) -> str:
    """The phase that follows from the containers alone.

    `init` is in the order of the spec. `is_terminal`: nothing of the pod will be started again. `has_begun`: a main
    container has been made in the sandbox that is in use, so sidecars that start again do not take the pod back to
    Pending.
    """
    spec = pod.spec
    policy = spec.restart_policy
    initializing, failed, sidecar_running, sidecar_waiting = _initialization(pod, init)
    running, waiting, stopped, succeeded = _census(main)
    if failed:
        return FAILED
    # A sidecar's startup probe has not been asked yet: a running one may still be starting.
    if initializing or ((sidecar_running or sidecar_waiting) and not has_begun) or sidecar_waiting or waiting:
        return PENDING
    if running or sidecar_running:
        return RUNNING
    if not stopped:
        return PENDING
    outcome = SUCCEEDED if stopped == succeeded else FAILED
    if is_terminal and not is_static(pod):
        return outcome
    if has_own_policy(spec):
        return RUNNING if _any_comes_back(spec, main) else outcome
    if policy == "Always" or (outcome == FAILED and policy != "Never"):
        return RUNNING
    return outcome


def _any_comes_back(spec: PodSpec, main: tuple[ContainerStatus, ...]) -> bool:
    ends = {each.name: each.state.terminated or each.last_state.terminated for each in main}
    known = ((container, ends.get(container.name)) for container in spec.containers)
    return any(end is not None and restarts_after(spec, container, end.exit_code) for container, end in known)


def _initialization(pod: Pod, init: tuple[ContainerStatus, ...]) -> tuple[bool, bool, bool, bool]:
    """-> (an init container has work to do, one failed for good, a sidecar runs, a sidecar has never run)."""
    initializing = failed = sidecar_running = sidecar_waiting = False
    for container, status in zip(pod.spec.init_containers, init, strict=True):
        ended = status.state.terminated
        if ended is None and status.state.running is None:
            ended = status.last_state.terminated
        if is_sidecar(container):
            sidecar_running = sidecar_running or status.state.running is not None
            sidecar_waiting = sidecar_waiting or (ended is None and status.state.running is None)
        elif ended is None:
            initializing = True
        elif ended.exit_code != 0:
            failed = failed or not restarts_after(pod.spec, container, ended.exit_code)
    return initializing, failed, sidecar_running, sidecar_waiting


def _census(main: Iterable[ContainerStatus]) -> tuple[int, int, int, int]:
    """-> how many run, have never run, have stopped, and have stopped for good with success."""
    running = waiting = stopped = succeeded = 0
    for status in main:
        state = status.state
        if state.running is not None:
            running += 1
        elif state.terminated is not None:
            stopped += 1
            succeeded += state.terminated.exit_code == 0
        elif status.last_state.terminated is not None:
            stopped += 1
        else:
            waiting += 1
    return running, waiting, stopped, succeeded
