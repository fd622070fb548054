"""What the wrappers around ports tell, seen on a whole agent in virtual time, and what its loops say of themselves."""

import asyncio
from typing import Any, cast

import pytest

from kit.node import World
from kit.pods import make_pod
from kit.virtual_time import virtual_time
from kit.waiting import eventually
from pykubelet.api.container import Container
from pykubelet.api.pod import Pod
from pykubelet.api.struct import changed
from pykubelet.base.errors import Retry
from pykubelet.node.census import take_census
from pykubelet.node.metered import MeteredSyncer, metered_cgroups, metered_runtime
from pykubelet.pod.observed import ObservedPod
from pykubelet.pod.ports.machine import PodCgroups
from pykubelet.pod.ports.runtime import ContainerConfig, SandboxConfig
from pykubelet.pod.ports.syncer import Synced
from pykubelet.runtime.fake import FakeRuntime


class Told:
    """Meters that remember."""

    def __init__(self) -> None:
        self.all: list[tuple[Any, ...]] = []

    def of(self, what: str) -> list[list[Any]]:
        return [more for kind, *more in self.all if kind == what]

    def pod_begins(self, pod: Pod) -> None:
        self.all.append(("begins", pod.metadata.name))

    def pod_worked(self, pod: Pod, operation: str, seconds: float) -> None:
        self.all.append(("worked", pod.metadata.name, operation))

    def pod_seen(self, observed: ObservedPod) -> None:
        self.all.append(("seen", observed.uid))

    def orphan_found(self) -> None:
        self.all.append(("orphan",))

    def orphan_removed(self, failed: bool) -> None:
        self.all.append(("orphan removed", failed))

    def runtime_call(self, method: str, seconds: float, error: Exception | None) -> None:
        self.all.append(("call", method, error is not None))

    def sandbox_run(self, config: SandboxConfig, seconds: float, failed: bool) -> None:
        self.all.append(("sandbox", config.pod.metadata.name, failed))

    def container_started(self, pod: Pod, container: str, code: str) -> None:
        self.all.append(("container", pod.metadata.name, container, code))

    def image_pulled(self, size: int, seconds: float) -> None:
        self.all.append(("image", size))

    def cgroup_changed(self, operation: str, seconds: float) -> None:
        self.all.append(("cgroup", operation))


def pod(name: str = "web", **fields: object) -> Pod:
    return changed(make_pod(name), spec=changed(make_pod(name).spec, restart_policy="Always", **fields))


@virtual_time
async def test_a_pods_life_is_told_step_by_step() -> None:
    world, told = World(), Told()
    world.runtime = cast(FakeRuntime, metered_runtime(world.runtime, told, calls=True))
    async with world.agent() as node:
        node.agent.workers.metered_by(told)
        world.pods.apply(pod())
        await eventually(lambda: node.phase("uid-web") == "Running")
        world.pods.apply(changed(pod(), spec=changed(pod().spec, active_deadline_seconds=9000)))
        await asyncio.sleep(100)
        world.pods.remove("uid-web")
        await eventually(lambda: node.idle)
    assert told.of("begins") == [["web"]]
    steps = [operation for _, operation in told.of("worked")]
    assert steps[0] == "create"
    assert {"update", "sync", "kill", "terminated"} <= set(steps)
    assert told.of("sandbox") == [["web", False]]
    assert told.of("container") == [["web", "c", ""]]
    assert len(told.of("image")) == 1
    assert ["uid-web"] in told.of("seen")
    calls = {method for method, _ in told.of("call")}
    assert {"ListPodSandbox", "RunPodSandbox", "CreateContainer", "StartContainer", "PullImage", "Status"} <= calls


@virtual_time
async def test_what_fails_is_told_with_its_reason() -> None:
    world, told = World(), Told()
    plain = world.runtime
    runtime = metered_runtime(plain, told, calls=False)
    for method in ("run_sandbox", "create_container"):
        plain.failures[method].append(Retry("no"))
    with pytest.raises(Retry):
        await runtime.run_sandbox(SandboxConfig(pod=pod()))
    config = ContainerConfig(name="c", sandbox=SandboxConfig(pod=pod()))
    with pytest.raises(Retry):
        await runtime.create_container("s", config)
    assert told.all == [("sandbox", "web", True), ("container", "web", "c", "CreateContainerError")]


@virtual_time
async def test_a_pod_that_nobody_knows_is_an_orphan_once() -> None:
    told = Told()

    class Failing:
        failures = 1

        async def sync(self, pod: Pod) -> Synced:
            return Synced()

        async def stop(self, pod: Pod, grace: float) -> None: ...

        async def release(self, pod: Pod) -> None: ...

        async def remove(self, uid: str) -> None:
            if self.failures:
                self.failures -= 1
                raise Retry("busy")

    syncer, stranger = MeteredSyncer(Failing(), told), changed(Pod(), metadata=make_pod().metadata)
    await syncer.stop(stranger, 1.0)
    await syncer.stop(stranger, 1.0)
    with pytest.raises(Retry):
        await syncer.remove("uid-web")
    await syncer.remove("uid-web")
    assert told.of("orphan") == [[]]
    assert told.of("orphan removed") == [[True], [False]]


@virtual_time
async def test_changes_of_control_groups_are_told_and_the_rest_passes_through() -> None:
    told = Told()

    class Groups:
        async def set_up(self, pod: Pod) -> str:
            return "/kubepods"

        async def remove(self, uid: str) -> None: ...

        async def balance(self, pods: object) -> None: ...

        async def other(self) -> str:
            return "as it is"

    groups: Any = metered_cgroups(cast(PodCgroups, Groups()), told)
    assert [await groups.set_up(pod()) for _ in range(2)] == ["/kubepods"] * 2
    await groups.balance(())
    await groups.remove("uid-web")
    assert told.of("cgroup") == [["create"], ["update"], ["update"], ["destroy"]]
    assert await groups.other() == "as it is"


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
    looks: list[tuple[float, float | None]] = []
    async with world.agent() as node:
        node.agent.pleg.on_relist = lambda seconds, interval: looks.append((seconds, interval))
        await asyncio.sleep(25)
    assert looks[0][1] is None
    assert len(looks) >= 3
    assert all(interval is not None and interval >= 1 for _, interval in looks[1:])
