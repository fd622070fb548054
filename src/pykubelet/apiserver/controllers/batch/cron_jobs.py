"""Makes the jobs of cron jobs when they are due, and clears away those that have ended."""

from collections.abc import Iterable
from datetime import datetime, tzinfo
from email.utils import format_datetime
from typing import Any, Final

from pykubelet.api.rules.cron_schedule import Schedule, parsed
from pykubelet.apiserver.controllers.batch import cron_job_rules as rules
from pykubelet.apiserver.controllers.batch.cron_job_rules import Made, made
from pykubelet.apiserver.controllers.batch.jobs import JOBS
from pykubelet.apiserver.controllers.client import ControllerClient, Kind
from pykubelet.apiserver.controllers.event_recorder import EventRecorder
from pykubelet.apiserver.controllers.keyed_work import Key, KeyedWork
from pykubelet.apiserver.controllers.workloads.heads import heads, own_key
from pykubelet.apiserver.controllers.workloads.pod_control import is_terminating
from pykubelet.apiserver.objects import Object, at
from pykubelet.apiserver.requests.options import DeleteOptions, Preconditions
from pykubelet.apiserver.status import ApiError
from pykubelet.apiserver.store.port import Event
from pykubelet.apiserver.strategies.time_zones import zone

CRON_JOBS: Final[Kind] = ("batch", "cronjobs")


class CronJobController:
    def __init__(self, client: ControllerClient) -> None:
        self._client = client
        self._resource = client.resource(CRON_JOBS)
        self._events = EventRecorder(client, "cronjob-controller")
        self._work = KeyedWork("cronjob-controller", self.sync)

    async def run(self) -> None:
        await self._work.run(self._client, (CRON_JOBS, JOBS), self._keys_of, CRON_JOBS)

    async def _keys_of(self, event: Event) -> Iterable[Key]:
        if event.key.startswith(self._resource.prefix):
            return (own_key(event),)
        owners = [(head.metadata.namespace, head.controller) for head in heads(event)]
        return {(namespace, owner.name) for namespace, owner in owners if owner is not None and owner.kind == "CronJob"}

    async def sync(self, key: Key) -> float | None:
        """Raises ApiError when it has to be tried again."""
        everyone = await self._client.views(JOBS, made, key[0])
        cron_job = await self._client.known(CRON_JOBS, *key)
        if cron_job is None:
            return None
        jobs = [job for job in everyone if job.owner == cron_job["metadata"]["uid"]]
        for job in rules.outdated(cron_job, jobs):
            await self._remove(cron_job, job)
            jobs.remove(job)
        found = rules.review(cron_job, jobs, (job.name for job in everyone))
        for event in found.events:
            await self._events.record(cron_job, *event)
        status, again = await self._schedule(cron_job, found.status)
        if status != (cron_job.get("status") or {}):
            await self._client.change(CRON_JOBS, cron_job, lambda live: {**live, "status": status}, part="status")
        return again

    async def _schedule(self, cron_job: Object, status: dict[str, Any]) -> tuple[dict[str, Any], float | None]:
        """-> the status with a job that was made, and when to look again"""
        if at(cron_job, "metadata.deletionTimestamp") or at(cron_job, "spec.suspend"):
            return status, None
        name = at(cron_job, "spec.timeZone")
        where = zone(name)
        if where is None:
            await self._warn(cron_job, "UnknownTimeZone", f'invalid timeZone: "{name}": unknown time zone {name}')
            return status, None
        text = at(cron_job, "spec.schedule", "")
        try:
            schedule = parsed(text)
        except ValueError as error:
            await self._warn(cron_job, "UnparseableSchedule", f'unparseable schedule: "{text}" : {error}')
            return status, None
        try:
            status = await self._start(cron_job, status, schedule, where)
        except ValueError as error:
            await self._warn(cron_job, "InvalidSchedule", f"invalid schedule: {text} : {error}")
            return status, None
        return status, rules.wait({**cron_job, "status": status}, schedule, where, self._client.now())

    async def _start(
        self, cron_job: Object, status: dict[str, Any], schedule: Schedule, where: tzinfo
    ) -> dict[str, Any]:
        """Make the job that is due, if there may be one. Raises ValueError for a schedule that never comes."""
        now = self._client.now()
        found = rules.due(cron_job, schedule, where, now)
        if found.time is None:
            return status
        if found.missed > rules.MANY:
            text = "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew"
            await self._warn(cron_job, "TooManyMissedTimes", text)
        if rules.is_too_late(cron_job, found.time, now):
            text = f"Missed scheduled time to start a job: {format_datetime(found.time)}"
            await self._warn(cron_job, "MissSchedule", text)
            return status
        active = status.get("active", [])
        if any(each.get("name") == rules.job_name(cron_job, found.time) for each in active):
            return status
        match at(cron_job, "spec.concurrencyPolicy"):
            case "Forbid" if active:
                text = "Not starting job because prior execution is running and concurrency policy is Forbid"
                await self._events.record(cron_job, "Normal", "JobAlreadyActive", text)
                return status
            case "Replace":
                for each in active:
                    await self._replace(cron_job, each)
                status = rules.with_active(status, [])
        return await self._make(cron_job, status, found.time, where)

    async def _make(self, cron_job: Object, status: dict[str, Any], time: datetime, where: tzinfo) -> dict[str, Any]:
        wanted = rules.job_of(cron_job, time, where)
        try:
            job = made(await self._client.make(JOBS, wanted))
        except ApiError as error:
            if error.reason == "AlreadyExists":
                return await self._remember(cron_job, status, wanted["metadata"]["name"], time)
            if not is_terminating(error):
                await self._warn(cron_job, "FailedCreate", f"Error creating job: {error.message}")
            raise
        await self._events.record(cron_job, "Normal", "SuccessfulCreate", f"Created job {job.name}")
        return rules.scheduled(status, job, time)

    async def _remember(self, cron_job: Object, status: dict[str, Any], name: str, time: datetime) -> dict[str, Any]:
        """It was made before, and then there was no time left to write that down."""
        there = await self._client.find(JOBS, cron_job["metadata"]["namespace"], name)
        job = None if there is None else made(there)
        if job is None or job.owner != cron_job["metadata"]["uid"]:
            return status
        return rules.scheduled(status, job, time)

    async def _replace(self, cron_job: Object, reference: dict[str, Any]) -> None:
        """If it is one of the cron job's own: whoever may write its status could name others'."""
        there = await self._client.find(JOBS, reference.get("namespace", ""), reference.get("name", ""))
        job = None if there is None else made(there)
        if job is not None and job.uid == reference.get("uid") and job.owner == cron_job["metadata"]["uid"]:
            await self._remove(cron_job, job)

    async def _remove(self, cron_job: Object, job: Made) -> None:
        """With its pods. Raises ApiError."""
        options = DeleteOptions(propagation_policy="Background", preconditions=Preconditions(uid=job.uid))
        try:
            await self._client.writer.delete(self._client.resource(JOBS), job.namespace, job.name, options)
        except ApiError as error:
            if error.code == 404:
                return
            await self._warn(cron_job, "FailedDelete", f"Deleted job: {error.message}")
            raise
        await self._events.record(cron_job, "Normal", "SuccessfulDelete", f"Deleted job {job.name}")

    async def _warn(self, cron_job: Object, reason: str, text: str) -> None:
        await self._events.record(cron_job, "Warning", reason, text)
