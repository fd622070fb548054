"""What becomes of pods that come, change and go at awkward moments: stories in virtual time."""

import asyncio
from typing import Any

from kit.node import World, make_node
from kit.pod_api import MemoryPods
from kit.pods import make_pod
from kit.virtual_time import virtual_time
from kit.waiting import eventually
from pykubelet.api.container import Container, ContainerPort, ResourceRequirements
from pykubelet.api.pod import (
    ContainerState,
    ContainerStateRunning,
    ContainerStatus,
    Pod,
    PodCondition,
    PodReadinessGate,
    PodStatus,
)
from pykubelet.api.quantity import parse
from pykubelet.api.struct import changed
from pykubelet.pod.lifecycle.static_pod import static_pod
from unit.node.test_api_stories import cluster, stored


def pod(name: str = "web", *, uid: str = "", **fields: Any) -> Pod:
    made = make_pod(name, uid=uid)
    return changed(made, spec=changed(made.spec, **({"restart_policy": "Always"} | fields)))


def hungry(name: str, cpu: str, **fields: Any) -> Pod:
    resources = ResourceRequirements(requests={"cpu": parse(cpu)})
    return pod(name, containers=(Container(name="c", image="i", resources=resources),), **fields)


def on_port(uid: str) -> Pod:
    port = ContainerPort(container_port=80, host_port=8080)
    return static_pod(pod(containers=(Container(name="c", image="i", ports=(port,)),)), uid, "n1", "file")


@virtual_time
async def test_an_edited_static_pod_is_not_turned_away_because_of_itself() -> None:
    for make in (on_port, lambda uid: static_pod(hungry("web", "2"), uid, "n1", "file")):
        world = World()
        world.node = make_node(cpu="2")
        world.runtime.stop_seconds = 2
        async with world.agent():
            world.files.apply(make("u1"))
            await eventually(world.runtime.running)
            world.files.remove("u1")
            world.files.apply(make("u2"))
            await eventually(lambda w=world: w.runtime.seen("u2").is_running, seconds=60)  # type: ignore[misc]
            assert world.runtime.running() == ["web-n1/c"]


@virtual_time
async def test_an_edited_static_pod_displaces_no_innocent() -> None:
    world = World()
    world.node = make_node(cpu="2")
    world.runtime.stop_seconds = 2
    async with world.agent():
        world.files.apply(static_pod(hungry("web", "1"), "u1", "n1", "file"))
        world.pods.apply(hungry("innocent", "1"))
        await eventually(lambda: len(world.runtime.running()) == 2)
        world.files.remove("u1")
        world.files.apply(static_pod(hungry("web", "1"), "u2", "n1", "file"))
        await asyncio.sleep(60)
        assert world.runtime.running() == ["innocent/c", "web-n1/c"]


@virtual_time
async def test_a_pod_that_was_replaced_while_the_agent_was_away_is_stopped() -> None:
    world = World()
    async with world.agent():
        world.pods.apply(pod(uid="u1"))
        await eventually(world.runtime.running)
    world.pods.remove("u1")
    world.checkpoint.pods.clear()
    world.pods.apply(pod(uid="u2"))
    async with world.agent():
        await eventually(lambda: world.runtime.seen("u1").is_gone and world.runtime.seen("u2").is_running, seconds=60)


@virtual_time
async def test_restarts_are_counted_on_when_neither_the_runtime_nor_a_log_remembers_them() -> None:
    world = World()
    running = ContainerState(running=ContainerStateRunning())
    told = ContainerStatus(name="c", state=running, restart_count=3, image="i", image_id="", container_id="fake://gone")
    world.pods.apply(changed(pod(uid="u1"), status=PodStatus(phase="Running", container_statuses=(told,))))
    async with world.agent() as node:
        await eventually(world.runtime.running)
        await eventually(lambda: node.status("u1").container_statuses[0].state.running is not None)
        assert node.status("u1").container_statuses[0].restart_count == 4


@virtual_time
async def test_a_running_pod_that_is_turned_away_after_a_restart_is_stopped() -> None:
    world = World()
    async with world.agent():
        world.pods.apply(pod())
        await eventually(world.runtime.running)
    world.node = make_node(pods="0")
    async with world.agent() as node:
        await eventually(lambda: node.phase("uid-web") == "Failed" and not world.runtime.running(), seconds=60)


@virtual_time
async def test_a_readiness_gate_that_others_open_makes_the_pod_ready() -> None:
    api = MemoryPods()
    world = World(api)
    async with cluster(world, api):
        api.put(pod(readiness_gates=(PodReadinessGate(condition_type="lb"),)))
        await eventually(lambda: (p := stored(api, "web")) is not None and p.status.phase == "Running")
        shown = stored(api, "web")
        assert shown is not None
        opened = (*shown.status.conditions, PodCondition(type="lb", status="True"))
        api.put(changed(shown, status=changed(shown.status, conditions=opened)))
        await eventually(
            lambda: {c.type: c.status for c in api.pods["default", "web"].status.conditions}["Ready"] == "True"
        )


@virtual_time
async def test_a_static_pod_that_comes_back_while_it_is_removed_runs_and_is_counted() -> None:
    for policy in ("Always", "Never"):
        world = World()
        world.runtime.stop_seconds = 5
        back = static_pod(hungry("web", "2", restart_policy=policy), "u1", "n1", "file")
        async with world.agent() as node:
            world.files.apply(back)
            await eventually(world.runtime.running)
            world.files.remove("u1")
            await asyncio.sleep(1)
            world.files.apply(back)
            await asyncio.sleep(60)
            assert world.runtime.running() == ["web-n1/c"]
            assert node.agent.handlers.usage.used("cpu") == 2000
