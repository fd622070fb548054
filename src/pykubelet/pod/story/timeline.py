"""Where the time went: the moments of a pod as lines with durations, and the stages of its start in their order."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Literal, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from pykubelet.pod import moments as m
from pykubelet.pod.resize.moments import Resized

Stage = Literal["waiting", "volumes", "sandbox", "pull", "init", "start", "ready"]


class Line(Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    at: datetime
    """When it was over, for what took time."""
    what: str
    seconds: float | None = None
    container: str = ""
    times: int = 1
    is_trouble: bool = False


class Span(Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """One stage of a pod's start. What a stage waits for belongs to it."""

    stage: Stage
    what: str
    began: datetime
    seconds: float
    took: float | None = None
    """Of the work itself, which may have begun before the stage ahead of it was over; None: nobody has measured it."""


def timeline(moments: Sequence[m.Noted]) -> tuple[Line, ...]:
    """The oldest first. A status that reads as the one before is no news, nor is an end that a later agent sees."""
    lines, status = [], ""
    started: dict[tuple[str, int], datetime] = {}
    ended: set[tuple[str, int, datetime | None]] = set()
    for noted in moments:
        line = _line(noted)
        match noted.moment:
            case m.ContainerStarted(container=name, attempt=attempt):
                started[name, attempt] = noted.at
            case m.Exited(container=name, attempt=attempt, finished_at=finished) if line is not None:
                if (name, attempt, finished) in ended:
                    continue
                ended.add((name, attempt, finished))
                # some runtimes know whole seconds
                line = replace(line, at=max(line.at, started.get((name, attempt), line.at)))
            case _:
                pass
        if line is None or (isinstance(noted.moment, m.StatusSet) and line.what == status):
            continue
        status = line.what if isinstance(noted.moment, m.StatusSet) else status
        lines.append(line)
    return tuple(sorted(lines, key=lambda line: line.at))


def _line(noted: m.Noted) -> Line | None:
    line = _of_pod(noted.moment) or _of_work(noted.moment) or _of_container(noted.moment)
    if line is None:
        return None
    at = noted.until or noted.at
    if isinstance(noted.moment, m.Exited) and noted.moment.finished_at is not None:
        at = noted.moment.finished_at
    return Line(
        at=at,
        what=line.what,
        seconds=line.seconds,
        container=getattr(noted.moment, "container", ""),
        times=noted.times,
        is_trouble=line.is_trouble,
    )


class _Told(NamedTuple):
    what: str
    seconds: float | None = None
    is_trouble: bool = False


def _of_pod(moment: m.Moment) -> _Told | None:
    match moment:
        case m.Merged(op=op, source=source):
            return _Told(f"{op} from {source}") if op in ("ADD", "DELETE", "REMOVE") else None
        case m.Admitted():
            return _Told("admitted")
        case m.Rejected(reason=reason, message=message):
            return _Told(f"turned away: {reason}: {message}", is_trouble=True)
        case m.Preempted(by=by):
            return _Told(f"makes room for {by}", is_trouble=True)
        case m.Evicted(message=message):
            return _Told(f"evicted: {message.strip()}", is_trouble=True)
        case Resized(stage=stage, message=message) if message or stage not in ("Told", "Error"):
            told = f"resize: {stage.lower()}"
            return _Told(f"{told}: {message}" if message else told, is_trouble=bool(message))
        case m.StopAsked(by=by, grace=grace):
            return _Told(f"is to stop ({by}), within {grace:g} s")
        case m.DeadlinePassed():
            return _Told("its deadline has passed", is_trouble=True)
        case m.StatusSet(phase=phase, is_ready=is_ready):
            return _Told(f"{phase}, {'ready' if is_ready else 'not ready'}")
        case m.PodDeleted():
            return _Told("deleted from the API server")
        case m.EventRecorded(kind="Warning", reason=reason, message=message):
            return _Told(f"{reason}: {message}", is_trouble=True)
        case _:
            return None


