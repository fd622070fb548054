"""Images in whole stories: shared pulls, policies, and names that are none."""

import asyncio

from kit.node import World
from kit.pods import make_pod
from kit.virtual_time import virtual_time
from kit.waiting import eventually
from pykubelet.api.pod import Pod
from pykubelet.api.struct import changed


def pod(name: str, image: str = "app:1", policy: str = "IfNotPresent") -> Pod:
    made = make_pod(name, image=image)
    container = changed(made.spec.containers[0], image_pull_policy=policy)
    return changed(made, spec=changed(made.spec, restart_policy="Always", containers=(container,)))


def pulls(world: World) -> int:
    return sum(method == "pull_image" for method, _ in world.runtime.calls)


@virtual_time
async def test_pods_that_wait_for_one_image_share_one_pull() -> None:
    for policy in ("IfNotPresent", "Always"):
        world = World()
        world.runtime.delays["pull_image"] = 30
        async with world.agent():
            for number in range(20):
                world.pods.apply(pod(f"p{number}", policy=policy))
            await eventually(lambda w=world: len(w.runtime.running()) == 20, seconds=120)  # type: ignore[misc]
            assert pulls(world) == 1


@virtual_time
async def test_a_pod_that_is_stopped_while_it_pulls_takes_the_pull_from_nobody() -> None:
    world = World()
    world.runtime.delays["pull_image"] = 30
    async with world.agent() as node:
        world.pods.apply(pod("first"))
        await asyncio.sleep(5)
        world.pods.apply(pod("second"))
        await asyncio.sleep(5)
        world.pods.remove("uid-first")
        await eventually(lambda: "uid-first" not in node.agent.workers.workers, seconds=5)
        await eventually(lambda: world.runtime.running() == ["second/c"], seconds=60)


@virtual_time
async def test_an_image_that_is_here_is_not_pulled_unless_the_policy_says_always() -> None:
    world = World()
    async with world.agent():
        world.pods.apply(pod("first"))
        await eventually(lambda: len(world.runtime.running()) == 1)
        world.pods.apply(pod("second"))
        await eventually(lambda: len(world.runtime.running()) == 2)
        assert pulls(world) == 1
        assert ("second", "Pulled", 'Container image "app:1" already present on machine') in world.events.all
        world.pods.apply(pod("third", policy="Always"))
        await eventually(lambda: len(world.runtime.running()) == 3)
        assert pulls(world) == 2


@virtual_time
async def test_what_must_not_be_pulled_and_is_not_here_waits_and_says_so() -> None:
    world = World()
    async with world.agent() as node:
        world.pods.apply(pod("web", policy="Never"))
        await eventually(lambda: node.waiting("uid-web") == "ErrImageNeverPull")
        await world.runtime.pull_image("app:1")
        await eventually(lambda: node.phase("uid-web") == "Running", seconds=60)


@virtual_time
async def test_a_name_that_is_no_image_is_told_from_one_that_is_not_there() -> None:
    world = World()
    async with world.agent() as node:
        world.pods.apply(pod("web", image="Not An Image"))
        await eventually(lambda: node.waiting("uid-web") == "InvalidImageName")
        assert pulls(world) == 0
