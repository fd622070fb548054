"""Deletes jobs that have ended, after the time that they ask for."""

from datetime import datetime, timedelta
from typing import Final

from pykubelet.apiserver.controllers.batch.jobs import JOBS
from pykubelet.apiserver.controllers.client import ControllerClient
from pykubelet.apiserver.controllers.conditions import condition
from pykubelet.apiserver.objects import Object, at, moment
from pykubelet.apiserver.requests.options import DeleteOptions, Preconditions
from pykubelet.apiserver.status import ApiError

_LOOK_AGAIN: Final = 3600.0


def end_of(job: Object) -> tuple[str, str, str, datetime] | None:
    """Namespace, name and uid of a job, and when it is to go; None: it stays."""
    seconds, metadata = at(job, "spec.ttlSecondsAfterFinished"), job["metadata"]
    if seconds is None or metadata.get("deletionTimestamp"):
        return None
    for kind in ("Complete", "Failed"):
        found = condition(job, kind)
        since = moment(found.get("lastTransitionTime")) if found.get("status") == "True" else None
        if since is not None:
            end = since + timedelta(seconds=seconds)
            return metadata.get("namespace", ""), metadata["name"], metadata.get("uid", ""), end
    return None


class TtlAfterFinished:
    def __init__(self, client: ControllerClient) -> None:
        self._client = client

    async def run(self) -> None:
        wait: float | None = None
        async with self._client.informer(JOBS) as informer:
            while True:
                await informer.wait(wait)
                wait = await self.sync()

    async def sync(self) -> float:
        """-> seconds after which the next one is due"""
        now, wait = self._client.now(), _LOOK_AGAIN
        for due in await self._client.views(JOBS, end_of):
            if due is None:
                continue
            left = (due[3] - now).total_seconds()
            if left <= 0:
                with self._client.apart(f"job {due[0]}/{due[1]}"):
                    await self._remove(*due[:3])
            else:
                wait = min(wait, left)
        return wait

    async def _remove(self, namespace: str, name: str, uid: str) -> None:
        """Looked at once more: somebody may have given it more time."""
        job = await self._client.find(JOBS, namespace, name)
        due = None if job is None else end_of(job)
        if due is None or due[3] > self._client.now():
            return
        options = DeleteOptions(propagation_policy="Foreground", preconditions=Preconditions(uid=uid))
        try:
            await self._client.writer.delete(self._client.resource(JOBS), namespace, name, options)
        except ApiError as error:
            if error.code not in (404, 409):
                raise
