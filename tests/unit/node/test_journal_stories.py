"""Whole lives of pods, read from the journal alone: what explains a pod later has nothing else."""

import asyncio
from datetime import timedelta

import pytest

from kit.node import World, make_node
from kit.pod_api import MemoryPods
from kit.pod_objects import MemoryObjects
from kit.pods import make_pod
from kit.virtual_time import virtual_time
from kit.waiting import eventually
from pykubelet.api.container import ResourceRequirements
from pykubelet.api.env import ConfigMapEnvSource, EnvFromSource
from pykubelet.api.pod import Pod
from pykubelet.api.quantity import parse
from pykubelet.api.struct import changed
from pykubelet.base.errors import Retry
from pykubelet.pod import moments as m
from pykubelet.pod.container.failures import MissingObject, MountFailed
from pykubelet.pod.lifecycle.pod_update import Op


def pod(name: str = "web", **fields: object) -> Pod:
    made = make_pod(name)
    return changed(made, spec=changed(made.spec, **{"restart_policy": "Always", **fields}))


def with_container(made: Pod, **fields: object) -> Pod:
    container = changed(made.spec.containers[0], **fields)
    return changed(made, spec=changed(made.spec, containers=(container,)))


def life(world: World, uid: str = "uid-web") -> list[m.Moment]:
    return [noted.moment for noted in world.journal.of(uid)]


def told(moment: m.Moment) -> object:
    """A moment in one word."""
    match moment:
        case m.Merged(op):
            return op
        case m.PhaseEntered(phase):
            return phase
        case m.WorkEnded(operation):
            return operation
        case _:
            return type(moment)


@virtual_time
async def test_a_life_from_start_to_deletion() -> None:
    api = MemoryPods()
    world = World(api)
    async with world.agent() as node:
        world.pods.apply(api.put(pod()))
        await eventually(lambda: api.status("web").phase == "Running")
        await asyncio.sleep(3600)  # an hour of nothing
        world.runtime.exit("uid-web", "c", 1)
        await eventually(lambda: len(world.runtime.running()) == 1)
        world.runtime.exit("uid-web", "c", 137)
        await eventually(lambda: node.waiting("uid-web") == "CrashLoopBackOff")
        await eventually(lambda: len(world.runtime.running()) == 1, seconds=60)
        world.pods.apply(api.ask_to_delete("web"))
        await eventually(lambda: api.deleted)
        world.pods.remove("uid-web")
        await eventually(lambda: node.idle)
    reports = m.StatusSet | m.StatusSent | m.StatusAcknowledged
    assert [told(moment) for moment in life(world) if not isinstance(moment, reports)] == [
        *(m.Watched, Op.ADD, m.Admitted, m.Phase.RUNNING, m.Began),
        *(m.SandboxMade, m.PullEnded, m.ContainerCreated, m.ContainerStarted, "create"),
        *(m.Exited, m.ContainerCreated, m.ContainerStarted),
        *(m.Exited, m.BackedOff, m.StartFailed, m.ContainerCreated, m.ContainerStarted),
        *(Op.DELETE, m.StopAsked, m.Phase.STOPPING, m.ContainerStopping, m.Exited, "kill"),
        *(m.Phase.RELEASING, "terminated", m.Phase.RELEASED, m.PodDeleted),
        *(Op.REMOVE, m.Phase.REMOVING, "remove", m.Phase.GONE),
    ]
    assert [(each.attempt, each.code) for each in life(world) if isinstance(each, m.Exited)] == [
        *((0, 1), (1, 137), (2, 143)),
    ]
    (stop,) = (each for each in life(world) if isinstance(each, m.StopAsked))
    assert (stop.by, stop.grace) == ("deleted", 30)
    phases = [each.phase for each in life(world) if isinstance(each, m.StatusSent)]
    assert (phases[0], phases[1], phases[-1]) == ("Pending", "Running", "Failed")


@virtual_time
async def test_when_a_crashed_container_is_tried_again_is_there_to_read() -> None:
    world = World()
    async with world.agent() as node:
        world.pods.apply(pod())
        await eventually(lambda: node.phase("uid-web") == "Running")
        world.runtime.exit("uid-web", "c", 1)
        await eventually(lambda: len(world.runtime.running()) == 1)
        world.runtime.exit("uid-web", "c", 1)
        await eventually(lambda: node.waiting("uid-web") == "CrashLoopBackOff")
        (wait,) = (each for each in life(world) if isinstance(each, m.BackedOff))
        assert (wait.container, wait.image) == ("c", "")
        await eventually(lambda: len(world.runtime.running()) == 1, seconds=60)
        assert timedelta() <= world.now() - wait.until < timedelta(seconds=1)


@virtual_time
async def test_a_pod_waits_for_the_one_that_has_its_name() -> None:
    world = World()
    world.runtime.stop_seconds = 20
    async with world.agent() as node:
        world.pods.apply(pod())
        await eventually(lambda: node.phase("uid-web") == "Running")
        world.pods.remove("uid-web")
        later = pod()
        world.pods.apply(changed(later, metadata=changed(later.metadata, uid="uid-2")))
        await eventually(lambda: node.phase("uid-2") == "Running", seconds=60)
    awaiting, running = (each for each in life(world, "uid-2") if isinstance(each, m.Awaiting | m.PhaseEntered))
    assert awaiting == m.Awaiting("pod", "uid-web", "default/web")
    assert running == m.PhaseEntered(m.Phase.RUNNING)
    first, second = (each for each in world.journal.of("uid-2") if each.moment in (awaiting, running))
    assert 19 < (second.at - first.at).total_seconds() < 22


