"""What a job's status may say, whoever writes it: a job that has ended stays so, and what it says fits together."""

from collections.abc import Iterator
from typing import Any, Final

from pykubelet.api.field_errors import FieldError, duplicate, invalid, required
from pykubelet.api.rules import completion_indexes as indexes
from pykubelet.api.validation.rules import not_negative
from pykubelet.apiserver.objects import Object, at
from pykubelet.apiserver.schema.schema import same

_COUNTS: Final = ("active", "succeeded", "failed", "ready", "terminating")
_LASTING: Final = ("Failed", "Complete", "FailureTarget", "SuccessCriteriaMet")
_EXCLUSIVE: Final = (
    ("Complete", "Failed"),
    ("Complete", "FailureTarget"),
    ("SuccessCriteriaMet", "Failed"),
    ("SuccessCriteriaMet", "FailureTarget"),
)
_FIRST: Final = {"Failed": "FailureTarget", "Complete": "SuccessCriteriaMet"}
"""What has to be told before."""


def status_faults(job: Object, old: Object) -> Iterator[FieldError]:
    """What does not fit together; what was so before is not held against a write that leaves it alone."""
    status, was = job.get("status") or {}, old.get("status") or {}
    for name in _COUNTS:
        yield from not_negative(f"status.{name}", status.get(name))
    yield from _uncounted_faults(status)
    yield from _condition_faults(status, was)
    yield from _time_faults(status, was)
    yield from _index_faults(job, status, was)
    if _has_ended(status) and not _is_same(status, was, "conditions", "active", "terminating", "startTime"):
        for name in ("active", "terminating"):
            if status.get(name):
                yield invalid(f"status.{name}", status[name], f"{name}>0 is invalid for finished job")
        is_empty = at(job, "spec.suspend") and at(job, "spec.completions") == 0
        if not status.get("startTime") and not is_empty:
            yield required("status.startTime", "startTime is required for finished job")
    uncounted = status.get("uncountedTerminatedPods") or {}
    is_news = not _is_same(status, was, "conditions", "uncountedTerminatedPods")
    if _has_ended(status) and any(uncounted.values()) and is_news:
        yield invalid("status.uncountedTerminatedPods", uncounted, "must be empty for finished job")
    if status.get("ready", 0) > status.get("active", 0) and not _is_same(status, was, "ready", "active"):
        yield invalid("status.ready", status["ready"], "cannot set more ready pods than active")


def change_faults(job: Object, old: Object) -> Iterator[FieldError]:
    """What may not be taken back."""
    status, was = job.get("status") or {}, old.get("status") or {}
    for kind in _LASTING:
        if _holds(was, kind) and not _holds(status, kind):
            yield invalid("status.conditions", None, f"cannot disable the terminal {kind}=True condition")
    if status.get("failed", 0) < was.get("failed", 0):
        yield invalid("status.failed", status.get("failed", 0), "cannot decrease the failed counter")
    spec = job["spec"]
    may_shrink = spec.get("completionMode") == "Indexed" and spec.get("completions") == spec.get("parallelism")
    if not may_shrink and status.get("succeeded", 0) < was.get("succeeded", 0):
        yield invalid("status.succeeded", status.get("succeeded", 0), "cannot decrease the succeeded counter")
    times = status.get("completionTime"), was.get("completionTime")
    if all(times) and times[0] != times[1]:
        yield invalid("status.completionTime", times[0], "field is immutable")
    is_resumed = _holds(was, "Suspended") and _holds(status, "Suspended", "False")
    is_moved = bool(was.get("startTime")) and status.get("startTime") != was["startTime"]
    if is_moved and not is_resumed and not spec.get("suspend"):
        yield required("status.startTime", "startTime cannot be removed for unsuspended job")


def _uncounted_faults(status: dict[str, Any]) -> Iterator[FieldError]:
    seen: set[str] = set()
    for name in ("succeeded", "failed"):
        for number, uid in enumerate((status.get("uncountedTerminatedPods") or {}).get(name) or ()):
            where = f"status.uncountedTerminatedPods.{name}[{number}]"
            if not uid:
                yield invalid(where, uid, "must not be empty")
            elif uid in seen:
                yield duplicate(where, uid)
            seen.add(uid)


def _condition_faults(status: dict[str, Any], was: dict[str, Any]) -> Iterator[FieldError]:
    if _is_same(status, was, "conditions"):
        return
    for one, other in _EXCLUSIVE:
        if _holds(status, one) and _holds(status, other):
            yield invalid("status.conditions", None, f"cannot set {one}=True and {other}=true conditions")
    for kind, first in _FIRST.items():
        if _holds(status, kind) and not _holds(status, first):
            text = f"cannot set {kind}=True condition without the {first}=true condition"
            yield invalid("status.conditions", None, text)


def _time_faults(status: dict[str, Any], was: dict[str, Any]) -> Iterator[FieldError]:
    if _is_same(status, was, "conditions", "completionTime", "startTime"):
        return
    start, end, is_complete = status.get("startTime"), status.get("completionTime"), _holds(status, "Complete")
    if end and not is_complete:
        text = "cannot set completionTime when there is no Complete=True condition"
        yield invalid("status.completionTime", end, text)
    if is_complete and not end:
        yield required("status.completionTime", "completionTime is required for Complete jobs")
    if start and end and end < start:
        yield invalid("status.completionTime", end, "must be equal to or after `startTime`")


def _index_faults(job: Object, status: dict[str, Any], was: dict[str, Any]) -> Iterator[FieldError]:
    completions, spec = at(job, "spec.completions"), job["spec"]
    done, failed = status.get("completedIndexes") or "", status.get("failedIndexes")
    for name, text in (("completedIndexes", done), ("failedIndexes", failed or "")):
        if not _is_same(status, was, name) and completions is not None:
            _, fault = indexes.format_fault(text, completions)
            if fault:
                yield invalid(f"status.{name}", text, f"error parsing {name}: {fault}")
    if done and spec.get("completionMode") != "Indexed" and not _is_same(status, was, "completedIndexes"):
        text = "cannot set non-empty completedIndexes when non-indexed completion mode"
        yield invalid("status.completedIndexes", done, text)
    if failed is not None and spec.get("backoffLimitPerIndex") is None and not _is_same(status, was, "failedIndexes"):
        text = "cannot set non-null failedIndexes when backoffLimitPerIndex is null"
        yield invalid("status.failedIndexes", failed, text)
    if failed and done and not _is_same(status, was, "failedIndexes", "completedIndexes"):
        both = indexes.common(indexes.parsed(done, completions or 0), indexes.parsed(failed, completions or 0))
        if both:
            yield invalid("status.failedIndexes", failed, "failedIndexes and completedIndexes overlap")


def _holds(status: dict[str, Any], kind: str, value: str = "True") -> bool:
    return any(each.get("type") == kind and each.get("status") == value for each in status.get("conditions") or ())


def _has_ended(status: dict[str, Any]) -> bool:
    return _holds(status, "Complete") or _holds(status, "Failed")


def _is_same(status: dict[str, Any], was: dict[str, Any], *names: str) -> bool:
    return all(same(status.get(name), was.get(name)) for name in names)
