"""Jobs and cron schedules, replayed against what upstream's controllers made of the same objects."""

from datetime import datetime
from itertools import pairwise
from typing import Any
from zoneinfo import ZoneInfo

from kit.vectors import Case, replay, unequal
from pykubelet.api.rules.cron_schedule import following, parsed
from pykubelet.apiserver.controllers.batch import job_status
from pykubelet.apiserver.controllers.batch.job_backoff import Failures
from pykubelet.apiserver.controllers.batch.job_pods import FAILURES, IGNORED, INDEX, NO_INDEX, job_pod
from pykubelet.apiserver.controllers.batch.job_rules import Seen, Wanted, is_finished, plan, seen
from pykubelet.apiserver.schema.schema import copied


def test_one_look_at_a_job_does_what_upstream_does() -> None:
    replay("jobs", _job_difference)


def _job_difference(case: Case) -> str:
    return unequal(case["job"]["metadata"]["name"], _looked_at(case), case["then"])


def _looked_at(case: Case) -> dict[str, Any]:
    job, now = case["job"], datetime.fromisoformat(case["now"])
    if is_finished(job):
        return {"status": None, "writes": 0, "created": [], "deleted": [], "released": 0}
    pods = [job_pod(pod) for pod in case["pods"]]
    before = Failures(case["failures"], datetime.fromisoformat(case["last"]) if "last" in case else None)
    look = seen(job, pods, before, now)
    todo = plan(look)
    track = job_status.tracked(look, todo, job_status.Outcome(todo.deletes, len(todo.makes)))
    status = copied(track.status)
    released = {pod.uid for pod in track.released}
    job_status.counted(status, {pod.uid for pod in pods if pod.is_tracked} - released)
    job_status.ended(track, status, now)
    versions = [
        {"uncountedTerminatedPods": {}, **job["status"]},
        job_status.written(track.status),
        job_status.written(status),
    ]
    writes = sum(one != other for one, other in pairwise(versions))
    surplus = 0 if look.verdict else sum(pod.is_tracked for pod in todo.deletes)
    return {
        "status": versions[-1] if writes else None,
        "writes": writes,
        "created": [_annotations(look, each) for each in todo.makes],
        "deleted": sorted(pod.view.name for pod in todo.deletes),
        "released": len(released) + surplus,
    }


def _annotations(look: Seen, wanted: Wanted) -> dict[str, str] | None:
    found = {INDEX: str(wanted.index)} if wanted.index != NO_INDEX else {}
    if look.given_up is not None:
        found[FAILURES] = str(wanted.failures)
        found |= {IGNORED: str(wanted.ignored)} if wanted.ignored else {}
    return found or None


def test_schedules_are_due_when_upstream_says() -> None:
    replay("cron-schedules", _schedule_difference)


def _schedule_difference(case: Case) -> str:
    try:
        schedule = parsed(case["schedule"])
    except ValueError as error:
        return unequal(case["schedule"], str(error), case.get("error"))
    time, found = datetime.fromisoformat(case["after"]), []
    for _ in case["next"]:
        following_time = following(schedule, time, ZoneInfo(case["zone"]))
        if following_time is None:
            found.append("")
            break
        time = following_time
        found.append(f"{time:%Y-%m-%dT%H:%M:%SZ}")
    return unequal(case["schedule"], found, case["next"])
