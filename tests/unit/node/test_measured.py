"""What the rooms note to be measured, seen on a whole agent in virtual time, and what its loops say of themselves."""

import asyncio
from typing import TypeVar

from kit.node import World
from kit.pods import make_pod
from kit.virtual_time import virtual_time
from kit.waiting import eventually
from pykubelet.api.container import Container
from pykubelet.api.pod import Pod
from pykubelet.api.struct import changed
from pykubelet.base.errors import Retry
from pykubelet.node.census import take_census
from pykubelet.pod import moments as m
from pykubelet.pod.moments import Noted
from pykubelet.pod.ports.runtime import SandboxConfig

M = TypeVar("M")


class Told:
    """A reader that remembers."""

    def __init__(self, world: World) -> None:
        self.all: list[Noted] = []
        world.journal.read_by(self.all.append)

    def of(self, kind: type[M]) -> list[M]:
        return [noted.moment for noted in self.all if isinstance(noted.moment, kind)]


def pod(name: str = "web", **fields: object) -> Pod:
    return changed(make_pod(name), spec=changed(make_pod(name).spec, restart_policy="Always", **fields))


@virtual_time
async def test_a_pods_life_is_told_step_by_step() -> None:
    world = World()
    told = Told(world)
    async with world.agent() as node:
        world.pods.apply(pod())
        await eventually(lambda: node.phase("uid-web") == "Running")
        world.pods.apply(changed(pod(), spec=changed(pod().spec, active_deadline_seconds=9000)))
        await asyncio.sleep(100)
        world.pods.remove("uid-web")
        await eventually(lambda: node.idle)
    assert [began.containers for began in told.of(m.Began)] == [1]
    steps = [work.operation for work in told.of(m.WorkEnded)]
    assert steps[0] == "create"
    assert {"update", "sync", "kill", "terminated", "remove"} <= set(steps)
    assert [made.error for made in told.of(m.SandboxMade)] == [""]
    assert [(each.container, each.kind) for each in told.of(m.ContainerStarted)] == [("c", "container")]
    assert [pull.is_shared for pull in told.of(m.PullEnded)] == [False]
    calls = {call.method for call in told.of(m.RuntimeCalled)}
    assert {"ListPodSandbox", "RunPodSandbox", "CreateContainer", "StartContainer", "PullImage", "Status"} <= calls


@virtual_time
async def test_a_call_of_the_runtime_is_its_pods_if_it_is_for_one() -> None:
    world = World()
    told = Told(world)
    async with world.agent() as node:
        world.pods.apply(pod())
        await eventually(lambda: node.phase("uid-web") == "Running")
    whose = {(n.moment.method, n.about.uid) for n in told.all if isinstance(n.moment, m.RuntimeCalled)}
    assert {("RunPodSandbox", "uid-web"), ("StartContainer", "uid-web"), ("ListPodSandbox", "")} <= whose
    assert ("ListPodSandbox", "uid-web") not in whose


@virtual_time
async def test_what_fails_is_told_with_its_reason() -> None:
    world = World()
    told = Told(world)
    for method in ("run_sandbox", "create_container"):
        world.runtime.failures[method].append(Retry("no"))
    async with world.agent() as node:
        world.pods.apply(pod())
        await eventually(lambda: node.phase("uid-web") == "Running", seconds=60)
    assert [made.error for made in told.of(m.SandboxMade)] == ["no", ""]
    (failed,) = told.of(m.StartFailed)
    assert (failed.container, failed.kind, failed.reason) == ("c", "container", "CreateContainerError")
    calls = [(call.method, call.error) for call in told.of(m.RuntimeCalled)]
    assert ("RunPodSandbox", "no") in calls
    assert ("CreateContainer", "no") in calls


@virtual_time
async def test_a_pod_that_nobody_knows_is_an_orphan_once() -> None:
    world = World()
    told = Told(world)
    await world.runtime.run_sandbox(SandboxConfig(pod=pod("stranger")))
    world.host.folders.add("only-a-folder")
    world.host.failures["remove"] = [Retry("busy")]
    async with world.agent():
        await asyncio.sleep(10)
    orphans = {noted.about.uid: noted.moment for noted in told.all if isinstance(noted.moment, m.OrphanFound)}
    assert orphans == {"uid-stranger": m.OrphanFound(True), "only-a-folder": m.OrphanFound(False)}
    assert len(told.of(m.OrphanFound)) == 2
    removals = [bool(work.error) for work in told.of(m.WorkEnded) if work.operation == "remove"]
    assert sorted(removals) == [False, False, True]


@virtual_time
async def test_a_census_counts_the_pods_of_a_node() -> None:
    world = World()
    async with world.agent() as node:
        world.pods.apply(pod())
        world.files.apply(pod("static", ephemeral_containers=(Container(name="debug"),)))
        await eventually(lambda: len(world.runtime.running()) >= 2)
        await asyncio.sleep(15)  # until the runtime was looked at again
        counted = take_census(node.agent)
        assert counted.desired == {"": 1, "true": 1}
        assert counted.active == {"": 1, "true": 1}
        assert counted.working["sync", "desired", "true"] == 1
        assert counted.ephemeral_containers == 1
        assert counted.running_pods == 2
        assert counted.containers["running"] >= 2
        assert 0 <= counted.lateness <= 1.5


@virtual_time
async def test_a_loop_that_does_not_come_round_is_late() -> None:
    world = World()
    async with world.agent() as node:
        loop = node.agent.loop
        assert loop.lateness == 0  # it has not begun
        await asyncio.sleep(10)
        assert loop.lateness <= 1.5
        for task in node.agent._running.values():
            if task.get_name() == "tick":
                task.cancel()
        node.agent._running["housekeeping"].cancel()
        node.agent._running["relist"].cancel()
        await asyncio.sleep(130)
        assert loop.lateness > 120


@virtual_time
async def test_each_look_at_the_whole_runtime_is_told() -> None:
    world = World()
    told = Told(world)
    async with world.agent():
        await asyncio.sleep(25)
    first, *looks = told.of(m.Relisted)
    assert first.interval is None
    assert len(looks) >= 2
    assert all(look.interval is not None and look.interval >= 1 for look in looks)