def _of_work(moment: m.Moment) -> _Told | None:
    match moment:
        case m.Awaiting(what=what, name=name, message=message):
            told = f"waits for {what} {name}".rstrip()
            return _Told(f"{told}: {message}" if message else told, is_trouble=bool(message))
        case m.SandboxMade(seconds=seconds, error=error):
            return _Told(f"sandbox: {error}" if error else "sandbox", seconds, bool(error))
        case m.StepEnded(step=step, seconds=seconds, error=error) if step in ("volumes", "cgroup"):
            return _Told(f"{step}: {error}" if error else step, seconds, bool(error))
        case m.PullBegun(image=image) | m.PullProgressed(image=image):
            return _Told(f"pulling {image}")
        case m.PullEnded(image=image, waited=waited, error=error, bytes=size):
            told = f"pull of {image} failed: {error}" if error else f"pulled {image}, {size >> 20} MiB"
            return _Told(told, waited, bool(error))
        case _:
            return None


def _of_container(moment: m.Moment) -> _Told | None:
    match moment:
        case m.ContainerStarted(attempt=attempt):
            return _Told("started again" if attempt else "started")
        case m.StartFailed(reason=reason, message=message):
            return _Told(f"{reason}: {message}", is_trouble=True)
        case m.BackedOff(until=until):
            return _Told(f"not tried again before {until:%H:%M:%S}")
        case m.Exited(code=code, reason=reason, started_at=started, finished_at=finished):
            lived = (finished - started).total_seconds() if started and finished else None
            return _Told(f"exited with code {code}{f' ({reason})' if reason else ''}", lived, code != 0)
        case m.HealthChanged(kind=kind, result=result):
            return _Told(f"{kind} probe: {result}", is_trouble=result == "Failure")
        case m.ContainerStopping(message=message):
            return _Told(f"is stopped: {message}" if message else "is stopped")
        case m.HookFailed(hook=hook):
            return _Told(f"{hook} hook failed", is_trouble=True)
        case _:
            return None


def critical_path(moments: Sequence[m.Noted]) -> tuple[Span, ...]:
    """The stages of the pod's first start, up to Ready, each from the end of the one before. Between two marks the time
    belongs to what the second one ends: that is what the pod was waiting for."""
    marks: list[tuple[datetime, Stage, str, float | None]] = []
    began: datetime | None = None
    init = _init_names(moments)
    for noted in sorted(moments, key=lambda noted: noted.at):
        at = noted.at
        began = began or at
        match noted.moment:
            case m.Began():
                marks.append((at, "waiting", "for its worker", None))
            case m.StepEnded(step="volumes", error="", seconds=seconds):
                marks.append((at, "volumes", "volumes", seconds))
            case m.SandboxMade(error="", seconds=seconds):
                marks.append((at, "sandbox", "sandbox", seconds))
            case m.PullEnded(image=image, error="", waited=waited):
                marks.append((at, "pull", image, waited))
            case m.Exited(container=name, code=0, started_at=started, finished_at=finished) if name in init:
                lived = _seconds(finished - started) if started and finished else None
                marks.append((finished or at, "init", name, lived))
            case m.ContainerStarted(container=name, kind="container", attempt=0):
                marks.append((at, "start", name, None))
            case m.ContainerStarted(container=name, kind="container"):
                marks.append((at, "start", f"{name}, once more", None))
            case m.StatusSet(is_ready=True):
                marks.append((at, "ready", "until Ready", None))
                break
            case _:
                pass
    spans, before = [], began
    for at, stage, what, took in sorted(marks, key=lambda mark: mark[0]):
        assert before is not None  # there are marks
        took = round(took, 3) if took is not None else None
        spans.append(Span(stage=stage, what=what, began=before, seconds=_seconds(at - before), took=took))
        before = max(at, before)
    return tuple(spans)


def _init_names(moments: Sequence[m.Noted]) -> frozenset[str]:
    started = (noted.moment for noted in moments if isinstance(noted.moment, m.ContainerStarted))
    return frozenset(each.container for each in started if each.kind == "init_container")


def _seconds(of: timedelta) -> float:
    return max(0.0, round(of.total_seconds(), 3))
