"""A back end that runs whole pods somewhere else brings a Syncer of its own: the node keeps all the rest."""

import asyncio

from kit.node import World
from kit.pods import make_pod
from kit.virtual_time import virtual_time
from pykubelet.api.pod import Pod
from pykubelet.api.struct import changed
from pykubelet.base.errors import Retry
from pykubelet.pod.observed import ObservedContainer, ObservedPod, ObservedSandbox, State
from pykubelet.pod.ports.runtime import Capabilities
from pykubelet.pod.ports.syncer import PodReports, Synced


class Batch:
    """A machine room that takes pods as jobs."""

    def __init__(self) -> None:
        self.jobs: dict[str, State] = {}
        self.calls: list[str] = []
        self.is_away = False

    def syncer(self, reports: PodReports) -> "BatchSyncer":
        return BatchSyncer(self, reports)


class BatchSyncer:
    def __init__(self, batch: Batch, reports: PodReports) -> None:
        self._batch = batch
        self._reports = reports

    async def sync(self, pod: Pod) -> Synced:
        self._batch.calls.append("sync")
        if self._batch.is_away:
            raise Retry("the machine room does not answer")
        self._batch.jobs.setdefault(pod.metadata.uid, State.RUNNING)
        self._reports.saw(pod, self._seen(pod))
        return Synced(ended=self._reports.has_ended(pod.metadata.uid), again_in=5.0)

    async def stop(self, pod: Pod, grace: float) -> None:
        self._batch.calls.append(f"stop {grace:g}")
        self._batch.jobs[pod.metadata.uid] = State.EXITED

    async def release(self, pod: Pod) -> None:
        self._batch.calls.append("release")
        self._reports.report_end(pod, self._seen(pod))

    async def remove(self, uid: str) -> None:
        self._batch.calls.append("remove")
        self._batch.jobs.pop(uid, None)

    def _seen(self, pod: Pod) -> ObservedPod:
        uid = pod.metadata.uid
        return ObservedPod(
            uid=uid,
            sandboxes=(ObservedSandbox(id=uid, ready=True, ips=("203.0.113.7",)),),
            containers=tuple(
                ObservedContainer(id=f"{uid}-{each.name}", name=each.name, state=self._batch.jobs[uid], sandbox_id=uid)
                for each in pod.spec.containers
            ),
        )


def world_with(batch: Batch) -> World:
    world = World()
    world.runtime.capabilities = Capabilities(syncer=batch.syncer)
    return world


@virtual_time
async def test_a_pod_runs_where_its_own_syncer_runs_it() -> None:
    batch = Batch()
    world = world_with(batch)
    async with world.agent() as node:
        world.pods.apply(make_pod("job", uid="u1"))
        await asyncio.sleep(1)
        status = node.status("u1")
        assert (status.phase, status.pod_ip) == ("Running", "203.0.113.7")
        assert status.container_statuses[0].ready
        assert not (await world.runtime.observe("u1")).sandboxes  # nothing of it is on this machine
        world.pods.remove("u1")
        await asyncio.sleep(1)
        assert batch.calls[-3:] == ["stop 30", "release", "remove"]
        assert node.idle
        assert not batch.jobs


@virtual_time
async def test_a_pod_that_ends_there_has_ended_here() -> None:
    batch = Batch()
    world = world_with(batch)
    async with world.agent() as node:
        pod = make_pod("job", uid="u1")
        world.pods.apply(changed(pod, spec=changed(pod.spec, restart_policy="Never")))
        await asyncio.sleep(1)
        batch.jobs["u1"] = State.EXITED
        await asyncio.sleep(6)
        assert node.phase("u1") == "Succeeded"
        assert batch.calls.count("release") == 1


@virtual_time
async def test_what_fails_there_is_tried_again_with_back_off() -> None:
    batch = Batch()
    world = world_with(batch)
    batch.is_away = True
    async with world.agent() as node:
        world.pods.apply(make_pod("job", uid="u1"))
        await asyncio.sleep(5)
        tries = len(batch.calls)
        assert 1 <= tries < 10
        batch.is_away = False
        await asyncio.sleep(60)
        assert node.phase("u1") == "Running"
