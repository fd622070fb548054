"""Whole stories with an API server: what it stores reaches the node, and what the node does reaches it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

import pytest

from kit.node import Running, ScriptedSource, World, make_node
from kit.pod_api import MemoryPods
from kit.pods import make_pod
from kit.virtual_time import virtual_time
from kit.waiting import eventually
from pykubelet.api.container import Container, ResourceRequirements
from pykubelet.api.pod import Pod
from pykubelet.api.quantity import parse
from pykubelet.api.rules.well_known import MIRROR_ANNOTATION
from pykubelet.api.struct import changed
from pykubelet.base.errors import Invalid, Retry
from pykubelet.pod.lifecycle.static_pod import static_pod


def pod(name: str = "web", **fields: object) -> Pod:
    made = make_pod(name)
    return changed(made, spec=changed(made.spec, **({"restart_policy": "Always"} | fields)))


def static(name: str = "static", image: str = "busybox:1.36") -> Pod:
    return static_pod(pod(name), f"{name}-{image}", "n1", "file")


def hungry(name: str, cpu: str) -> Pod:
    resources = ResourceRequirements(requests={"cpu": parse(cpu)})
    return pod(name, containers=(Container(name="c", image="i", resources=resources),))


class RefusesMirrors(MemoryPods):
    async def create(self, pod: Pod) -> Pod:
        raise Invalid("disallowed by cluster policy")


@asynccontextmanager
async def cluster(world: World, api: MemoryPods, *, delay: float = 0.1) -> AsyncIterator[Running]:
    """An agent, and the watch that brings it what the API server stores."""

    async def watch() -> None:
        seen: dict[str, Pod] = {}
        while True:
            stored = {p.metadata.uid: p for p in api.pods.values()}
            for uid in seen.keys() - stored.keys():
                world.pods.remove(uid)
            for uid, p in stored.items():
                if seen.get(uid) != p:
                    world.pods.apply(p)
            seen = stored
            await asyncio.sleep(delay)

    async with world.agent() as node:
        watching = asyncio.create_task(watch())
        try:
            yield node
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)


def stored(api: MemoryPods, name: str) -> Pod | None:
    return api.pods.get(("default", name))


@virtual_time
async def test_status_reaches_the_api_server_within_a_second() -> None:
    api = MemoryPods()
    world = World(api)
    async with cluster(world, api):
        api.put(pod())
        began = world.now()
        await eventually(lambda: (p := stored(api, "web")) is not None and p.status.phase == "Running")
        assert world.now() - began < timedelta(seconds=1)


@virtual_time
async def test_a_deleted_pod_is_stopped_reported_and_then_deleted_for_good() -> None:
    api = MemoryPods()
    world = World(api)
    world.runtime.stop_seconds = 5
    async with cluster(world, api) as node:
        api.put(pod())
        await eventually(world.runtime.running)
        api.ask_to_delete("web")
        await eventually(lambda: stored(api, "web") is None, seconds=60)
        assert not world.runtime.running()
        assert api.deleted == [("web", "uid-web", 0)]
        await eventually(lambda: world.runtime.is_empty and node.idle)


@virtual_time
async def test_a_finished_pod_is_deleted_when_somebody_asks_for_that_later() -> None:
    api = MemoryPods()
    world = World(api)
    async with cluster(world, api):
        api.put(pod("job", restart_policy="Never"))
        await eventually(world.runtime.running)
        world.runtime.exit("uid-job", "c", 0)
        await eventually(lambda: (p := stored(api, "job")) is not None and p.status.phase == "Succeeded")
        await asyncio.sleep(600)
        api.ask_to_delete("job")
        await eventually(lambda: stored(api, "job") is None and world.runtime.is_empty, seconds=60)


@virtual_time
async def test_a_static_pod_is_shown_by_a_mirror_that_comes_back_when_it_is_deleted() -> None:
    api = MemoryPods()
    world = World(api)
    async with cluster(world, api):
        world.files.apply(static())
        await eventually(lambda: (p := stored(api, "static-n1")) is not None and p.status.phase == "Running")
        container = world.runtime.seen("static-busybox:1.36").containers[0].id
        mirror = stored(api, "static-n1")
        assert mirror is not None
        assert mirror.metadata.annotations[MIRROR_ANNOTATION] == "static-busybox:1.36"
        api.remove("static-n1")
        await eventually(lambda: stored(api, "static-n1") is not None)
        await asyncio.sleep(30)
        assert [c.id for c in world.runtime.seen("static-busybox:1.36").containers] == [container]
        world.files.remove("static-busybox:1.36")
        await eventually(lambda: stored(api, "static-n1") is None and world.runtime.is_empty, seconds=120)


@virtual_time
async def test_a_mirror_that_the_api_server_refuses_is_told_of_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    api = RefusesMirrors()
    world = World(api)
    async with cluster(world, api):
        world.files.apply(static())
        await eventually(world.runtime.running)
        await asyncio.sleep(600)
    told = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert len([text for text in told if "disallowed by cluster policy" in text]) == 1


@virtual_time
async def test_a_changed_manifest_is_a_new_pod_that_waits_for_the_old_one_to_end() -> None:
    api = MemoryPods()
    world = World(api)
    world.runtime.stop_seconds = 5
    async with cluster(world, api):
        world.files.apply(static())
        await eventually(world.runtime.running)
        world.files.remove("static-busybox:1.36")
        world.files.apply(static(image="busybox:2"))
        for _ in range(100):
            assert len(world.runtime.running()) <= 1
            await asyncio.sleep(0.1)
        await eventually(lambda: world.runtime.seen("static-busybox:2").is_running, seconds=60)
        await eventually(
            lambda: (
                (p := stored(api, "static-n1")) is not None
                and p.metadata.annotations[MIRROR_ANNOTATION] == "static-busybox:2"
            ),
            seconds=60,
        )


@virtual_time
async def test_the_api_server_may_be_away_for_an_hour() -> None:
    api = MemoryPods()
    world = World(api)
    async with cluster(world, api, delay=5.0) as node:
        for number in range(5):
            api.put(pod(f"p{number}"))
        await eventually(lambda: len(world.runtime.running()) == 5)
        await eventually(lambda: all(p.status.phase == "Running" for p in api.pods.values()))
        api.away = lambda: Retry("away")
        for minute in range(60):
            world.runtime.exit(f"uid-p{minute % 5}", "c", 1)
            await asyncio.sleep(60)
        api.away = None
        before = len(api.patches)
        await eventually(
            lambda: all(
                p.status.container_statuses[0].restart_count
                == node.status(p.metadata.uid).container_statuses[0].restart_count
                for p in api.pods.values()
            ),
            seconds=120,
        )
        assert len(api.patches) - before <= 12  # the newest word of each, not the whole story


@virtual_time
async def test_a_critical_pod_takes_the_place_of_a_lesser_one_when_that_has_ended() -> None:
    api = MemoryPods()
    world = World(api)
    world.node = make_node(cpu="2")
    world.runtime.stop_seconds = 4
    async with cluster(world, api):
        api.put(hungry("lesser", "2"))
        await eventually(lambda: world.runtime.running() == ["lesser/c"])
        critical = hungry("critical", "1")
        spec = changed(critical.spec, priority=2_000_001_000, priority_class_name="system-node-critical")
        api.put(changed(critical, spec=spec))
        for _ in range(60):
            assert len(world.runtime.running()) <= 1
            await asyncio.sleep(0.1)
        await eventually(lambda: world.runtime.running() == ["critical/c"], seconds=60)
        lesser = stored(api, "lesser")
        assert lesser is not None
        assert (lesser.status.phase, lesser.status.reason) == ("Failed", "Preempting")


@virtual_time
async def test_a_rejected_pod_can_be_deleted() -> None:
    api = MemoryPods()
    world = World(api)
    world.node = make_node(cpu="1")
    async with cluster(world, api):
        api.put(hungry("huge", "4"))
        await eventually(lambda: (p := stored(api, "huge")) is not None and p.status.reason == "OutOfcpu")
        api.ask_to_delete("huge")
        await eventually(lambda: stored(api, "huge") is None)


@virtual_time
async def test_a_static_pod_that_ended_before_the_node_was_registered_is_shown_all_the_same() -> None:
    api = MemoryPods()
    world = World(api)
    world.is_registered = False
    async with cluster(world, api):
        job = static("job")
        world.files.apply(changed(job, spec=changed(job.spec, restart_policy="Never")))
        await eventually(world.runtime.running)
        world.runtime.exit("job-busybox:1.36", "c", 0)
        await asyncio.sleep(30)
        assert stored(api, "job-n1") is None
        world.is_registered = True
        await eventually(lambda: (p := stored(api, "job-n1")) is not None and p.status.phase == "Succeeded")


@virtual_time
async def test_pods_that_are_stopped_with_the_agent_go_on_with_the_next_one() -> None:
    api = MemoryPods()
    world = World(api=api)
    api.put(pod())
    async with cluster(world, api) as node:
        await eventually(lambda: phase_of(api) == "Running")
        await node.agent.stop_pods()
        assert not world.runtime.running()
    assert phase_of(api) == "Running"  # it has not ended
    async with cluster(world, api):
        await eventually(world.runtime.running)
        await asyncio.sleep(5)
        assert phase_of(api) == "Running"


@virtual_time
async def test_what_has_ended_is_kept_for_the_next_agent_and_restarts_are_counted_on() -> None:
    api = MemoryPods()
    world = World(api=api)
    api.put(pod())
    api.put(pod("job", restart_policy="Never"))
    async with cluster(world, api) as node:
        await eventually(lambda: len(world.runtime.running()) == 2)
        world.runtime.exit("uid-job", "c", 0)
        await eventually(lambda: (p := stored(api, "job")) is not None and p.status.phase == "Succeeded")
        (job,) = world.runtime.seen("uid-job").containers
        (web,) = world.runtime.seen("uid-web").containers
        await node.agent.stop_pods()
        assert not world.runtime.running()
        assert not any(s.ready for uid in ("uid-web", "uid-job") for s in world.runtime.seen(uid).sandboxes)
        assert not world.host.mounted
        assert world.host.folders == {"uid-web", "uid-job"}
    async with cluster(world, api):
        await eventually(lambda: bool(world.runtime.running()))
        await asyncio.sleep(30)
        assert [container.id for container in world.runtime.seen("uid-job").containers] == [job.id]
        job_now, web_now = stored(api, "job"), stored(api, "web")
        assert job_now is not None
        assert job_now.status.phase == "Succeeded"
        assert web_now is not None
        (status,) = web_now.status.container_statuses
        assert status.restart_count == 1
        assert status.last_state.terminated is not None
        assert status.last_state.terminated.container_id.endswith(web.id)


@pytest.mark.parametrize("policy", ["Never", "OnFailure"])
@virtual_time
async def test_an_end_that_the_agent_has_brought_about_is_not_taken_for_the_pods_own(policy: str) -> None:
    api = MemoryPods()
    world = World(api=api)
    api.put(pod(restart_policy=policy))
    async with cluster(world, api) as node:
        await eventually(lambda: phase_of(api) == "Running")
        await node.agent.stop_pods()
        assert world.runtime.is_empty


@virtual_time
async def test_orphans_go_entirely_but_only_when_it_is_known_that_they_are() -> None:
    api = MemoryPods()
    world = World(api=api)
    api.put(pod())
    async with cluster(world, api):
        await eventually(world.runtime.running)
    world.checkpoint.pods.clear()
    world.pods = ScriptedSource()
    world.pods.reachable.clear()
    async with world.agent() as node:
        await asyncio.sleep(1)
        await node.agent.stop_pods()
        assert not world.runtime.running()
        assert not world.runtime.is_empty
    world.pods.reachable.set()
    async with world.agent() as node:
        await asyncio.sleep(1)
        await node.agent.stop_pods()
        assert world.runtime.is_empty


def phase_of(api: MemoryPods) -> str:
    there = stored(api, "web")
    return there.status.phase if there else ""
