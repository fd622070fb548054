"""Runs the pods of jobs to their end: what `job_rules` and `job_status` decide is done here."""

import asyncio
from collections.abc import Iterable
from typing import Any, Final

from pykubelet.apiserver.controllers.batch import job_status
from pykubelet.apiserver.controllers.batch.job_backoff import Failures
from pykubelet.apiserver.controllers.batch.job_pods import FAILURES, IGNORED, INDEX, NO_INDEX, TRACKING, JobPod, job_pod
from pykubelet.apiserver.controllers.batch.job_rules import (
    Plan,
    Seen,
    Wanted,
    is_finished,
    is_indexed,
    is_others,
    plan,
    seen,
)
from pykubelet.apiserver.controllers.batch.job_status import Outcome, Status, Tracked
from pykubelet.apiserver.controllers.client import PODS, ControllerClient, Kind
from pykubelet.apiserver.controllers.event_recorder import EventRecorder
from pykubelet.apiserver.controllers.keyed_work import Key, KeyedWork
from pykubelet.apiserver.controllers.workloads.heads import own_key, owner_keys
from pykubelet.apiserver.controllers.workloads.ownership import claim, selector_of, take
from pykubelet.apiserver.controllers.workloads.pod_control import PodControl, pod_of
from pykubelet.apiserver.objects import Object, at
from pykubelet.apiserver.schema.schema import copied
from pykubelet.apiserver.status import ApiError
from pykubelet.apiserver.store.port import Event

JOBS: Final[Kind] = ("batch", "jobs")
_INDEX_VARIABLE: Final = "JOB_COMPLETION_INDEX"
_LONGEST_PREFIX: Final = 58


class JobController:
    def __init__(self, client: ControllerClient) -> None:
        self._client = client
        self._resource = client.resource(JOBS)
        self._events = EventRecorder(client, "job-controller")
        self._control = PodControl(client, self._events)
        self._work = KeyedWork("job-controller", self.sync)
        self._failures: dict[Key, Failures] = {}

    async def run(self) -> None:
        await self._release_orphans()
        await self._work.run(self._client, (JOBS, PODS), self._keys_of, JOBS)

    async def _keys_of(self, event: Event) -> Iterable[Key]:
        if event.key.startswith(self._resource.prefix):
            return (own_key(event),)
        return await owner_keys(self._client, event, JOBS, self._resource.kind)

    async def _release_orphans(self) -> None:
        """Pods that nobody will count any more, of jobs that were deleted while no controller was there."""
        namespaces = {pod.view.namespace for pod in await self._client.views(PODS, job_pod) if pod.is_tracked}
        for namespace in namespaces:
            with self._client.apart(f"what is left of jobs in {namespace}"):
                await self._release_forgotten(namespace)

    async def _release_forgotten(self, namespace: str) -> None:
        jobs = dict(await self._client.views(JOBS, _life, namespace, whole=True))
        for pod in await self._client.views(PODS, job_pod, namespace):
            if pod.is_tracked and jobs.get(pod.owner, True):
                await self._release(pod)

    async def sync(self, key: Key) -> float | None:
        """Raises ApiError when it has to be tried again."""
        everyone = await self._client.views(PODS, job_pod, key[0])
        job = await self._client.known(JOBS, *key)
        if job is None or is_finished(job):
            self._failures.pop(key, None)
            if any(pod.is_tracked for pod in everyone):
                await self._release_forgotten(key[0])
            return None
        selector = selector_of(job)
        if is_others(job) or selector is None:
            return None
        pods = await take(self._client, PODS, job, JOBS, claim(job, selector, everyone))
        pods = [await self._held(job, pod) for pod in pods]
        look = seen(job, pods, self._failures.get(key, Failures()), self._client.now())
        todo = plan(look)
        outcome, error = await self._act(look, todo)
        await self._track(key, look, job_status.tracked(look, todo, outcome))
        if error is not None:
            raise error
        return todo.again

    async def _held(self, job: Object, pod: JobPod) -> JobPod:
        """An orphan that was just taken over is counted like the others."""
        if pod.is_tracked or pod.owner:
            return pod
        changed = await self._client.change(PODS, pod.head(), _tracked_pod)
        return job_pod(changed) if changed is not None else pod

    # --- pods

    async def _act(self, look: Seen, todo: Plan) -> tuple[Outcome, ApiError | None]:
        if todo.deletes:
            if look.verdict is None:  # they are surplus, and never count
                for pod in todo.deletes:
                    await self._release(pod)
            error = await self._control.delete_all(look.job, [pod.view for pod in todo.deletes])
            return Outcome(() if error else todo.deletes, 0, error is None), error
        if todo.makes:
            pods = [_pod(look, wanted) for wanted in todo.makes]
            made, error = await self._control.create_all(look.job, pods)
            return Outcome((), made), error
        return Outcome(), None

    async def _release(self, pod: JobPod) -> bool:
        """Let go of it; whether it is held no longer."""
        if not pod.is_tracked:
            return True
        changed = await self._client.change(PODS, pod.head(), _released_pod)
        return changed is None or TRACKING not in (changed["metadata"].get("finalizers") or ())

    # --- the status

    async def _track(self, key: Key, look: Seen, track: Tracked) -> None:
        """Write down who has ended, let them go, and count them."""
        job = await self._write(look.job, track.status)
        self._failures[key] = look.failures
        await self._tell(look.job, track)
        gone = await asyncio.gather(*(self._release(pod) for pod in track.released))
        released = {pod.uid for pod, is_gone in zip(track.released, gone, strict=True) if is_gone}
        status: Status = copied(track.status)
        job_status.counted(status, {pod.uid for pod in look.pods if pod.is_tracked and pod.uid not in released})
        has_ended = job_status.ended(track, status, self._client.now())
        job = await self._write(job, status)
        if has_ended:
            await self._tell_end(job, track)

    async def _write(self, job: Object, status: Status) -> Object:
        """Raises ApiError: what is not written down must not be let go."""
        wanted = job_status.written(status)
        if job.get("status") == wanted:
            return job
        changed = await self._client.change(JOBS, job, lambda live: {**live, "status": wanted}, part="status")
        if changed is None or changed.get("status") != wanted:
            raise ApiError(409, "Conflict", "the status of the job could not be written")
        return changed

    async def _tell(self, job: Object, track: Tracked) -> None:
        if track.is_suspended:
            await self._events.record(job, "Normal", "Suspended", "Job suspended")
        if track.is_resumed:
            await self._events.record(job, "Normal", "Resumed", "Job resumed")

    async def _tell_end(self, job: Object, track: Tracked) -> None:
        if track.verdict is None:
            return
        if track.verdict.kind == "Failed":
            await self._events.record(job, "Warning", track.verdict.reason, track.verdict.message)
            return
        completions = at(job, "spec.completions")
        if completions is not None and at(job, "status.succeeded", 0) > completions:
            text = "Too many succeeded pods running after completion count reached"
            await self._events.record(job, "Warning", "TooManySucceededPods", text)
        await self._events.record(job, "Normal", "Completed", "Job completed")


