"""Pods that use other objects: what they wait for, and what happens when it comes."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from kit.node import FakeHost, Running, World
from kit.pod_objects import MemoryObjects, service
from kit.pods import make_pod
from kit.virtual_time import virtual_time
from kit.waiting import eventually
from pykubelet.api import codec
from pykubelet.api.objects import ConfigMap, Secret
from pykubelet.api.pod import Pod, PodSpec
from pykubelet.api.struct import changed
from pykubelet.base.errors import NotFound, Retry
from pykubelet.node.container_env import container_environment
from pykubelet.node.dependencies import NodeInfo
from pykubelet.pod.container.failures import MountFailed
from pykubelet.pod.ports.runtime import ContainerConfig


def pod(**container: Any) -> Pod:
    spec = {"containers": [{"name": "c", "image": "i", **container}], "restartPolicy": "Always"}
    return changed(make_pod(uid="u1"), spec=codec.convert(PodSpec, spec))


@asynccontextmanager
async def node(world: World, objects: MemoryObjects) -> AsyncIterator[Running]:
    world.objects = objects
    async with world.agent() as running:
        yield running


class Environments:
    """Notes what the runtime is told."""

    def __init__(self, world: World) -> None:
        self.all: list[dict[str, str]] = []
        create = world.runtime.create_container

        async def listening(sandbox_id: str, config: ContainerConfig) -> str:
            self.all.append(dict(config.env))
            return await create(sandbox_id, config)

        world.runtime.create_container = listening  # type: ignore[method-assign]


def message(running: Running) -> str:
    states = running.status("u1").container_statuses
    return states[0].state.waiting.message if states and states[0].state.waiting else ""


@virtual_time
async def test_a_container_waits_for_its_config_map_and_starts_when_it_is_there() -> None:
    world, objects = World(), MemoryObjects()
    environments = Environments(world)
    objects.all_services.append(service("kubernetes", "10.0.0.1"))
    async with node(world, objects) as running:
        world.pods.apply(pod(envFrom=[{"configMapRef": {"name": "conf"}}]))
        await eventually(lambda: running.waiting("u1") == "CreateContainerConfigError")
        assert message(running) == 'configmap "conf" not found'
        assert ("web", "Failed", 'Error: configmap "conf" not found') in world.events.all
        objects.config_maps["conf"] = ConfigMap(data={"level": "debug"})
        await eventually(lambda: running.phase("u1") == "Running", seconds=12)
    assert environments.all[-1]["level"] == "debug"
    assert environments.all[-1]["KUBERNETES_SERVICE_HOST"] == "10.0.0.1"


@virtual_time
async def test_a_pod_waits_for_a_volume_and_says_so_as_upstream_does() -> None:
    world = World()
    failure = MountFailed("v", NotFound('configmap "y" not found'))
    world.host.failures["set_up"] = [failure, failure]
    async with node(world, MemoryObjects()) as running:
        world.pods.apply(pod())
        await eventually(lambda: running.waiting("u1") == "ContainerCreating")
        what = 'MountVolume.SetUp failed for volume "v" : configmap "y" not found'
        assert ("web", "FailedMount", what) in world.events.all
        await eventually(lambda: running.phase("u1") == "Running", seconds=120)


class CountingHost(FakeHost):
    def __init__(self, moments: list[float], world: World) -> None:
        super().__init__()
        self._moments, self._now = moments, world.now

    async def set_up(self, pod: Pod) -> Any:
        self._moments.append(self._now().timestamp())
        return await super().set_up(pod)


@virtual_time
async def test_a_pod_is_synced_in_time_to_renew_its_token_and_forgets_it_in_the_end() -> None:
    world, objects, moments = World(), MemoryObjects(), list[float]()
    world.host = CountingHost(moments, world)
    objects.renewal = 15.0
    async with node(world, objects) as running:
        world.pods.apply(pod())
        await eventually(lambda: running.phase("u1") == "Running")
        before = len(moments)
        await eventually(lambda: len(moments) >= before + 3, seconds=50)
        world.pods.remove("u1")
        await eventually(lambda: "u1" in objects.forgotten, seconds=120)


@virtual_time
async def test_a_pod_whose_objects_have_changed_brings_its_volumes_up_to_date_at_once() -> None:
    world, objects, moments = World(), MemoryObjects(), list[float]()
    world.host = CountingHost(moments, world)
    async with node(world, objects) as running:
        world.pods.apply(pod())
        await eventually(lambda: running.phase("u1") == "Running")
        await asyncio.sleep(10)
        before = len(moments)
        objects.changed.put_nowait(frozenset(("u1", "of a pod that is gone")))
        await eventually(lambda: len(moments) > before, seconds=0.1)


@virtual_time
async def test_a_pod_that_waits_for_an_object_starts_as_soon_as_it_comes() -> None:
    world, objects = World(), MemoryObjects()
    async with node(world, objects) as running:
        world.pods.apply(pod(envFrom=[{"configMapRef": {"name": "conf"}}]))
        await eventually(lambda: running.waiting("u1") == "CreateContainerConfigError")
        await asyncio.sleep(300)  # by now it is tried seldom
        objects.config_maps["conf"] = ConfigMap(data={"level": "debug"})
        objects.changed.put_nowait(frozenset(("u1",)))
        await eventually(lambda: running.phase("u1") == "Running", seconds=0.5)


@virtual_time
async def test_what_a_pod_uses_is_kept_at_hand_until_it_has_ended() -> None:
    world, objects = World(), MemoryObjects()
    async with node(world, objects) as running:
        world.pods.apply(pod())
        await eventually(lambda: running.phase("u1") == "Running")
        assert list(objects.registered) == ["u1"]
        world.pods.apply(changed(pod(), metadata=changed(pod().metadata, deletion_timestamp=world.now())))
        await eventually(lambda: not objects.registered, seconds=120)
        assert running.status("u1") is not None  # its source has it still


# --- what is fetched


@virtual_time
async def test_only_what_a_container_wants_is_fetched_and_always_fresh() -> None:
    objects = MemoryObjects()
    objects.secrets["db"] = Secret(data={"p": b"x"})
    wanted = pod(env=[{"name": "P", "valueFrom": {"secretKeyRef": {"name": "db", "key": "p"}}}])
    env = await container_environment(objects, wanted, wanted.spec.containers[0], NodeInfo(), ())
    assert dict(env) == {"P": "x"}
    assert objects.asked == [("services", "default", True), ("secret", "db", True)]


@virtual_time
async def test_a_server_that_does_not_answer_is_not_taken_for_an_object_that_is_optional() -> None:
    objects = MemoryObjects()
    objects.away = Retry("nobody answers")
    wanted = pod(envFrom=[{"configMapRef": {"name": "conf", "optional": True}}])
    with pytest.raises(Retry, match="nobody answers"):
        await container_environment(objects, wanted, wanted.spec.containers[0], NodeInfo(), ())
