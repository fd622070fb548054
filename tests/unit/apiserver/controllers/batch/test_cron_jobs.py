"""Cron jobs: when jobs are made, and which go."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from kit.cluster import START, TestCluster, cluster, running
from kit.virtual_time import virtual_time
from pykubelet.api.rules.cron_schedule import parsed
from pykubelet.apiserver.controllers.batch.cron_job_rules import due, wait
from pykubelet.apiserver.controllers.batch.cron_jobs import CRON_JOBS, CronJobController
from pykubelet.apiserver.controllers.batch.jobs import JOBS
from pykubelet.apiserver.objects import Object


def cron_job(schedule: str = "*/5 * * * *", **spec: Any) -> Object:
    pod = {"containers": [{"name": "main", "image": "x"}], "restartPolicy": "Never"}
    template = {"metadata": {"labels": {"app": "x"}}, "spec": {"template": {"spec": pod}}}
    whole = {"schedule": schedule, "jobTemplate": template, **spec}
    return {"metadata": {"name": "tick", "namespace": "default"}, "spec": whole}


async def names(c: TestCluster) -> list[str]:
    return [each["metadata"]["name"] for each in await c.all(JOBS, "default")]


async def found(c: TestCluster) -> Any:
    return await c.get("cronjobs", "tick", group="batch")


async def end(c: TestCluster, name: str, kind: str = "Complete") -> None:
    time = f"{c.clock.time:%Y-%m-%dT%H:%M:%SZ}"
    first = {"Complete": "SuccessCriteriaMet", "Failed": "FailureTarget"}[kind]
    conditions = [{"type": each, "status": "True", "lastTransitionTime": time} for each in (first, kind)]
    status = {"conditions": conditions, "startTime": time, **({"completionTime": time} if kind == "Complete" else {})}
    job = await c.get("jobs", name, group="batch")
    await c.change(JOBS, job, lambda live: {**live, "status": {**live["status"], **status}}, part="status")


async def pass_time(c: TestCluster, seconds: int, step: int = 10) -> None:
    for _ in range(seconds // step):
        c.clock.pass_(step)
        await asyncio.sleep(step)


@virtual_time
async def test_a_job_is_made_when_it_is_due_and_once() -> None:
    async with cluster() as c:
        await c.make(CRON_JOBS, cron_job())
        async with running(CronJobController(c)):
            await pass_time(c, 40)
            assert await names(c) == []
            await pass_time(c, 60)
            (name,) = await names(c)
            minutes = int(datetime(2026, 1, 2, 3, 5, tzinfo=UTC).timestamp()) // 60
            assert name == f"tick-{minutes}"
            job = await c.get("jobs", name, group="batch")
            assert job["metadata"]["annotations"]["batch.kubernetes.io/cronjob-scheduled-timestamp"].startswith(
                "2026-01-02T"
            )
            assert job["metadata"]["labels"]["app"] == "x"
            assert job["metadata"]["ownerReferences"][0]["name"] == "tick"
            status = (await found(c))["status"]
            assert [each["name"] for each in status["active"]] == [name]
            assert status["lastScheduleTime"] == "2026-01-02T03:05:00Z"
            await end(c, name)
            await pass_time(c, 300)
            assert len(await names(c)) == 2
            status = (await found(c))["status"]
            assert len(status["active"]) == 1
            assert status["lastSuccessfulTime"]
            reasons = {reason for reason, _ in await c.events()}
            assert reasons == {"SuccessfulCreate", "SawCompletedJob"}


@pytest.mark.parametrize(
    ("policy", "count", "told"),
    [("Allow", 3, ""), ("Forbid", 1, "JobAlreadyActive"), ("Replace", 1, "SuccessfulDelete")],
)
@virtual_time
async def test_one_that_still_runs_is_joined_waited_for_or_replaced(policy: str, count: int, told: str) -> None:
    async with cluster() as c:
        await c.make(CRON_JOBS, cron_job(concurrencyPolicy=policy))
        async with running(CronJobController(c)):
            await pass_time(c, 720)
            assert len(await names(c)) == count
            assert len((await found(c))["status"]["active"]) == count
            assert not told or told in {reason for reason, _ in await c.events()}


@virtual_time
async def test_only_so_many_of_those_that_have_ended_are_kept() -> None:
    async with cluster() as c:
        await c.make(CRON_JOBS, cron_job(successfulJobsHistoryLimit=1, failedJobsHistoryLimit=0))
        async with running(CronJobController(c)):
            open_one = ""
            for kind in ("Complete", "Failed", "Complete"):
                await pass_time(c, 300)
                (open_one,) = [each["name"] for each in (await found(c))["status"]["active"]]
                await end(c, open_one, kind)
                await asyncio.sleep(5)
            assert await names(c) == [open_one]


@virtual_time
async def test_a_suspended_one_makes_nothing_and_a_late_one_makes_one() -> None:
    async with cluster() as c:
        await c.make(CRON_JOBS, cron_job(suspend=True))
        async with running(CronJobController(c)):
            await pass_time(c, 1200, 60)
            assert await names(c) == []
            await c.change(CRON_JOBS, await found(c), lambda live: {**live, "spec": {**live["spec"], "suspend": False}})
            await asyncio.sleep(5)
            assert len(await names(c)) == 1


@virtual_time
async def test_what_was_missed_for_too_long_is_told() -> None:
    async with cluster() as c:
        await c.make(CRON_JOBS, cron_job("* * * * *"))
        c.clock.pass_(3 * 3600)
        async with running(CronJobController(c)):
            await asyncio.sleep(2)
            assert len(await names(c)) == 1
            assert "TooManyMissedTimes" in {reason for reason, _ in await c.events()}


@virtual_time
async def test_a_start_that_comes_too_late_is_left_out() -> None:
    async with cluster() as c:
        await c.make(CRON_JOBS, cron_job("0 4 * * *", startingDeadlineSeconds=100))
        c.clock.pass_(3600 + 200)
        async with running(CronJobController(c)):
            await asyncio.sleep(2)
            assert await names(c) == []


@virtual_time
async def test_a_job_that_was_made_before_the_server_died_is_remembered() -> None:
    async with cluster() as c:
        await c.make(CRON_JOBS, cron_job())
        c.clock.pass_(120)
        async with running(CronJobController(c)):
            await asyncio.sleep(2)
        (name,) = await names(c)
        await c.change(CRON_JOBS, await found(c), lambda live: {**live, "status": {}}, part="status")
        async with running(CronJobController(c)):
            await asyncio.sleep(2)
            assert await names(c) == [name]
            assert [each["name"] for each in (await found(c))["status"]["active"]] == [name]


def test_what_is_due_is_the_last_time_that_was_missed() -> None:
    schedule, made = parsed("*/10 * * * *"), "2026-01-02T03:04:05Z"
    wanted = {"metadata": {"name": "x", "creationTimestamp": made}, "spec": {}}
    cases = [(60, None, 0), (400, "03:10", 0), (1000, "03:20", 2), (3600, "04:00", 6)]
    for seconds, time, missed in cases:
        found = due(wanted, schedule, UTC, START + timedelta(seconds=seconds))
        assert (found.time and f"{found.time:%H:%M}", found.missed) == (time, missed)
    assert wait(wanted, schedule, UTC, START) == pytest.approx(355.1)
    with pytest.raises(ValueError, match="less than 1 second"):
        due(wanted, parsed("59 23 31 2 *"), UTC, START)


@virtual_time
async def test_nobodys_job_but_its_own_is_replaced() -> None:
    """Who may write the status of a cron job names a job of another namespace in it."""
    async with cluster() as c:
        made = await c.make(CRON_JOBS, cron_job(concurrencyPolicy="Replace"))
        spec = made["spec"]["jobTemplate"]["spec"]
        await c.add("batch", "jobs", {"metadata": {"name": "theirs", "namespace": "kube-system"}, "spec": spec})
        await c.add("batch", "jobs", {"metadata": {"name": "theirs", "namespace": "default", "uid": "x"}, "spec": spec})
        forged = {"kind": "Job", "apiVersion": "batch/v1", "namespace": "kube-system", "name": "theirs"}
        active = [{**forged, "uid": "uid-of-theirs"}, {**forged, "namespace": "default", "uid": "x"}]
        await c.change(CRON_JOBS, made, lambda live: {**live, "status": {"active": active}}, part="status")
        async with running(CronJobController(c)):
            await pass_time(c, 400)
            assert len(await names(c)) == 2
            assert await c.get("jobs", "theirs", "kube-system", "batch")
            assert await c.get("jobs", "theirs", "default", "batch")
