"""A pod's story: everything that is known of it, folded into what people ask: what is it doing, why, and what next."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final, Literal

from msgspec import Struct

from pykubelet.api.durations import span
from pykubelet.api.pod import Pod
from pykubelet.api.rules.restarts import is_restartable
from pykubelet.pod import moments as m
from pykubelet.pod.story import causes as c
from pykubelet.pod.story.advice import Next, advice, next_step
from pykubelet.pod.story.container_facts import ContainerFacts, container_facts, phase_of
from pykubelet.pod.story.diagnosis import Evidence, NodeTrouble, cause_of, is_stopping
from pykubelet.pod.story.resize import resize_note
from pykubelet.pod.story.sentences import sentence
from pykubelet.pod.story.timeline import Line, Span, critical_path, timeline

State = Literal[
    "Unscheduled", "Starting", "Waiting", "Failing", "NotReady", "Running", "Stopping", "Stopped", "Succeeded",
    "Failed", "Gone"
]  # fmt: skip
"""Starting goes on by itself; Waiting needs something; Failing has containers that end; Stopped was so with its agent,
and goes on with it; Gone: no source has it."""
_WELL: Final = ("Starting", "Running", "Stopping", "Succeeded", "Gone")
_NO_TROUBLE: Final = NodeTrouble()
_THIS_MACHINE: Final = "machine"
"""The id of the image that the embedded runtime takes when it has no other."""
VERSION: Final = 1


class Story(Struct, frozen=True, kw_only=True, rename="camel"):
    version: int = VERSION
    """Of this form: it changes when a field goes or changes its meaning."""
    namespace: str
    name: str
    uid: str
    node: str
    state: State
    is_well: bool
    sentence: str
    """The first line: state, cause, and what happens next."""
    cause: c.Cause | None
    next: Next | None
    advice: tuple[str, ...]
    last_words: Mapping[str, str]
    """By container: the last lines of the log of one that has failed."""
    ready_after: float | None
    """Seconds from when the node first heard of it; None: it has not been ready."""
    critical_path: tuple[Span, ...]
    timeline: tuple[Line, ...]
    told_at: datetime


def story(
    pod: Pod | None,
    moments: Sequence[m.Noted],
    *,
    now: datetime,
    last_words: Mapping[str, str] | None = None,
    trouble: NodeTrouble = _NO_TROUBLE,
    node: str = "",
    is_gone: bool = False,
    since: datetime | None = None,
) -> Story:
    """Of a pod whose spec and status are known, or of one of which only its moments are left. Some of either has to be
    there. `since` shortens the timeline alone."""
    about = m.about(pod) if pod is not None else moments[-1].about
    facts = container_facts(pod, moments)
    words = last_words or {}
    evidence = Evidence(
        pod=pod,
        namespace=about.namespace,
        moments=moments,
        containers=facts,
        last_words=words,
        trouble=trouble,
        now=now,
    )
    cause = cause_of(evidence)
    state = "Gone" if is_gone else _state(pod, moments, facts, cause)
    comes_next = _next(pod, facts, cause, now) if cause is not None and state not in ("Gone", "Stopping") else None
    if comes_next is not None and comes_next.by != "never" and trouble.agent:
        comes_next = Next("node", "nothing is started or tried until the node's agent runs again")
    path = critical_path(moments)
    return Story(
        namespace=about.namespace,
        name=about.name,
        uid=about.uid,
        node=node or (pod.spec.node_name if pod else ""),
        state=state,
        is_well=state in _WELL and (cause is None or state in ("Gone", "Stopping")),
        sentence=_first_line(
            about.name, state, cause, comes_next, facts, moments, now, resize_note(pod) or _image_note(pod, moments)
        ),
        cause=cause,
        next=comes_next,
        advice=advice(cause, about.name, about.namespace) if comes_next is not None and cause is not None else (),
        last_words=words,
        ready_after=sum(each.seconds for each in path) if path and path[-1].stage == "ready" else None,
        critical_path=path,
        timeline=tuple(line for line in timeline(moments) if since is None or line.at >= since),
        told_at=now,
    )


def _next(pod: Pod | None, facts: Sequence[ContainerFacts], cause: c.Cause, now: datetime) -> Next:
    mine = [each for each in facts if each.name == getattr(cause, "container", each.name)]
    until = min((at for each in mine if (at := each.until or each.ends_by) is not None), default=None)
    is_over = pod is not None and pod.status.phase in ("Failed", "Succeeded")
    comes_back = pod is None or any(is_restartable(pod.spec, each.spec) for each in mine if each.spec)
    runs = max((each.running_since for each in mine if each.running_since is not None), default=None)
    return next_step(cause, until, now, restarts=not is_over and comes_back, runs_since=runs)


def _state(
    pod: Pod | None, moments: Sequence[m.Noted], facts: Sequence[ContainerFacts], cause: c.Cause | None
) -> State:
    phase = phase_of(pod, moments)
    if isinstance(cause, c.OfClaims) and is_stopping(moments):
        return "Waiting"
    if phase == "Succeeded":
        return "Succeeded"
    if phase == "Failed" or (cause is not None and not phase and isinstance(cause, c.OfEnd)):
        return "Failed"
    if pod is not None and pod.metadata.deletion_timestamp is not None:
        return "Stopping"
    match cause:
        case c.NotScheduled() | c.SchedulingGated() | c.UntoleratedTaint() | c.NoDevices() | c.NoRoom(node=""):
            return "Unscheduled"
        case c.ProbeFailed(probe="readiness") | c.ReadinessGate():
            return "NotReady"
        case c.Crashed() | c.OutOfMemory() | c.ReadOnlyFileSystem() | c.PermissionDenied() | c.ProbeFailed():
            return "Failing"
        case c.PortTaken(container=name) if name:
            return "Failing"
        case c.AgentDown(was_stopped=True):
            return "Stopped"
        case None | c.RuntimeDown() | c.ApiServerAway() | c.AgentDown():
            main = [each for each in facts if not each.is_init]
            return "Running" if main and all(each.running_since for each in main) else "Starting"
        case _:
            return "Waiting"


def _first_line(
    name: str,
    state: State,
    cause: c.Cause | None,
    comes_next: Next | None,
    facts: Sequence[ContainerFacts],
    moments: Sequence[m.Noted],
    now: datetime,
    note: str,
) -> str:
    """`note`: what is to be said of one that runs and is well."""
    if cause is not None:
        what = sentence(cause, now)
        if state == "Gone":
            return f"{name} is gone; at last it {what}."
        if isinstance(cause, c.OfClaims) and is_stopping(moments):
            return f"{name} has ended and {what}; then it is let go."
        if state == "Stopping":
            return f"{name} is being stopped; before that it {what}."
        return f"{name} {what}; {comes_next.what}." if comes_next is not None else f"{name} {what}."
    match state:
        case "Running":
            since = min((each.running_since for each in facts if each.running_since), default=None)
            restarts = sum(each.restarts for each in facts)
            again = f", after {restarts} restart{'s' if restarts > 1 else ''}" if restarts else ""
            time = f" for {span((now - since).total_seconds())}" if since else ""
            return f"{name} runs{time}{again}; {note or 'all is well'}."
        case "Succeeded":
            return f"{name} has done its work and ended well."
        case "Failed":
            return f"{name} has failed; it is not started again."
        case "Stopping":
            return f"{name} is being stopped."
        case "Gone":
            return f"{name} is gone; nothing was wrong with it."
        case _:
            return f"{name} is starting{_stage(moments)}."


def _image_note(pod: Pod | None, moments: Sequence[m.Noted]) -> str:
    """Whether this machine's programs run, since no registry could be reached."""
    told = next((each for each in reversed(moments) if _is_told(each.moment)), None)
    runs = pod is None or any(each.image_id == _THIS_MACHINE for each in pod.status.container_statuses)
    if told is None or not runs or isinstance(told.moment, m.PullEnded):
        return ""
    return "not its image, but this machine's programs: the registry cannot be reached"


def _is_told(moment: m.Moment) -> bool:
    match moment:
        case m.EventRecorded(reason="ImageNotPulled") | m.PullEnded(error=""):
            return True
        case _:
            return False


def _stage(moments: Sequence[m.Noted]) -> str:
    for noted in reversed(moments):
        if isinstance(noted.moment, m.StepBegun):
            return f" ({noted.moment.step})"
        if isinstance(noted.moment, m.PullBegun | m.PullProgressed):
            return f" (pulling {noted.moment.image})"
    return ""
