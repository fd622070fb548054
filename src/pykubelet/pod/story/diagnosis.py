"""Why a pod is not well: the first cause in the order in which a pod's life can go wrong."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import takewhile
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from pykubelet.api.pod import Pod
from pykubelet.api.rules.resources import MEMORY
from pykubelet.pod import moments as m
from pykubelet.pod.story import causes as c
from pykubelet.pod.story import texts
from pykubelet.pod.story.container_facts import ContainerFacts, phase_of

SLOW_PULL: Final = 10.0
"""Seconds after which a pull is what a pod waits for."""
_PULLING: Final = ("ErrImagePull", "ImagePullBackOff", "RegistryUnavailable", "SignatureValidationFailed")
_MAKING: Final = ("CreateContainerConfigError", "CreateContainerError", "RunContainerError", "PostStartHookError")
_OUT_OF: Final = "OutOf"
_SHELL_DOES_NOT_FIND: Final = 127
_A_WHILE: Final = 60.0
_LONG_ENOUGH: Final = 600.0
"""Seconds after which a container that was started again has left its trouble behind; with a probe it takes longer."""


class NodeTrouble(Struct, frozen=True, kw_only=True):
    """What a node has to do without."""

    runtime: str = ""
    runtime_since: datetime | None = None
    api: str = ""
    api_since: datetime | None = None
    agent: bool = False
    """Nobody is there who would do anything: what is told is what was written down last."""


class Evidence(Struct, frozen=True, kw_only=True):
    """All that a cause is found in."""

    pod: Pod | None
    namespace: str
    moments: Sequence[m.Noted]
    containers: Sequence[ContainerFacts]
    last_words: Mapping[str, str]
    trouble: NodeTrouble
    now: datetime


def cause_of(seen: Evidence) -> c.Cause | None:
    """None: nothing is wrong."""
    pod = seen.pod
    if pod is not None and not pod.spec.node_name and pod.status.phase in ("", "Pending"):
        return _unplaced(pod)
    if (left := _left_behind(seen)) is not None:
        return left
    return _of_end(seen) or _of_runtime(seen) or _of_needs(seen) or _of_containers(seen) or _of_api(seen)


# --- as a whole


def _left_behind(seen: Evidence) -> c.Cause | None:
    """What a pod that is being stopped cannot give back."""
    if not is_stopping(seen.moments):
        return None
    since = (each.moment for each in reversed(seen.moments))
    lately = takewhile(lambda moment: not isinstance(moment, m.PhaseEntered), since)
    return next((cause for each in lately if (cause := _of_claims(each)) is not None), None)


def is_stopping(moments: Sequence[m.Noted]) -> bool:
    phases = (each.moment.phase for each in reversed(moments) if isinstance(each.moment, m.PhaseEntered))
    return next(phases, None) in (m.Phase.STOPPING, m.Phase.RELEASING)


def _of_claims(moment: m.Moment) -> c.Cause | None:
    match moment:
        case m.Awaiting(what="claim", message=message, name=name):
            return c.ClaimNotReady(claim=name, message=message)
        case m.Awaiting(what="driver", message=message, name=name):
            return c.DriverAway(driver=name, message=message)
        case _:
            return None


def _unplaced(pod: Pod) -> c.Cause:
    said = next((each for each in pod.status.conditions if each.type == "PodScheduled"), None)
    gates = tuple(each.name for each in pod.spec.scheduling_gates)
    if gates and said is None:
        return c.SchedulingGated(gates=gates)
    return texts.of_scheduler(said.reason, said.message, gates) if said else c.NotScheduled()


def _of_end(seen: Evidence) -> c.Cause | None:
    """What the node, or somebody who has to do with it, has decided about the whole pod."""
    reason, message = (seen.pod.status.reason, seen.pod.status.message) if seen.pod else ("", "")
    for noted in seen.moments:
        if isinstance(noted.moment, m.Rejected):
            reason, message = noted.moment.reason, noted.moment.message
        if isinstance(noted.moment, m.Preempted):
            return c.Preempted(by=noted.moment.by)
        if isinstance(noted.moment, m.Evicted):
            return c.Evicted(message=noted.moment.message.strip())
        if isinstance(noted.moment, m.DeadlinePassed):
            reason = "DeadlineExceeded"
    phase = seen.pod.status.phase if seen.pod else ""
    match reason:
        case "Evicted":
            return c.Evicted(message=message)
        case "Preempting" | "Preempted":
            return c.Preempted(by="")
        case "DeadlineExceeded":
            seconds = seen.pod.spec.active_deadline_seconds if seen.pod else None
            return c.DeadlineExceeded(seconds=seconds)
        case "NodePorts":
            return c.PortTaken(port=", ".join(_host_ports(seen.pod)), message=message)
        case str() if reason.startswith(_OUT_OF):
            node = seen.pod.spec.node_name if seen.pod else ""
            return c.NoRoom(resources=(reason.removeprefix(_OUT_OF),), node=node or "the node", message=message)
        case str() if reason and phase in ("Failed", ""):
            return c.Rejected(reason=reason, message=message)
        case _:
            return None


def _host_ports(pod: Pod | None) -> list[str]:
    containers = (*pod.spec.init_containers, *pod.spec.containers) if pod else ()
    return [str(port.host_port) for each in containers for port in each.ports if port.host_port]


def _of_runtime(seen: Evidence) -> c.Cause | None:
    if not seen.trouble.runtime or _is_over(seen):
        return None
    return c.RuntimeDown(message=seen.trouble.runtime, since=seen.trouble.runtime_since)


def _of_api(seen: Evidence) -> c.Cause | None:
    if seen.trouble.agent and not _is_over(seen):
        was_stopped = any(each.was_asked and each.is_over for each in seen.containers)
        return c.AgentDown(since=seen.moments[-1].at if seen.moments else None, was_stopped=was_stopped)
    if not seen.trouble.api or _is_over(seen):
        return None
    return c.ApiServerAway(message=seen.trouble.api, since=seen.trouble.api_since)


def _is_over(seen: Evidence) -> bool:
    return phase_of(seen.pod, seen.moments) in ("Succeeded", "Failed")


# --- before any container


def _of_needs(seen: Evidence) -> c.Cause | None:
    if any(each.running_since or each.ended for each in seen.containers) or _is_over(seen):
        return None
    for noted in reversed(seen.moments):
        match noted.moment:
            case m.ContainerCreated() | m.ContainerStarted() | m.StartFailed():
                return None
            case m.SandboxMade(error=error):
                return c.SandboxFailed(message=error) if error else None
            case m.Awaiting(what="network", message=message):
                return c.NetworkNotReady(message=message)
            case m.Awaiting(what="claim" | "driver"):
                return _of_claims(noted.moment)
            case m.Awaiting(what="volume" | "configmap" | "secret", message=message, name=name):
                volume = name or _named_in(seen.pod, message)
                return _of_volume(seen, message) or c.VolumeFailed(volume=volume, message=message)
            case _:
                pass
    message = next((each.message for each in seen.containers if each.waiting == "ContainerCreating"), "")
    return _of_volume(seen, message)


def _of_volume(seen: Evidence, message: str) -> c.Cause | None:
    if found := texts.of_object(message, seen.namespace):
        return found
    failed = texts.of_volume(message)
    if failed is None:
        return None
    if found_key := texts.key_of_volume(message):
        kind, key = found_key
        return c.KeyNotFound(kind=kind, name=_source(seen.pod, failed.volume), namespace=seen.namespace, key=key)
    if seen.trouble.api and texts.is_connection(message):
        return c.ApiServerAway(message=seen.trouble.api, since=seen.trouble.api_since)
    return failed


def _named_in(pod: Pod | None, message: str) -> str:
    """The volume whose path on the node the message names."""
    paths = ((each.name, each.host_path.path) for each in (pod.spec.volumes if pod else ()) if each.host_path)
    return next((name for name, path in paths if path and path in message), "")


def _source(pod: Pod | None, name: str) -> str:
    """The object that a volume is made from."""
    for volume in pod.spec.volumes if pod else ():
        if volume.name == name and volume.config_map is not None:
            return volume.config_map.name
        if volume.name == name and volume.secret is not None:
            return volume.secret.secret_name
    return name


# --- its containers


def _of_containers(seen: Evidence) -> c.Cause | None:
    if phase_of(seen.pod, seen.moments) == "Succeeded":
        return None
    is_over = _is_over(seen)
    for container in seen.containers:
        if is_over and container.is_sidecar:
            continue  # it was ended with the pod
        if found := _of_container(seen, container):
            return found
    if (slow := _slow_pull(seen)) is not None:
        return slow
    return _not_ready(seen)


def _of_container(seen: Evidence, of: ContainerFacts) -> c.Cause | None:
    has_secret = bool(seen.pod and seen.pod.spec.image_pull_secrets)
    match of.waiting:
        case "ErrImageNeverPull":
            return c.ImageNeverPulled(container=of.name, image=of.image)
        case "InvalidImageName":
            return c.InvalidImageName(container=of.name, image=of.image)
        case reason if reason in _PULLING:
            return texts.of_pull(of.name, of.image, of.message, has_secret=has_secret)
        case "PostStartHookError":
            return c.HookFailed(container=of.name, hook="postStart")
        case reason if reason in _MAKING:
            if found := texts.of_object(of.message, seen.namespace):
                return found
            return _counted(texts.of_creation(of.name, reason, of.message, _command(of)), of)
        case _:
            pass
    if of.ends_by is not None and of.running_since is not None:
        return replace(_probe_cause(of, "liveness" if of.killed_for == "liveness" else "startup"), is_ending=True)
    is_back_off = of.waiting == "CrashLoopBackOff"
    has_failed = of.is_over and of.ended is not None and of.ended.exit_code != 0 and not of.was_asked
    if is_back_off or has_failed or _has_just_come_back(seen, of):
        return _of_exit(seen, of)
    return None


def _has_just_come_back(seen: Evidence, of: ContainerFacts) -> bool:
    """It runs again, but not for long enough to say that all is well."""
    if not of.restarts or of.was_asked or of.running_since is None or of.ended is None or of.ended.exit_code == 0:
        return False
    enough = _LONG_ENOUGH if of.killed_for and not of.is_ready else _A_WHILE
    return (seen.now - of.running_since).total_seconds() < enough


def _counted(cause: c.OfContainer, of: ContainerFacts) -> c.OfContainer:
    return replace(cause, times=of.restarts + 1) if isinstance(cause, c.CommandNotFound) else cause


def _command(of: ContainerFacts) -> str:
    return next(iter((*of.spec.command, *of.spec.args)), "") if of.spec else ""


def _of_exit(seen: Evidence, of: ContainerFacts) -> c.Cause | None:
    ended = of.ended
    if ended is None:
        return None
    words = seen.last_words.get(of.name, "") or ended.message
    if ended.reason in ("StartError", "ContainerCannotRun"):
        return _counted(texts.of_creation(of.name, ended.reason, ended.message or words, _command(of)), of)
    last = texts.last_line(words)
    if of.killed_for and ended.reason != "OOMKilled":
        return _probe_cause(of, "liveness" if of.killed_for == "liveness" else "startup")
    if texts.is_port_taken(words):
        return c.PortTaken(container=of.name, port=texts.port_in(words), message=last)
    crashed = c.Crashed(
        container=of.name,
        exit_code=ended.exit_code,
        times=of.restarts + (of.running_since is None),
        last_words=last,
        is_init=of.is_init and not of.is_sidecar,
        reason=ended.reason,
    )
    return _sorted(seen, of, crashed, words)


def _sorted(seen: Evidence, of: ContainerFacts, crashed: c.Crashed, words: str) -> c.Cause:
    """An end by itself: its reason and last words may say more."""
    name, code, times, last, is_init = (
        crashed.container, crashed.exit_code, crashed.times, crashed.last_words, crashed.is_init
    )  # fmt: skip
    if crashed.reason == "OOMKilled":
        limit = str((of.spec.resources.limits.get(MEMORY) if of.spec else None) or "")
        peak = f"{max(1, round(of.peak / (1 << 20)))}Mi" if of.peak else ""
        return c.OutOfMemory(
            container=name, exit_code=code, times=times, last_words=last, is_init=is_init, limit=limit, peak=peak
        )  # fmt: skip
    if texts.is_read_only(words):
        return c.ReadOnlyFileSystem(container=name, exit_code=code, times=times, last_words=last, is_init=is_init)
    if code == _SHELL_DOES_NOT_FIND:
        return c.CommandNotFound(container=name, command=_command(of), message=last, times=times)
    if texts.is_permission(last):
        user = _user(seen.pod, of)
        return c.PermissionDenied(
            container=name, exit_code=code, times=times, last_words=last, is_init=is_init, user=user
        )  # fmt: skip
    return crashed


def _user(pod: Pod | None, of: ContainerFacts) -> int | None:
    own = of.spec.security_context if of.spec else None
    if own is not None and own.run_as_user is not None:
        return own.run_as_user
    whole = pod.spec.security_context if pod else None
    return whole.run_as_user if whole else None


def _probe_cause(of: ContainerFacts, kind: c.ProbeKind) -> c.ProbeFailed:
    seconds = None
    probe = of.spec.startup_probe if of.spec and kind == "startup" else None
    if probe is not None:
        period, tries = probe.period_seconds or 10, probe.failure_threshold or 3
        seconds = float((probe.initial_delay_seconds or 0) + period * tries)
    words = texts.last_line(of.probe_words.get(kind, ""))
    return c.ProbeFailed(container=of.name, probe=kind, message=words, times=of.restarts, seconds=seconds)


def _slow_pull(seen: Evidence) -> c.Cause | None:
    for noted in seen.moments:
        if isinstance(noted.moment, m.PullBegun) and (seen.now - noted.at).total_seconds() >= SLOW_PULL:
            return c.PullSlow(image=noted.moment.image, since=noted.at)
        if isinstance(noted.moment, m.PullProgressed) and noted.moment.seconds >= SLOW_PULL:
            since = datetime.fromtimestamp(noted.at.timestamp() - noted.moment.seconds, tz=noted.at.tzinfo)
            return c.PullSlow(image=noted.moment.image, since=since)
    return None


def _not_ready(seen: Evidence) -> c.Cause | None:
    for of in seen.containers:
        if of.running_since is None or (of.is_init and not of.is_sidecar):
            continue
        for kind in ("startup", "liveness"):
            if kind in of.failing and not of.is_ready:
                return _probe_cause(of, "startup" if kind == "startup" else "liveness")
        has_probe = of.spec.readiness_probe is not None if of.spec else "readiness" in of.failing
        if has_probe and not of.is_ready and (of.is_started or "readiness" in of.failing):
            return _probe_cause(of, "readiness")
    if seen.pod is None or not seen.pod.status.conditions:
        return None
    holds = {each.type for each in seen.pod.status.conditions if each.status == "True"}
    gates = tuple(g.condition_type for g in seen.pod.spec.readiness_gates if g.condition_type not in holds)
    return c.ReadinessGate(gates=gates) if gates and "ContainersReady" in holds else None
