"""What it takes to run and to stop a pod when something goes wrong: stories in virtual time."""

import asyncio
from datetime import UTC, datetime
from typing import Any

from kit.node import World
from kit.pod_api import MemoryPods
from kit.pod_objects import MemoryObjects
from kit.pods import make_pod
from kit.virtual_time import virtual_time
from kit.waiting import eventually
from pykubelet.api.container import Container
from pykubelet.api.meta import LocalObjectReference
from pykubelet.api.objects import Secret
from pykubelet.api.pod import Pod
from pykubelet.api.struct import changed
from pykubelet.base.errors import Retry
from pykubelet.pod.observed import State
from pykubelet.pod.ports.runtime import ContainerConfig
from unit.node.test_api_stories import cluster, stored


def pod(name: str = "web", *, uid: str = "", **fields: Any) -> Pod:
    made = make_pod(name, uid=uid)
    return changed(made, spec=changed(made.spec, **({"restart_policy": "Always"} | fields)))


@virtual_time
async def test_a_pod_whose_deadline_has_passed_does_not_run_again_after_a_restart() -> None:
    api = MemoryPods()
    world = World(api)
    async with cluster(world, api):
        api.put(pod(active_deadline_seconds=30))
        await eventually(lambda: (p := stored(api, "web")) is not None and p.status.phase == "Failed", seconds=120)
        await eventually(lambda: not world.runtime.running())
        await asyncio.sleep(10)
    async with cluster(world, api):
        for _ in range(60):
            assert not world.runtime.running()
            await asyncio.sleep(1)
    assert api.pods["default", "web"].status.phase == "Failed"


@virtual_time
async def test_a_volume_error_is_forgotten_when_it_is_mended() -> None:
    world = World()
    world.host.failures["set_up"] = [Retry("disk is away")]
    async with world.agent() as node:
        world.pods.apply(pod(init_containers=(Container(name="init", image="i"),)))
        await eventually(lambda: world.runtime.running() == ["web/init"], seconds=60)
        await eventually(lambda: node.waiting("uid-web") == "PodInitializing")


@virtual_time
async def test_containers_that_cannot_be_started_do_not_pile_up() -> None:
    world = World()
    world.runtime.failures["start_container"] = [Retry("no") for _ in range(10_000)]
    async with world.agent():
        world.pods.apply(pod())
        await asyncio.sleep(1800)
        assert len(world.runtime.seen("uid-web").containers) <= 3
        starts = [about for method, about in world.runtime.calls if method == "start_container"]
        assert 5 <= len(starts) <= 20  # they wait like those that crash, although each removal wakes the pod


@virtual_time
async def test_sidecars_and_sandbox_stop_even_when_the_main_container_cannot_be_stopped() -> None:
    world = World()
    stop = world.runtime.stop_container

    async def stuck(container_id: str, grace: float) -> None:
        if container_id.startswith("c-"):
            raise Retry("hangs")
        await stop(container_id, grace)

    async with world.agent():
        world.pods.apply(pod(init_containers=(Container(name="side", image="i", restart_policy="Always"),)))
        await eventually(lambda: len(world.runtime.running()) == 2)
        world.runtime.stop_container = stuck  # type: ignore[method-assign]
        world.pods.remove("uid-web")
        await eventually(lambda: not world.runtime.running(), seconds=120)


@virtual_time
async def test_neither_a_bug_of_the_runtime_nor_an_odd_pod_ends_the_agent() -> None:
    world = World()
    async with world.agent() as node:
        odd = pod("odd", active_deadline_seconds=10)
        late = datetime(9999, 12, 31, 23, 59, 55, tzinfo=UTC)
        world.pods.apply(changed(odd, status=changed(odd.status, start_time=late)))
        world.runtime.failures["pods"] = [OSError("a bug") for _ in range(3)]
        await asyncio.sleep(30)
        world.pods.apply(pod())
        await eventually(lambda: node.phase("uid-web") == "Running")


@virtual_time
async def test_stopping_all_pods_is_not_given_up_because_the_runtime_is_busy() -> None:
    world = World()
    async with world.agent() as node:
        world.pods.apply(pod())
        await eventually(world.runtime.running)
        world.runtime.failures["pods"] = [Retry("busy") for _ in range(5)]
        await node.agent.stop_pods()
        assert not world.runtime.running()


@virtual_time
async def test_stopping_all_pods_does_not_wait_for_ever_for_what_cannot_be_given_back() -> None:
    world = World()
    async with world.agent() as node:
        world.pods.apply(pod())
        await eventually(world.runtime.running)
        world.host.failures["tear_down"] = [Retry("the driver of its volume is gone")] * 1000
        began = asyncio.get_running_loop().time()
        await node.agent.stop_pods()
        assert not world.runtime.running()
        assert asyncio.get_running_loop().time() - began < 10


@virtual_time
async def test_a_pod_with_a_deadline_is_not_looked_at_every_second() -> None:
    world = World()
    async with world.agent():
        world.pods.apply(pod(active_deadline_seconds=36_000))
        await eventually(world.runtime.running)
        before = len(world.runtime.calls)
        await asyncio.sleep(600)
        looks = [method for method, _ in world.runtime.calls[before:] if method == "observe"]
        assert len(looks) < 40


