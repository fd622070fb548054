"""When a cron job is due, how many times it was missed, and what becomes of the jobs that it has made. Pure."""

from collections.abc import Iterable
from datetime import datetime, timedelta, tzinfo
from typing import Any, Final

from msgspec import Struct

from pykubelet.api.rules.cron_schedule import Schedule, following
from pykubelet.api.struct import rfc3339
from pykubelet.apiserver.controllers.conditions import condition
from pykubelet.apiserver.controllers.workloads.ownership import controller_reference
from pykubelet.apiserver.controllers.workloads.pod_views import controller_of
from pykubelet.apiserver.objects import Object, at, moment
from pykubelet.apiserver.schema.schema import copied

SCHEDULED: Final = "batch.kubernetes.io/cronjob-scheduled-timestamp"
MANY: Final = 100
_SKEW: Final = 0.1
"""Seconds by which clocks may differ."""


class Made(Struct, frozen=True):
    """A job as the cron job that made it sees it."""

    name: str
    namespace: str
    uid: str
    api_version: str
    owner: str
    owner_name: str
    end: str
    """Complete or Failed; empty: it runs."""
    started: str
    completed: str
    version: str

    def head(self) -> Object:
        return {"metadata": {"namespace": self.namespace, "name": self.name, "uid": self.uid}}

    def reference(self) -> dict[str, Any]:
        return {
            "kind": "Job",
            "namespace": self.namespace,
            "name": self.name,
            "uid": self.uid,
            "apiVersion": "batch/v1",
            "resourceVersion": self.version,
        }


def made(job: Object) -> Made:
    metadata, owner = job["metadata"], controller_of(job)
    end = next((kind for kind in ("Complete", "Failed") if condition(job, kind).get("status") == "True"), "")
    return Made(
        metadata["name"],
        metadata.get("namespace", ""),
        metadata.get("uid", ""),
        "batch/v1",
        owner.get("uid", "") if owner.get("kind") == "CronJob" else "",
        owner.get("name", "") if owner.get("kind") == "CronJob" else "",
        end,
        at(job, "status.startTime", ""),
        at(job, "status.completionTime", ""),
        metadata.get("resourceVersion", ""),
    )


class Due(Struct, frozen=True):
    """The last time that it should have run."""

    since: datetime
    """From when on it was looked."""
    time: datetime | None = None
    missed: int = 0


def due(cron_job: Object, schedule: Schedule, zone: tzinfo, now: datetime, *, heeds_deadline: bool = True) -> Due:
    """Raises ValueError for a schedule that never comes."""
    since = moment(at(cron_job, "status.lastScheduleTime")) or moment(at(cron_job, "metadata.creationTimestamp")) or now
    seconds = at(cron_job, "spec.startingDeadlineSeconds")
    if heeds_deadline and seconds is not None:
        since = max(since, _before(now, seconds))
    first = following(schedule, since, zone)
    if first is not None and now < first:
        return Due(since)
    second = None if first is None else following(schedule, first, zone)
    if first is not None and second is not None and now < second:
        return Due(since, first)
    between = int((second - first).total_seconds()) if first is not None and second is not None else 0
    if first is None or between < 1:
        raise ValueError("time difference between two schedules is less than 1 second")
    missed = int((now - first).total_seconds()) // between + 1
    return Due(since, _latest(schedule, zone, first + timedelta(seconds=(missed - 2) * between), now), missed)


def _latest(schedule: Schedule, zone: tzinfo, start: datetime, now: datetime) -> datetime | None:
    latest, time = None, following(schedule, start, zone)
    while time is not None and time <= now:
        latest, time = time, following(schedule, time, zone)
    return latest


def _before(now: datetime, seconds: int) -> datetime:
    try:
        return now - timedelta(seconds=seconds)
    except OverflowError:
        return datetime.min.replace(tzinfo=now.tzinfo)


