"""What a job's status says, so that every pod is counted once, whenever the server dies. Pure.

A pod that has ended is first written down in the status, then let go by its finalizer, and then counted: whoever comes
later sees how far it was.
"""

from datetime import datetime
from typing import Any, Final

from msgspec import Struct

from pykubelet.api.rules import completion_indexes as indexes
from pykubelet.api.struct import rfc3339
from pykubelet.apiserver.controllers.batch.job_pods import JobPod
from pykubelet.apiserver.controllers.batch.job_policies import judgement
from pykubelet.apiserver.controllers.batch.job_rules import (
    Plan,
    Seen,
    Verdict,
    completion,
    has_valid_index,
    is_failed,
    is_indexed,
    is_suspended,
    job_condition,
)
from pykubelet.apiserver.objects import at

MOST_UNCOUNTED: Final = 500
_LEFT_OUT: Final = ("active", "succeeded", "failed", "completedIndexes", "conditions")
"""What is not told when it is nothing."""
Status = dict[str, Any]


class Outcome(Struct, frozen=True):
    """What became of a plan."""

    deleted: tuple[JobPod, ...] = ()
    made: int = 0
    is_whole: bool = True
    """Whether all that was to be deleted is."""


class Tracked(Struct, frozen=True):
    """What is written before pods are let go, and how it goes on."""

    status: Status
    released: list[JobPod]
    verdict: Verdict | None
    is_resumed: bool = False
    is_suspended: bool = False
    has_more: bool = False
    """Whether there are more pods than are written down at once."""


def tracked(look: Seen, plan: Plan, outcome: Outcome) -> Tracked:
    status: Status = {**at(look.job, "status", {})}
    uncounted = at(status, "uncountedTerminatedPods", {})
    status["uncountedTerminatedPods"] = {name: list(uncounted.get(name, ())) for name in ("succeeded", "failed")}
    status["conditions"] = [dict(each) for each in status.get("conditions", ())]
    if not status.get("startTime") and not is_suspended(look.job):
        status["startTime"] = rfc3339(look.now)
    verdict, active = look.verdict, len(look.active) - len(outcome.deleted) + outcome.made
    is_told = is_back = False
    if verdict is not None:
        verdict = verdict if outcome.is_whole else None
    else:
        verdict = completion(look, active)
        if verdict is None and plan.is_managed:
            is_told, is_back = _tell_suspension(look, status)
    status["active"] = active
    gone_ready = sum(pod.view.is_ready for pod in outcome.deleted)
    status["ready"] = sum(pod.view.is_ready for pod in look.active) - gone_ready
    status["terminating"] = look.terminating + len(outcome.deleted)
    counted(status, {pod.uid for pod in look.pods if pod.is_tracked})
    released, has_more = _write_down(look, status, verdict)
    return Tracked(
        status, released, _announce(status, verdict, look.now), is_back, is_suspended=is_told, has_more=has_more
    )


def _tell_suspension(look: Seen, status: Status) -> tuple[bool, bool]:
    """-> whether it is suspended since now, and whether it goes on since now"""
    if is_suspended(look.job):
        return _ensure(status, job_condition("Suspended", "True", "JobSuspended", "Job suspended", look.now)), False
    is_back = _ensure(status, job_condition("Suspended", "False", "JobResumed", "Job resumed", look.now))
    if is_back:
        status["startTime"] = rfc3339(look.now)
    return False, is_back


def _ensure(status: Status, new: dict[str, Any]) -> bool:
    """Set a condition; whether that changes anything. What never was need not be told to be no more."""
    for place, each in enumerate(status["conditions"]):
        if each.get("type") == new["type"]:
            if all(each.get(name, "") == new[name] for name in ("status", "reason", "message")):
                return False
            status["conditions"][place] = new
            return True
    if new["status"] == "False":
        return False
    status["conditions"].append(new)
    return True


