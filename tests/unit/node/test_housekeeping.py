"""What nobody wants any more is found without asking the runtime, and nothing is taken for it that is not."""

import asyncio

from kit.node import World
from kit.pods import make_pod
from kit.virtual_time import virtual_time
from kit.waiting import eventually
from pykubelet.api.pod import Pod
from pykubelet.api.struct import changed
from pykubelet.base.errors import Retry
from pykubelet.node.pleg import RELIST_WITH_EVENTS
from pykubelet.pod.ports.runtime import ContainerConfig, SandboxConfig


def pod(name: str) -> Pod:
    made = make_pod(name)
    return changed(made, spec=changed(made.spec, restart_policy="Always"))


def lists(world: World) -> int:
    return [what for what, _ in world.runtime.calls].count("pods")


def removed(world: World) -> list[str]:
    return [about for what, about in world.runtime.calls if what in ("remove_container", "stop_container")]


@virtual_time
async def test_a_quiet_node_is_listed_once_in_ten_seconds_by_nobody_but_pleg() -> None:
    world = World()
    async with world.agent() as node:
        world.pods.apply(pod("web"))
        await eventually(lambda: node.phase("uid-web") == "Running")
        await asyncio.sleep(30)
        world.runtime.calls.clear()
        await asyncio.sleep(100)
        assert lists(world) == 100 / RELIST_WITH_EVENTS


@virtual_time
async def test_the_start_of_a_pod_needs_no_look_between_its_first_and_its_last() -> None:
    world = World()
    async with world.agent() as node:
        await asyncio.sleep(5)
        world.runtime.calls.clear()
        world.pods.apply(pod("web"))
        await eventually(lambda: node.phase("uid-web") == "Running")
        steps = [what for what, about in world.runtime.calls if what not in ("pods", "status")]
        expected = ["observe", "run_sandbox", "image", "pull_image", "create_container", "start_container", "observe"]
        assert steps[: len(expected)] == expected


@virtual_time
async def test_what_somebody_else_has_left_in_the_runtime_is_removed() -> None:
    world = World()
    async with world.agent() as node:
        await asyncio.sleep(RELIST_WITH_EVENTS + 5)
        theirs = make_pod("theirs")
        sandbox = await world.runtime.run_sandbox(SandboxConfig(pod=theirs))
        await world.runtime.start_container(
            await world.runtime.create_container(sandbox.id, ContainerConfig(name="c", image="i"))
        )
        await eventually(lambda: world.runtime.is_empty and node.idle)


@virtual_time
async def test_a_pod_that_has_just_been_removed_is_not_taken_for_one_that_belongs_to_nobody() -> None:
    world = World()
    async with world.agent() as node:
        world.pods.apply(pod("web"))
        await eventually(lambda: node.phase("uid-web") == "Running")
        await node.agent.pleg.look()
        world.pods.remove("uid-web")
        await eventually(lambda: node.idle)
        told = len(world.journal.of("uid-web"))
        await asyncio.sleep(RELIST_WITH_EVENTS - 1)
        assert len(world.journal.of("uid-web")) == told  # nobody has lived again to remove it once more


@virtual_time
async def test_a_pod_that_started_after_the_last_look_is_left_alone_and_so_is_one_that_came_back() -> None:
    world = World()
    world.runtime.has_events = True
    async with world.agent() as node:
        await asyncio.sleep(RELIST_WITH_EVENTS + 1)
        world.pods.apply(pod("web"))
        await eventually(lambda: node.phase("uid-web") == "Running")
        assert "uid-web" not in node.agent.pleg.seen
        await asyncio.sleep(5)
        assert removed(world) == []
        await node.agent.pleg.look()
        world.pods.remove("uid-web")
        await eventually(lambda: node.idle)
        world.pods.apply(pod("web"))
        await eventually(lambda: node.phase("uid-web") == "Running")
        world.runtime.calls.clear()
        await asyncio.sleep(60)
        assert removed(world) == []
        assert world.runtime.running() == ["web/c"]


@virtual_time
async def test_while_the_runtime_cannot_be_seen_nothing_is_cleared_away() -> None:
    world = World()
    world.host.folders.add("uid-left")
    world.runtime.failures["pods"] = [Retry("busy")] * 20
    async with world.agent():
        await asyncio.sleep(15)
        assert world.host.folders == {"uid-left"}
        await eventually(lambda: not world.host.folders)
