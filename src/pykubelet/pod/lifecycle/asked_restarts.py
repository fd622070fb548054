"""A container that a person asks to be started anew, in place: whether that can be, and what has to happen for it."""

from collections.abc import Collection

from pykubelet.api.container import Container
from pykubelet.api.pod import Pod
from pykubelet.api.rules.resources import is_sidecar
from pykubelet.api.rules.restarts import restart_policy
from pykubelet.api.struct import changed
from pykubelet.base.errors import Invalid, NotFound, Retry
from pykubelet.pod.lifecycle.crash_loop_backoff import should_restart
from pykubelet.pod.lifecycle.plan import Kill, PodActions
from pykubelet.pod.observed import ObservedContainer, ObservedPod, State


def to_restart(pod: Pod, observed: ObservedPod | None, name: str) -> ObservedContainer:
    """The attempt that is to end, or has ended and waits for its next start. `name`: empty for the only container.
    Raises Invalid when it would not come back, NotFound, Retry."""
    container = _container(pod, name)
    if pod.metadata.deletion_timestamp is not None or pod.status.phase in ("Succeeded", "Failed"):
        raise Invalid(f"pod {pod.metadata.name} is at its end: nothing of it is started again")
    newest = observed.newest(container.name) if observed else None
    if newest is None or newest.state in (State.CREATED, State.UNKNOWN):
        raise Retry(f"container {container.name} has not been started yet")
    policy = restart_policy(pod.spec, container)
    if newest.state is State.RUNNING and policy != "Always":
        what = f"container {container.name} runs, and with restartPolicy {policy} an end may be its last"
        raise Invalid(f"{what}; delete the pod, and its owner makes another")
    if newest.state is State.EXITED and not should_restart(pod, container, newest):
        raise Invalid(f"container {container.name} has ended for good (restartPolicy {policy})")
    return newest


def with_restarts(actions: PodActions, pod: Pod, observed: ObservedPod, asked: Collection[str]) -> PodActions:
    """What was planned, and an end and a start for those of the running containers (by id) that somebody asks for."""
    if not asked or actions.kill_pod or actions.create_sandbox:
        return actions
    killed = {kill.container_id for kill in actions.kills}
    main = {each.name for each in pod.spec.containers}
    for container in (*filter(is_sidecar, pod.spec.init_containers), *pod.spec.containers):
        newest = observed.newest(container.name)
        if newest is None or newest.id not in asked or newest.id in killed or newest.state is not State.RUNNING:
            continue
        message = f"Container {container.name} was asked to restart, will be restarted"
        actions = changed(actions, kills=(*actions.kills, Kill(newest.name, newest.id, "", message)))
        if container.name in main:
            actions = changed(actions, containers=(*actions.containers, container.name))
        else:
            actions = changed(actions, init_containers=(*actions.init_containers, container.name))
    return actions


def _container(pod: Pod, name: str) -> Container:
    spec = pod.spec
    able = {each.name: each for each in (*filter(is_sidecar, spec.init_containers), *spec.containers)}
    if not name and len(able) == 1:
        return next(iter(able.values()))
    if not name:
        raise Invalid(f"pod {pod.metadata.name} has several containers: choose one with -c: {', '.join(able)}")
    if name in able:
        return able[name]
    if any(each.name == name for each in (*spec.init_containers, *spec.ephemeral_containers)):
        raise Invalid(f"container {name} runs once: only main containers and sidecars are restarted")
    raise NotFound(f"pod {pod.metadata.name} has no container {name}; there are: {', '.join(able)}")
