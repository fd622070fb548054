"""What is known of each container of a pod: from its status where that is known, else from what was noted of it."""

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from pykubelet.api.container import Container
from pykubelet.api.durations import parse_duration
from pykubelet.api.pod import ContainerStateTerminated, ContainerStatus, Pod
from pykubelet.api.rules.resources import is_sidecar
from pykubelet.pod import moments as m

_BACK_OFF: Final = re.compile(r"back-off (\S+) restarting")


class ContainerFacts(Struct, frozen=True, kw_only=True):
    name: str
    image: str = ""
    is_init: bool = False
    is_sidecar: bool = False
    spec: Container | None = None
    """None: only the journal knows of it."""
    waiting: str = ""
    """Why it does not run: CrashLoopBackOff, ErrImagePull ..."""
    message: str = ""
    running_since: datetime | None = None
    is_ready: bool = False
    is_started: bool = False
    ended: ContainerStateTerminated | None = None
    """Its last end, if it does not run now or has been started again since."""
    restarts: int = 0
    until: datetime | None = None
    """Before then it is not tried again."""
    killed_for: str = ""
    """The probe because of which it was ended last."""
    killed_attempt: int = -1
    ends_by: datetime | None = None
    """It still runs, but is being ended for a probe, and has until then."""
    probe_words: Mapping[str, str] = {}
    """By probe: what it said when it failed last."""
    failing: frozenset[str] = frozenset()
    """Probes whose last result was a failure."""
    is_over: bool = False
    """It has ended and is not started again."""
    was_asked: bool = False
    """It has ended because the whole pod was to end."""
    peak: int = 0
    """Bytes of memory that it had at most, when it has ended for want of more; 0: nobody knows."""


def phase_of(pod: Pod | None, moments: Sequence[m.Noted]) -> str:
    """What its status says, or, when only moments are left, what was said of it before it was stopped."""
    if pod is not None:
        return pod.status.phase
    phase, stopping = "", False
    for noted in moments:
        stopping = _is_stopping(stopping, noted.moment)
        if isinstance(noted.moment, m.StatusSet) and not stopping:
            phase = noted.moment.phase
    return phase


def container_facts(pod: Pod | None, moments: Sequence[m.Noted]) -> tuple[ContainerFacts, ...]:
    """Init containers first, in the order of the spec."""
    noted = _from_moments(moments)
    if pod is None:
        return tuple(replace(each, was_asked=_was_asked(each, moments)) for each in noted.values())
    spec, status = pod.spec, pod.status
    statuses = {each.name: each for each in (*status.init_container_statuses, *status.container_statuses)}
    init = {each.name for each in spec.init_containers}
    merged = (
        _merged(noted.get(each.name, ContainerFacts(name=each.name)), each, statuses.get(each.name), each.name in init)
        for each in (*spec.init_containers, *spec.containers)
    )
    return tuple(replace(each, was_asked=_was_asked(each, moments)) for each in merged)


def _was_asked(facts: ContainerFacts, moments: Sequence[m.Noted]) -> bool:
    """Whether its pod was being stopped when it ended. A status has whole seconds."""
    if facts.ended is None or facts.ended.finished_at is None:
        return False
    until, stopping = facts.ended.finished_at + timedelta(seconds=1), False
    for noted in moments:
        if noted.at > until:
            break
        stopping = _is_stopping(stopping, noted.moment)
    return stopping


def _is_stopping(before: bool, moment: m.Moment) -> bool:
    match moment:
        case m.StopAsked(by=by):
            return by in ("deleted", "removed", "orphaned")  # the others are what the pod has come to
        case m.PhaseEntered(phase=m.Phase.RUNNING):
            return False  # with an agent that came later
        case _:
            return before