def _write_down(look: Seen, status: Status, verdict: Verdict | None) -> tuple[list[JobPod], bool]:
    """-> who may be let go, and whether there are more of them"""
    job, uncounted, is_by_index = look.job, status["uncountedTerminatedPods"], is_indexed(look.job)
    known = {name: set(uids) for name, uids in at(job, "status.uncountedTerminatedPods", {}).items()}
    released: list[JobPod] = []
    new: list[int] = []
    has_more = False
    for pod in sorted(look.pods, key=lambda pod: pod.index) if is_by_index else look.pods:
        if not pod.is_tracked or not _may_go(look, pod, verdict):
            continue
        released.append(pod)
        if pod.view.phase == "Succeeded" and pod.uid not in known.get("failed", ()):
            if is_by_index:
                if has_valid_index(pod, job) and not indexes.has(look.done_before, pod.index):
                    new.append(pod.index)
            elif pod.uid not in known.get("succeeded", ()):
                uncounted["succeeded"].append(pod.uid)
        elif _counts_as_failed(look, pod, verdict) and pod.uid not in known.get("failed", ()):
            uncounted["failed"].append(pod.uid)
        if len(new) + len(uncounted["succeeded"]) + len(uncounted["failed"]) >= MOST_UNCOUNTED:
            has_more = True
            break
    if is_by_index:
        done = indexes.merged(look.done, indexes.of(new))
        status["succeeded"] = indexes.total(done)
        status["completedIndexes"] = indexes.shown(done)
        if look.given_up is not None:
            status["failedIndexes"] = indexes.shown(look.given_up)
        else:
            status.pop("failedIndexes", None)
    return released, has_more


def _may_go(look: Seen, pod: JobPod, verdict: Verdict | None) -> bool:
    if at(look.job, "metadata.deletionTimestamp") or verdict is not None or pod.view.phase == "Succeeded":
        return True
    if not is_failed(pod, look.job):
        return False
    kept = look.last_failed.get(pod.index)
    return kept is None or kept.uid != pod.uid


def _counts_as_failed(look: Seen, pod: JobPod, verdict: Verdict | None) -> bool:
    """When the job fails, whoever still runs has failed."""
    if not is_failed(pod, look.job) and (verdict is None or verdict.is_success):
        return False
    return has_valid_index(pod, look.job) and judgement(at(look.job, "spec.podFailurePolicy"), pod).counts


def _announce(status: Status, verdict: Verdict | None, now: datetime) -> Verdict | None:
    """Tell what is to become of the job. -> what is told in the end"""
    if verdict is None:
        return None
    told = any(each["type"] == verdict.kind and each["status"] == "True" for each in status["conditions"])
    if verdict.kind != "Failed" and not told:
        status["conditions"].append(job_condition(verdict.kind, "True", verdict.reason, verdict.message, now))
    return Verdict("Complete" if verdict.is_success else "Failed", verdict.reason, verdict.message)


def counted(status: Status, uids: set[str]) -> None:
    """Count whoever was written down and holds no finalizer any more. `uids`: those that still do."""
    for name, written in status["uncountedTerminatedPods"].items():
        left = [uid for uid in written if uid in uids]
        if len(left) != len(written):
            status[name] = (status.get(name) or 0) + len(written) - len(left)
            status["uncountedTerminatedPods"][name] = left


def ended(track: Tracked, status: Status, now: datetime) -> bool:
    """Say that the job is over, if it is; whether it is."""
    if track.verdict is None or track.has_more or status["terminating"]:
        return False
    if any(status["uncountedTerminatedPods"].values()):
        return False
    verdict = track.verdict
    _ensure(status, job_condition(verdict.kind, "True", verdict.reason, verdict.message, now))
    if verdict.kind == "Complete":
        status["completionTime"] = rfc3339(now)
    return True


def written(status: Status) -> Status:
    """As it is stored: without what is empty."""
    uncounted = {name: uids for name, uids in status["uncountedTerminatedPods"].items() if uids}
    return {
        **{name: value for name, value in status.items() if value or name not in _LEFT_OUT},
        "uncountedTerminatedPods": uncounted,
    }
