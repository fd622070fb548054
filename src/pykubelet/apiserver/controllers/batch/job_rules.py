"""What a job has to do: which pods it makes and deletes, when it has to look again, and whether it is over. Pure.

The order of what is asked for is upstream's: a verdict that was written down stands; then what fails the job, then what
completes it; then pods are deleted, and only when there is nothing to delete are any made.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any, Final

import msgspec
from msgspec import Struct

from pykubelet.api.rules import completion_indexes as indexes
from pykubelet.api.rules.completion_indexes import Intervals
from pykubelet.api.struct import rfc3339
from pykubelet.apiserver.controllers.batch import job_backoff
from pykubelet.apiserver.controllers.batch.job_backoff import Failures
from pykubelet.apiserver.controllers.batch.job_pods import NO_INDEX, JobPod, removal_order
from pykubelet.apiserver.controllers.batch.job_policies import judgement, success_message
from pykubelet.apiserver.controllers.conditions import condition
from pykubelet.apiserver.objects import Object, at, moment

MOST_AT_ONCE: Final = 500
"""Pods that one look makes or deletes."""
OURS: Final = "kubernetes.io/job-controller"
_SOONEST: Final = 1.0


class Verdict(Struct, frozen=True):
    """How a job ends. First it is told what is to become of it, then, when its pods are gone, that it is so."""

    kind: str
    """FailureTarget or SuccessCriteriaMet: it is to end; Failed: that it is to fail was written down before."""
    reason: str
    message: str

    @property
    def is_success(self) -> bool:
        return self.kind == "SuccessCriteriaMet"


class Wanted(Struct, frozen=True):
    """A pod to make."""

    index: int = NO_INDEX
    failures: int = 0
    ignored: int = 0


class Seen(Struct, frozen=True):
    """A job and its pods, and what follows from them."""

    job: Object
    pods: list[JobPod]
    active: list[JobPod]
    terminating: int
    succeeded: int
    failed: int
    failures: Failures
    done: Intervals
    """The indexes that have succeeded."""
    done_before: Intervals
    """As the status says it."""
    given_up: Intervals | None
    """The indexes that have failed for good; None: the job does not count by index."""
    last_failed: dict[int, JobPod]
    """Whom the next pod of an index replaces: its count is taken over, so it has to stay until then."""
    verdict: Verdict | None
    now: datetime


class Plan(Struct, frozen=True):
    deletes: tuple[JobPod, ...] = ()
    makes: tuple[Wanted, ...] = ()
    again: float | None = None
    """Seconds after which it has to be looked at in any case."""
    is_managed: bool = False
    """Whether it was looked at how many pods there should be."""


def is_finished(job: Object) -> bool:
    return any(condition(job, kind).get("status") == "True" for kind in ("Complete", "Failed"))


def is_others(job: Object) -> bool:
    """Whether somebody else manages it."""
    return bool(at(job, "spec.managedBy", OURS) != OURS)


def is_indexed(job: Object) -> bool:
    return bool(at(job, "spec.completionMode") == "Indexed")


def is_suspended(job: Object) -> bool:
    return bool(at(job, "spec.suspend"))


def replaces_only_failed(job: Object) -> bool:
    """Whether a pod that is about to go is still waited for."""
    return at(job, "spec.podReplacementPolicy") == "Failed" or at(job, "spec.podFailurePolicy") is not None


def is_failed(pod: JobPod, job: Object) -> bool:
    """One that is deleted counts, too: it may never come to its end."""
    if pod.view.phase == "Failed":
        return True
    return not replaces_only_failed(job) and pod.is_leaving and pod.view.phase != "Succeeded"


def has_valid_index(pod: JobPod, job: Object) -> bool:
    return not is_indexed(job) or NO_INDEX < pod.index < at(job, "spec.completions", 0)


def seen(job: Object, pods: list[JobPod], before: Failures, now: datetime) -> Seen:
    policy, uncounted = at(job, "spec.podFailurePolicy"), at(job, "status.uncountedTerminatedPods", {})
    active = [pod for pod in pods if pod.view.is_active]
    counted_on = [pod for pod in pods if pod.is_tracked and has_valid_index(pod, job)]
    succeeded_now = [
        pod for pod in counted_on if pod.view.phase == "Succeeded" and pod.uid not in uncounted.get("succeeded", ())
    ]
    failed_now = [pod for pod in counted_on if is_failed(pod, job) and pod.uid not in uncounted.get("failed", ())]
    succeeded = at(job, "status.succeeded", 0) + len(succeeded_now) + len(uncounted.get("succeeded", ()))
    counting = sum(judgement(policy, pod).counts for pod in failed_now)
    failed = at(job, "status.failed", 0) + counting + len(uncounted.get("failed", ()))
    look = Seen(
        job=job,
        pods=pods,
        active=active,
        terminating=sum(pod.view.is_terminating for pod in pods),
        succeeded=succeeded,
        failed=failed,
        failures=job_backoff.failures(before, succeeded_now, failed_now),
        done=(),
        done_before=(),
        given_up=None,
        last_failed={},
        verdict=None,
        now=now,
    )
    verdict = _verdict_before(job) or _failure(look)
    if is_indexed(job):
        look = _by_index(look)
        verdict = verdict or _failure_of_indexes(look) or _success_of_indexes(look)
    return msgspec.structs.replace(look, verdict=verdict)


def _by_index(look: Seen) -> Seen:
    job, completions = look.job, at(look.job, "spec.completions", 0)
    before = indexes.parsed(at(job, "status.completedIndexes", ""), completions)
    tracked = [pod for pod in look.pods if pod.is_tracked and has_valid_index(pod, job)]
    new = indexes.of(pod.index for pod in tracked if pod.view.phase == "Succeeded")
    done = indexes.merged(before, new)
    look = msgspec.structs.replace(look, done=done, done_before=before, succeeded=indexes.total(done))
    if at(job, "spec.backoffLimitPerIndex") is None:
        return look
    given_up = indexes.merged(
        indexes.parsed(at(job, "status.failedIndexes", ""), completions),
        indexes.of(pod.index for pod in tracked if _is_given_up(pod, job)),
    )
    return msgspec.structs.replace(
        look, given_up=given_up, last_failed=_last_failed(job, tracked, look.active, done, given_up)
    )


def _is_given_up(pod: JobPod, job: Object) -> bool:
    if not is_failed(pod, job):
        return False
    found = judgement(at(job, "spec.podFailurePolicy"), pod)
    is_last = pod.failures >= at(job, "spec.backoffLimitPerIndex", 0)
    return found.action == "FailIndex" or (found.counts and is_last)


def _last_failed(
    job: Object, tracked: Iterable[JobPod], active: Iterable[JobPod], done: Intervals, given_up: Intervals
) -> dict[int, JobPod]:
    busy, found = {pod.index for pod in active}, dict[int, JobPod]()
    for pod in tracked:
        is_over = pod.index in busy or indexes.has(done, pod.index) or indexes.has(given_up, pod.index)
        if is_over or not is_failed(pod, job):
            continue
        other = found.get(pod.index)
        is_later = other is None or (
            other.failures + other.ignored <= pod.failures + pod.ignored and pod.finished >= other.finished
        )
        if is_later:
            found[pod.index] = pod
    return found


# --- whether it is over


def _verdict_before(job: Object) -> Verdict | None:
    for kind, now in (("SuccessCriteriaMet", "SuccessCriteriaMet"), ("FailureTarget", "Failed")):
        found = condition(job, kind)
        if found.get("status") == "True":
            return Verdict(now, found.get("reason", ""), found.get("message", ""))
    return None


def _failure(look: Seen) -> Verdict | None:
    job, policy = look.job, at(look.job, "spec.podFailurePolicy")
    for pod in look.pods if policy is not None else ():
        if is_failed(pod, job) and (message := judgement(policy, pod).message):
            return Verdict("FailureTarget", "PodFailurePolicy", message)
    if look.failed > at(job, "spec.backoffLimit", 6) or _restarts_too_often(job, look.pods):
        return Verdict("FailureTarget", "BackoffLimitExceeded", "Job has reached the specified backoff limit")
    left = deadline(job, look.now)
    if left is not None and left <= 0:
        return Verdict("FailureTarget", "DeadlineExceeded", "Job was active longer than specified deadline")
    return None


def _restarts_too_often(job: Object, pods: Iterable[JobPod]) -> bool:
    if at(job, "spec.template.spec.restartPolicy") != "OnFailure":
        return False
    most: int = at(job, "spec.backoffLimit", 6)
    return sum(pod.restarts for pod in pods) >= max(1, most)


def deadline(job: Object, now: datetime) -> float | None:
    """Seconds that it may still take; None: as long as it likes."""
    seconds, start = at(job, "spec.activeDeadlineSeconds"), moment(at(job, "status.startTime")) or now
    if seconds is None or is_suspended(job):
        return None
    return (start + timedelta(seconds=seconds) - now).total_seconds()


def _failure_of_indexes(look: Seen) -> Verdict | None:
    if look.given_up is None:
        return None
    count, most = indexes.total(look.given_up), at(look.job, "spec.maxFailedIndexes")
    if most is not None and count > most:
        text = "Job has exceeded the specified maximal number of failed indexes"
        return Verdict("FailureTarget", "MaxFailedIndexesExceeded", text)
    if count and count + indexes.total(look.done) >= at(look.job, "spec.completions", 0):
        return Verdict("FailureTarget", "FailedIndexes", "Job has failed indexes")
    return None


def _success_of_indexes(look: Seen) -> Verdict | None:
    text = success_message(at(look.job, "spec.successPolicy"), at(look.job, "spec.completions", 0), look.done)
    return Verdict("SuccessCriteriaMet", "SuccessPolicy", text) if text else None


def completion(look: Seen, active: int) -> Verdict | None:
    """Whether it is complete with so many pods that still run."""
    completions = at(look.job, "spec.completions")
    is_complete = look.succeeded > 0 if completions is None else look.succeeded >= completions
    if not is_complete or active:
        return None
    return Verdict("SuccessCriteriaMet", "CompletionsReached", "Reached expected number of succeeded pods")


# --- what is to be done


def plan(look: Seen) -> Plan:
    job, left = look.job, deadline(look.job, look.now)
    if look.verdict is not None:
        return Plan(tuple(look.active))
    if at(job, "metadata.deletionTimestamp"):
        return Plan(again=left)
    if is_suspended(job):
        return Plan(tuple(_surplus(look, len(look.active))), is_managed=True)
    wanted = _wanted_active(look)
    surplus = _surplus(look, max(0, len(look.active) - wanted))[:MOST_AT_ONCE]
    if surplus:
        return Plan(tuple(surplus), again=left, is_managed=True)
    waited_for = look.terminating if replaces_only_failed(job) else 0
    missing = min(wanted - waited_for - len(look.active), MOST_AT_ONCE)
    makes, again = _makes(look, missing) if missing > 0 else ((), None)
    times = [each for each in (left, again) if each is not None]
    return Plan((), makes, min(times, default=None), is_managed=True)


def _wanted_active(look: Seen) -> int:
    parallelism, completions = int(at(look.job, "spec.parallelism", 1)), at(look.job, "spec.completions")
    if completions is None:
        return len(look.active) if look.succeeded else parallelism
    return max(0, min(int(completions) - look.succeeded, parallelism))


def _surplus(look: Seen, least: int) -> list[JobPod]:
    """Who goes: at least so many, and of an indexed job all who have no index, or one that another has, too."""
    surplus: list[JobPod] = []
    left = look.active
    if is_indexed(look.job):
        surplus, left = _without_twins(look)
    if len(surplus) < least:
        surplus += sorted(left, key=removal_order)[: least - len(surplus)]
    return surplus


def _without_twins(look: Seen) -> tuple[list[JobPod], list[JobPod]]:
    surplus: list[JobPod] = []
    by_index: dict[int, list[JobPod]] = {}
    for pod in look.active:
        if has_valid_index(pod, look.job):
            by_index.setdefault(pod.index, []).append(pod)
        else:
            surplus.append(pod)
    left = []
    for _, twins in sorted(by_index.items()):
        *others, last = sorted(twins, key=removal_order)
        surplus += others
        left.append(last)
    return surplus, left


def _makes(look: Seen, count: int) -> tuple[tuple[Wanted, ...], float | None]:
    """-> the pods to make now, and when to look again when none may be made yet"""
    if look.given_up is None and (wait := job_backoff.remaining(look.failures, look.now)) > 0:
        return (), max(wait, _SOONEST)
    if not is_indexed(look.job):
        return (Wanted(),) * count, None
    free = _free_indexes(look, count)
    waits = {index: job_backoff.remaining_of_index(look.last_failed.get(index), look.now) for index in free}
    if look.given_up is None:
        waits = dict.fromkeys(free, 0.0)
    ready = tuple(_wanted(look, index) for index in free if not waits[index])
    if not ready and waits:
        return (), max(min(waits.values()), _SOONEST)
    return ready, None


def _free_indexes(look: Seen, count: int) -> list[int]:
    busy = [pod.index for pod in look.active if pod.index != NO_INDEX]
    if replaces_only_failed(look.job):
        busy += [pod.index for pod in look.pods if pod.view.is_terminating and pod.index != NO_INDEX]
    taken = indexes.merged(indexes.merged(look.done, indexes.of(busy)), look.given_up or ())
    return indexes.first_missing(taken, count, at(look.job, "spec.completions", 0))


def _wanted(look: Seen, index: int) -> Wanted:
    last = look.last_failed.get(index)
    if look.given_up is None or last is None:
        return Wanted(index)
    counts = judgement(at(look.job, "spec.podFailurePolicy"), last).counts
    return Wanted(index, last.failures + counts, last.ignored + (not counts))


def job_condition(kind: str, status: str, reason: str, message: str, now: datetime) -> dict[str, Any]:
    time = rfc3339(now)
    return {
        "type": kind,
        "status": status,
        "lastProbeTime": time,
        "lastTransitionTime": time,
        "reason": reason,
        "message": message,
    }