def wait(cron_job: Object, schedule: Schedule, zone: tzinfo, now: datetime) -> float | None:
    """Seconds until it is due again; None: never."""
    try:
        found = due(cron_job, schedule, zone, now, heeds_deadline=False)
        start = found.time or (now if found.missed else found.since)
    except ValueError:
        start = now
    time = following(schedule, start, zone)
    return None if time is None else max((time - now).total_seconds(), 0.0) + _SKEW


def is_too_late(cron_job: Object, time: datetime, now: datetime) -> bool:
    seconds = at(cron_job, "spec.startingDeadlineSeconds")
    return seconds is not None and time < _before(now, seconds)


def job_name(cron_job: Object, time: datetime) -> str:
    """The same for the same time, so that it cannot be made twice."""
    return f"{cron_job['metadata']['name']}-{int(time.timestamp()) // 60}"


def job_of(cron_job: Object, time: datetime, zone: tzinfo) -> Object:
    template, metadata = at(cron_job, "spec.jobTemplate", {}), cron_job["metadata"]
    given = template.get("metadata") or {}
    shown = time.astimezone(zone).isoformat(timespec="seconds").replace("+00:00", "Z")
    return {
        "metadata": {
            "name": job_name(cron_job, time),
            "namespace": metadata["namespace"],
            **({"labels": dict(given["labels"])} if given.get("labels") else {}),
            "annotations": {**(given.get("annotations") or {}), SCHEDULED: shown},
            "ownerReferences": [controller_reference(cron_job)],
        },
        "spec": copied(template.get("spec") or {}),
    }


class Review(Struct, frozen=True):
    """The status after a look at the jobs, and what is told about it: kind, reason and sentence."""

    status: dict[str, Any]
    events: list[tuple[str, str, str]]


def review(cron_job: Object, jobs: Iterable[Made], there: Iterable[str]) -> Review:
    """`there`: the names of all jobs of the namespace."""
    status = copied(cron_job.get("status") or {})
    active, last = list(status.get("active", ())), status.get("lastSuccessfulTime", "")
    events: list[tuple[str, str, str]] = []
    uids, names = set(), set(there)
    for job in jobs:
        uids.add(job.uid)
        is_known = any(each.get("uid") == job.uid for each in active)
        if not job.end:
            if not is_known:
                text = f"Saw a job that the controller did not create or forgot: {job.name}"
                events.append(("Warning", "UnexpectedJob", text))
            continue
        if is_known:
            active = [each for each in active if each.get("uid") != job.uid]
            events.append(("Normal", "SawCompletedJob", f"Saw completed job: {job.name}, condition: {job.end}"))
        if job.end == "Complete":
            last = max(last, job.completed)
    for each in [each for each in active if each.get("uid") not in uids and each.get("name") not in names]:
        active.remove(each)
        events.append(("Normal", "MissingJob", f"Active job went missing: {each.get('name')}"))
    return Review(with_active(status, active, lastSuccessfulTime=last), events)


def with_active(status: dict[str, Any], active: list[dict[str, Any]], **more: str) -> dict[str, Any]:
    rest = {name: value for name, value in status.items() if name != "active"}
    return {**rest, **({"active": active} if active else {}), **{name: value for name, value in more.items() if value}}


def outdated(cron_job: Object, jobs: Iterable[Made]) -> list[Made]:
    """Jobs that have ended and are more than are kept: the oldest first."""
    found: list[Made] = []
    limits = (("Complete", "successfulJobsHistoryLimit"), ("Failed", "failedJobsHistoryLimit"))
    for end, name in limits:
        most = at(cron_job, f"spec.{name}")
        ended = sorted(
            (job for job in jobs if job.end == end), key=lambda job: (not job.started, job.started, job.name)
        )
        if most is not None and len(ended) > most:
            found += ended[: len(ended) - most]
    return found


def scheduled(status: dict[str, Any], job: Made, time: datetime) -> dict[str, Any]:
    return with_active(status, [*status.get("active", ()), job.reference()], lastScheduleTime=rfc3339(time))