def _life(job: Object) -> tuple[str, bool]:
    """Who a job is, and whether nobody counts its pods any more."""
    return job["metadata"].get("uid", ""), is_finished(job)


def _tracked_pod(pod: Object) -> Object:
    finalizers = [each for each in pod["metadata"].get("finalizers") or () if each != TRACKING]
    return {**pod, "metadata": {**pod["metadata"], "finalizers": [*finalizers, TRACKING]}}


def _released_pod(pod: Object) -> Object | None:
    held = pod["metadata"].get("finalizers") or []
    if TRACKING not in held:
        return None
    metadata = {name: value for name, value in pod["metadata"].items() if name != "finalizers"}
    left = [each for each in held if each != TRACKING]
    return {**pod, "metadata": {**metadata, **({"finalizers": left} if left else {})}}


def _pod(look: Seen, wanted: Wanted) -> Object:
    pod = _tracked_pod(pod_of(look.job, at(look.job, "spec.template", {})))
    metadata, spec = pod["metadata"], pod["spec"]
    if is_indexed(look.job):
        for kind in ("initContainers", "containers"):
            spec[kind] = [_with_index(each) for each in spec.get(kind) or ()]
    if wanted.index == NO_INDEX:
        return pod
    name, suffix = look.job["metadata"]["name"], f"-{wanted.index}-"
    annotations = {**metadata.get("annotations", {}), INDEX: str(wanted.index)}
    if look.given_up is not None:
        annotations[FAILURES] = str(wanted.failures)
        if wanted.ignored:
            annotations[IGNORED] = str(wanted.ignored)
    spec["hostname"] = f"{name}-{wanted.index}"
    metadata |= {
        "generateName": f"{name[: _LONGEST_PREFIX - len(suffix)]}{suffix}",
        "annotations": annotations,
        "labels": {**metadata.get("labels", {}), INDEX: str(wanted.index)},
    }
    return pod


def _with_index(container: dict[str, Any]) -> dict[str, Any]:
    variables = container.get("env") or []
    if any(each.get("name") == _INDEX_VARIABLE for each in variables):
        return container
    field = {"apiVersion": "v1", "fieldPath": f"metadata.labels['{INDEX}']"}
    return {**container, "env": [*variables, {"name": _INDEX_VARIABLE, "valueFrom": {"fieldRef": field}}]}