@virtual_time
async def test_a_pod_is_looked_at_before_its_end_after_it_and_when_it_goes() -> None:
    world = World()
    async with world.agent() as node:
        world.pods.apply(pod())
        await eventually(world.runtime.running)
        await asyncio.sleep(30)
        before = len(world.runtime.calls)
        world.pods.remove("uid-web")
        await eventually(lambda: "uid-web" not in node.agent.workers.workers)
        looks = [method for method, _ in world.runtime.calls[before:] if method == "observe"]
        assert len(looks) == 3


@virtual_time
async def test_a_stop_that_is_to_be_quicker_still_gives_the_time_it_has() -> None:
    world = World()
    world.runtime.stop_seconds = 8
    async with world.agent():
        leaving = pod(termination_grace_period_seconds=60)
        world.pods.apply(leaving)
        await eventually(world.runtime.running)
        for grace in (60, 30):
            meta = changed(leaving.metadata, deletion_timestamp=datetime.now(UTC), deletion_grace_period_seconds=grace)
            world.pods.apply(changed(leaving, metadata=meta))
            await asyncio.sleep(1)
        assert world.runtime.running()
        await eventually(lambda: not world.runtime.running())
        assert world.runtime.seen("uid-web").containers[0].exit_code == 143  # not killed: it has ended by itself


@virtual_time
async def test_an_agent_that_goes_while_a_pod_stops_does_not_kill_it() -> None:
    world = World()
    world.runtime.stop_seconds = 30
    async with world.agent():
        leaving = pod(termination_grace_period_seconds=60)
        world.pods.apply(leaving)
        await eventually(world.runtime.running)
        meta = changed(leaving.metadata, deletion_timestamp=datetime.now(UTC), deletion_grace_period_seconds=60)
        world.pods.apply(changed(leaving, metadata=meta))
        await asyncio.sleep(1)
    assert world.runtime.running()


@virtual_time
async def test_a_container_that_came_to_run_only_after_another_was_started_in_its_place_is_ended() -> None:
    world = World()
    made = make_pod("web", uid="u1")
    async with world.agent():
        world.pods.apply(changed(made, spec=changed(made.spec, restart_policy="Always")))
        await eventually(world.runtime.running)
    seen = world.runtime.seen("u1")
    [first] = seen.containers
    again = ContainerConfig(name="c", image="i", attempt=1, annotations={"io.kubernetes.container.hash": first.hash})
    second = await world.runtime.create_container(seen.sandboxes[0].id, again)
    await world.runtime.start_container(second)
    assert world.runtime.running() == ["web/c", "web/c"]
    async with world.agent():
        await eventually(lambda: world.runtime.running() == ["web/c"])
    [kept] = [each for each in world.runtime.seen("u1").containers if each.state is State.RUNNING]
    assert kept.id == second


@virtual_time
async def test_a_pod_that_has_succeeded_is_not_failed_by_its_deadline() -> None:
    world = World()
    job = pod(restart_policy="Never", active_deadline_seconds=30)
    async with world.agent() as node:
        world.pods.apply(job)
        await eventually(world.runtime.running)
        world.runtime.failures["observe"] = [Retry("busy")] * 6  # its end is seen only after the deadline
        await asyncio.sleep(20)
        world.runtime.exit("uid-web", "c", 0)
        await eventually(lambda: node.phase("uid-web") == "Succeeded", seconds=120)
        assert node.status("uid-web").reason == ""


@virtual_time
async def test_pull_secrets_are_fetched_when_an_image_is_pulled_and_not_before() -> None:
    world = World()
    world.objects = objects = MemoryObjects()
    web = pod(image_pull_secrets=(LocalObjectReference(name="key"), LocalObjectReference(name="lost")))
    objects.secrets["key"] = Secret()
    async with world.agent() as node:
        world.pods.apply(web)
        await eventually(lambda: node.phase("uid-web") == "Running")
        assert [name for kind, name, _ in objects.asked if kind == "secret"] == ["key", "lost"]
        told = [message for _, reason, message in world.events.all if reason == "FailedToRetrieveImagePullSecret"]
        missing = "Unable to retrieve some image pull secrets (lost)"
        assert told == [f"{missing}; attempting to pull the image may not succeed."]
        world.runtime.exit("uid-web", "c", 1)
        await eventually(lambda: node.status("uid-web").container_statuses[0].restart_count == 1)
        assert len([kind for kind, _, _ in objects.asked if kind == "secret"]) == 2  # the image is here by now


@virtual_time
async def test_what_is_remembered_of_a_pod_goes_with_it() -> None:
    world = World()
    world.runtime.missing_images.add("nowhere")
    async with world.agent() as node:
        world.pods.apply(pod(containers=(Container(name="c", image="i"), Container(name="d", image="nowhere"))))
        await eventually(lambda: node.waiting("uid-web", "d") == "ImagePullBackOff", seconds=60)
        world.runtime.exit("uid-web", "c", 1)
        await eventually(world.runtime.running)
        worker = node.agent.workers.workers["uid-web"]
        kuberuntime = worker._syncer._kuberuntime  # type: ignore[attr-defined]
        assert kuberuntime._crash_loops
        assert kuberuntime._images._backoffs
        world.pods.remove("uid-web")
        await eventually(lambda: node.idle)
        assert not kuberuntime._crash_loops
        assert not kuberuntime._images._backoffs
