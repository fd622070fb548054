"""What a probe finds out is told at once, whatever the pod's worker is busy with: stories in virtual time."""

import asyncio
from datetime import timedelta

from kit.node import Running, World
from kit.pods import make_pod
from kit.virtual_time import virtual_time
from kit.waiting import eventually
from pykubelet.api.container import Container
from pykubelet.api.handlers import ExecAction, Probe
from pykubelet.api.pod import ContainerStatus, Pod
from pykubelet.api.struct import changed
from pykubelet.base.errors import Retry
from pykubelet.node.messages import Probed
from pykubelet.node.probe_results import ProbeResultsStore
from pykubelet.pod.lifecycle.probe_results import NO_PROBES, ProbeResults, Result

UID = "uid-web"


def asking(command: str) -> Probe:
    return Probe(exec=ExecAction(command=(command,)), period_seconds=1, timeout_seconds=1, failure_threshold=1)


READY, ALIVE, UP = asking("ready"), asking("alive"), asking("up")


def pod(*containers: Container) -> Pod:
    made = make_pod("web")
    return changed(made, spec=changed(made.spec, containers=containers, restart_policy="Always"))


def container(node: Running, name: str = "c") -> ContainerStatus:
    return next(each for each in node.status(UID).container_statuses if each.name == name)


def conditions(node: Running) -> dict[str, str]:
    return {each.type: each.status for each in node.status(UID).conditions}


async def is_running(node: Running, *, ready: bool = True) -> None:
    await eventually(lambda: node.phase(UID) == "Running" and container(node).ready is ready)


@virtual_time
async def test_a_container_is_unready_at_once_although_nobody_can_look_at_its_pod() -> None:
    world = World()
    async with world.agent() as node:
        world.pods.apply(pod(Container(name="c", image="i", readiness_probe=READY)))
        await is_running(node)
        world.runtime.failures["observe"] = [Retry("the runtime is busy")] * 1000
        world.runtime.exit_codes["ready"] = 1
        await asyncio.sleep(2)
        assert not container(node).ready
        assert conditions(node)["Ready"] == conditions(node)["ContainersReady"] == "False"
        world.runtime.exit_codes.clear()
        await asyncio.sleep(2)
        assert container(node).ready
        assert conditions(node)["Ready"] == "True"
        await asyncio.sleep(116)
        assert world.runtime.failures["observe"]  # in these two minutes there was no look at the pod


@virtual_time
async def test_a_container_is_unready_at_once_although_the_image_of_another_takes_five_minutes() -> None:
    world = World()
    async with world.agent() as node:
        web = pod(Container(name="c", image="i", readiness_probe=READY), Container(name="slow", image="small"))
        world.pods.apply(web)
        await is_running(node)
        world.runtime.delays["pull_image"] = 300
        other = changed(web.spec.containers[1], image="large")
        world.pods.apply(changed(web, spec=changed(web.spec, containers=(web.spec.containers[0], other))))
        await eventually(lambda: ("pull_image", "large") in world.runtime.calls)
        began = world.now()
        world.runtime.exit_codes["ready"] = 1
        await asyncio.sleep(2)
        assert not container(node).ready
        world.runtime.exit_codes.clear()
        await asyncio.sleep(2)
        assert container(node).ready
        await eventually(lambda: world.runtime.running() == ["web/c", "web/slow"], seconds=400)
        assert world.now() - began > timedelta(seconds=290)
        assert container(node).restart_count == 0


@virtual_time
async def test_a_result_that_comes_while_a_pull_is_tried_again_leaves_the_reason_for_waiting_as_it_was() -> None:
    world = World()
    world.runtime.missing_images.add("nowhere")
    async with world.agent() as node:
        web = pod(Container(name="c", image="i", readiness_probe=READY), Container(name="d", image="nowhere"))
        world.pods.apply(web)
        await eventually(lambda: node.waiting(UID, "d") == "ImagePullBackOff", seconds=60)
        await eventually(lambda: container(node).ready)
        world.runtime.delays["pull_image"] = 300
        pulls = world.runtime.calls.count(("pull_image", "nowhere"))
        await eventually(lambda: world.runtime.calls.count(("pull_image", "nowhere")) > pulls, seconds=60)
        world.runtime.exit_codes["ready"] = 1
        await eventually(lambda: not container(node).ready, seconds=3)
        assert node.waiting(UID, "d") in ("ErrImagePull", "ImagePullBackOff")