def _merged(
    noted: ContainerFacts, container: Container, status: ContainerStatus | None, is_init: bool
) -> ContainerFacts:
    sidecar = is_init and is_sidecar(container)
    facts = replace(noted, spec=container, image=container.image, is_init=is_init, is_sidecar=sidecar)
    if status is None:
        return facts
    waiting, running, ended = status.state.waiting, status.state.running, status.state.terminated
    last = ended or status.last_state.terminated or noted.ended
    message = waiting.message if waiting else ""
    until = noted.until
    if waiting and until is None and last and last.finished_at and (found := _BACK_OFF.match(message)):
        until = last.finished_at + timedelta(seconds=_seconds(found[1]))
    return replace(
        facts,
        waiting=waiting.reason if waiting else "",
        message=message,
        running_since=running.started_at if running else None,
        is_ready=status.ready,
        is_started=status.started is not False,
        ended=last,
        restarts=status.restart_count,
        until=until if waiting else None,
        is_over=ended is not None,
    )


def _seconds(text: str) -> float:
    try:
        return parse_duration(text)
    except ValueError:
        return 0.0


def _from_moments(moments: Iterable[m.Noted]) -> dict[str, ContainerFacts]:
    found: dict[str, ContainerFacts] = {}
    for noted in moments:
        name = getattr(noted.moment, "container", "")
        if name:
            found[name] = _after(found.get(name) or ContainerFacts(name=name), noted)
        elif isinstance(noted.moment, m.EventRecorded) and noted.moment.reason == "Unhealthy":
            _hear(found, noted.moment.message)
    return found


def _after(facts: ContainerFacts, noted: m.Noted) -> ContainerFacts:
    """What is known after one more moment."""
    match noted.moment:
        case m.ContainerStarted(kind=kind, attempt=attempt):
            return replace(
                facts, is_init=kind == "init_container", running_since=noted.at, waiting="", message="", until=None,
                restarts=attempt, failing=frozenset(), is_over=False, ends_by=None,
            )  # fmt: skip
        case m.StartFailed(kind=kind, reason=reason, message=message, again_in=again):
            until = (noted.until or noted.at) + timedelta(seconds=again) if facts.until is None else facts.until
            is_init = kind == "init_container"
            return replace(facts, waiting=reason, message=message, is_init=is_init, until=until, running_since=None)
        case m.BackedOff(until=until, image=image):
            return replace(facts, until=until, image=image or facts.image)
        case m.ContainerStopping(message=message, grace=grace):
            kinds = ("liveness", "startup")
            killed_for = next((each for each in kinds if f"{each} probe" in message), "")
            ends_by = noted.at + timedelta(seconds=grace) if killed_for else None
            attempt = facts.restarts if facts.running_since is not None else -1  # an earlier agent has started it
            return replace(facts, killed_for=killed_for, killed_attempt=attempt, ends_by=ends_by)
        case m.Exited(code=code, reason=reason, attempt=attempt, started_at=started, finished_at=finished, peak=peak):
            why = facts.message if facts.waiting == "RunContainerError" else ""
            ended = ContainerStateTerminated(
                exit_code=code, reason=reason, message=why, started_at=started, finished_at=finished
            )
            if facts.running_since is not None and attempt < facts.restarts:
                return replace(facts, ended=ended, peak=peak)  # seen late: it has been started again since
            was_killed = facts.killed_for if facts.killed_attempt in (attempt, -1) else ""
            return replace(
                facts, ended=ended, running_since=None, until=None, killed_for=was_killed, is_over=True, peak=peak,
                ends_by=None,
            )  # fmt: skip
        case m.Probed(kind=kind, result=result) | m.HealthChanged(kind=kind, result=result):
            failing = facts.failing | {kind} if result == "Failure" else facts.failing - {kind}
            is_ready = facts.is_ready if kind != "readiness" else result == "Success"
            return replace(facts, failing=failing, is_ready=is_ready)
        case _:
            return facts


def _hear(found: dict[str, ContainerFacts], message: str) -> None:
    """An event of a probe does not name its container: the one that is about to be told to fail is meant."""
    kind, _, words = message.partition(" probe ")
    for name, facts in found.items():
        if len(found) == 1 or facts.running_since is not None:
            said = words.removeprefix("failed:").strip()
            found[name] = replace(facts, probe_words={**facts.probe_words, kind.lower(): said})