@virtual_time
async def test_an_image_that_cannot_be_had() -> None:
    world = World()
    world.runtime.missing_images.add("nowhere:1")
    async with world.agent() as node:
        world.pods.apply(with_container(pod(), image="nowhere:1"))
        await eventually(lambda: node.waiting("uid-web") == "ImagePullBackOff", seconds=60)
    (ended,) = (each for each in life(world) if isinstance(each, m.PullEnded))
    assert ended.image == "nowhere:1"
    assert ended.error
    reasons = [each.reason for each in life(world) if isinstance(each, m.StartFailed)]
    assert reasons[:2] == ["ErrImagePull", "ImagePullBackOff"]
    (wait,) = (each for each in life(world) if isinstance(each, m.BackedOff))
    assert (wait.container, wait.image) == ("c", "nowhere:1")


@virtual_time
async def test_a_config_map_that_nobody_has_made_yet() -> None:
    world = World()
    world.objects = MemoryObjects()
    source = EnvFromSource(config_map_ref=ConfigMapEnvSource(name="settings"))
    async with world.agent() as node:
        world.pods.apply(with_container(pod(), env_from=(source,)))
        await eventually(lambda: node.waiting("uid-web") == "CreateContainerConfigError")
    (awaiting,) = (each for each in life(world) if isinstance(each, m.Awaiting))
    assert awaiting == m.Awaiting("configmap", "settings", 'configmap "settings" not found')


@virtual_time
async def test_volumes_and_the_network_are_waited_for_step_by_step() -> None:
    world = World()
    world.runtime.network_ready = False
    missing = MountFailed("settings", MissingObject("secret", "shop"))
    missing.__cause__ = MissingObject("secret", "shop")
    world.host.failures["set_up"] = [Retry("the disk is away"), missing]
    async with world.agent() as node:
        await asyncio.sleep(2)
        world.pods.apply(pod())
        await asyncio.sleep(5)
        (rest,) = (each for each in world.journal.of("uid-web") if isinstance(each.moment, m.Resting))
        assert isinstance(rest.moment, m.Resting)
        assert world.now() < rest.at + timedelta(seconds=rest.moment.seconds) < world.now() + timedelta(seconds=20)
        world.runtime.network_ready = True
        await eventually(lambda: node.phase("uid-web") == "Running", seconds=120)
    assert [each.what for each in life(world) if isinstance(each, m.Awaiting)] == ["network", "volume", "secret"]
    failed = [(each.step, each.error) for each in life(world) if isinstance(each, m.StepEnded) and each.error]
    assert [step for step, _ in failed] == ["network", "volumes", "volumes"]
    assert failed[1][1] == "the disk is away"
    assert not [each for each in life(world) if isinstance(each, m.Resting)]


@virtual_time
async def test_what_takes_long_is_there_while_it_does() -> None:
    world = World()
    world.runtime.delays["pull_image"] = 300
    async with world.agent() as node:
        world.pods.apply(pod())
        await asyncio.sleep(5)
        now = [each for each in life(world) if isinstance(each, m.WorkBegun | m.StepBegun | m.PullBegun)]
        assert now == [m.WorkBegun("create"), m.StepBegun("containers"), m.PullBegun("busybox:1.36")]
        await asyncio.sleep(100)
        assert m.PullProgressed("busybox:1.36", pytest.approx(60)) in life(world)  # type: ignore[arg-type]
        await eventually(lambda: node.phase("uid-web") == "Running", seconds=300)
    slow = {type(each).__name__: each.seconds for each in life(world) if isinstance(each, m.WorkEnded | m.StepEnded)}
    assert all(seconds == pytest.approx(300, abs=1) for seconds in slow.values())
    assert set(slow) == {"WorkEnded", "StepEnded"}
    assert not [each for each in life(world) if isinstance(each, m.WorkBegun | m.StepBegun | m.PullBegun)]


@virtual_time
async def test_who_asked_a_pod_to_stop() -> None:
    world = World()
    world.node = make_node(cpu="1")
    share = ResourceRequirements(requests={"cpu": parse("800m")})
    async with world.agent() as node:
        world.pods.apply(pod("late", active_deadline_seconds=30))
        await eventually(lambda: node.phase("uid-late") == "Failed", seconds=60)
        world.pods.apply(with_container(pod("lesser"), resources=share))
        await eventually(lambda: node.phase("uid-lesser") == "Running")
        critical = pod("critical", priority=2_000_000_000, priority_class_name="system-node-critical")
        world.pods.apply(with_container(critical, resources=share))
        await eventually(lambda: node.phase("uid-critical") == "Running", seconds=60)
        world.pods.remove("uid-critical")
        await eventually(lambda: "uid-critical" not in node.agent.workers.workers, seconds=60)
    stops = {
        name: [each.by for each in life(world, f"uid-{name}") if isinstance(each, m.StopAsked)]
        for name in ("late", "lesser", "critical")
    }
    assert stops == {"late": ["ended"], "lesser": ["preempted"], "critical": ["removed"]}
    assert m.DeadlinePassed() in life(world, "uid-late")
    assert m.Preempted("uid-critical", "default/critical") in life(world, "uid-lesser")
    assert m.Awaiting("pod", "uid-lesser", "default/lesser") in life(world, "uid-critical")