@virtual_time
async def test_a_failed_liveness_probe_changes_no_status_before_the_worker_has_restarted_the_container() -> None:
    world = World()
    async with world.agent() as node:
        world.pods.apply(pod(Container(name="c", image="i", liveness_probe=ALIVE, readiness_probe=READY)))
        await is_running(node)
        first = container(node)
        world.runtime.failures["observe"] = [Retry("the runtime is busy")] * 10
        world.runtime.exit_codes["alive"] = 1
        await eventually(lambda: len(world.runtime.failures["observe"]) < 10)
        assert container(node) == first
        assert world.runtime.running() == ["web/c"]
        await eventually(lambda: container(node).restart_count >= 1, seconds=120)
        assert container(node).container_id != first.container_id


@virtual_time
async def test_a_container_has_started_at_once_and_is_asked_whether_it_is_ready_although_nobody_can_look() -> None:
    world = World()
    world.runtime.exit_codes["up"] = 1
    never = changed(UP, failure_threshold=1000)
    async with world.agent() as node:
        slow = changed(READY, period_seconds=600)
        world.pods.apply(pod(Container(name="c", image="i", startup_probe=never, readiness_probe=slow)))
        await is_running(node, ready=False)
        assert container(node).started is False
        world.runtime.failures["observe"] = [Retry("the runtime is busy")] * 1000
        world.runtime.exit_codes.clear()
        await asyncio.sleep(2)
        assert container(node).started is True
        assert container(node).ready is True


@virtual_time
async def test_a_container_of_a_pod_that_takes_its_time_to_stop_is_unready_at_once() -> None:
    world = World()
    world.runtime.stop_seconds = 100
    web = pod(Container(name="c", image="i", readiness_probe=READY))
    async with world.agent() as node:
        world.pods.apply(web)
        await is_running(node)
        grace = {"deletion_timestamp": world.now() + timedelta(seconds=60), "deletion_grace_period_seconds": 60}
        world.pods.apply(changed(web, metadata=changed(web.metadata, **grace)))
        await eventually(lambda: any(what == "stop_container" for what, _ in world.runtime.calls))
        world.runtime.exit_codes["ready"] = 1
        await asyncio.sleep(2)
        assert container(node).state.running is not None
        assert not container(node).ready


@virtual_time
async def test_a_late_result_says_nothing_of_a_pod_that_has_ended_nor_of_one_that_is_gone() -> None:
    world = World()
    job = pod(Container(name="c", image="i", readiness_probe=READY))
    job = changed(job, spec=changed(job.spec, restart_policy="Never"))
    async with world.agent() as node:
        world.pods.apply(job)
        await is_running(node)
        container_id = container(node).container_id.partition("://")[2]
        world.runtime.exit(UID, "c", 0)
        await eventually(lambda: node.phase(UID) == "Succeeded")
        await asyncio.sleep(5)
        told = node.status(UID)
        node.agent.loop.handle(Probed("readiness", UID, container_id, Result.FAILURE))
        assert node.status(UID) == told
        world.pods.remove(UID)
        await eventually(lambda: node.idle)
        node.agent.loop.handle(Probed("readiness", UID, container_id, Result.SUCCESS))
        assert node.agent.statuses.get(UID) is None
        assert node.agent.probe_results.of(UID) == NO_PROBES


def test_only_what_has_changed_is_news_and_only_what_is_there_is_kept() -> None:
    results = ProbeResultsStore()
    assert results.set("u1", "readiness", "a", Result.SUCCESS)
    assert not results.set("u1", "readiness", "a", Result.SUCCESS)
    assert results.set("u1", "liveness", "a", Result.SUCCESS)
    assert results.set("u1", "readiness", "b", Result.FAILURE)
    assert results.set("u2", "startup", "a", Result.SUCCESS)
    results.keep("u1", {"b"})
    assert results.of("u1") == ProbeResults(readiness={"b": Result.FAILURE})
    assert results.of("u2") == ProbeResults(startup={"a": Result.SUCCESS})
    results.forget("u1")
    assert results.of("u1") == NO_PROBES
