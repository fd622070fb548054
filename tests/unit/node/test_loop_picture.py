"""What flows through the agent at one moment."""

from kit.node import World
from kit.pod_api import MemoryPods
from kit.pods import make_pod
from kit.virtual_time import virtual_time
from kit.waiting import eventually
from pykubelet.base.errors import Retry
from pykubelet.node.loop_picture import loop_picture


@virtual_time
async def test_a_pod_on_its_way_is_seen_with_its_worker_and_the_call_that_it_waits_for() -> None:
    world = World()
    world.runtime.delays["run_sandbox"] = 30
    async with world.agent() as node:
        world.pods.apply(make_pod("web"))
        await eventually(lambda: any(each.what == "RunPodSandbox" for each in world.journal.under_way()))
        picture = loop_picture(node.agent, world.journal)
        assert {each.name: (each.is_ready, each.pods) for each in picture.sources} == {
            "file": (True, 0),
            "api": (True, 1),
        }
        assert picture.workers["running"] == 1
        assert [(each.what, each.name) for each in picture.work] == [("create", "web")]
        assert ("RunPodSandbox", "uid-web") in [(each.what, each.uid) for each in picture.calls]
        assert picture.handled["Said"] >= 2
        await eventually(lambda: node.phase("uid-web") == "Running", seconds=60)
        picture = loop_picture(node.agent, world.journal)
        assert not any(each.uid for each in (*picture.work, *picture.calls))


@virtual_time
async def test_a_call_that_fails_or_is_given_up_is_over() -> None:
    world = World()
    world.runtime.delays["run_sandbox"] = 1000
    async with world.agent() as node:
        world.pods.apply(make_pod("web"))
        await eventually(lambda: len(world.journal.under_way()) > 1)
        world.pods.remove("uid-web")
        await eventually(lambda: node.idle, seconds=60)
        assert not [each for each in world.journal.under_way() if each.about.uid]


@virtual_time
async def test_statuses_that_the_api_server_does_not_take_are_seen_to_wait() -> None:
    api = MemoryPods()
    world = World(api)
    async with world.agent() as node:
        api.away = lambda: Retry("it does not answer")
        world.pods.apply(api.put(make_pod("web")))
        await eventually(lambda: node.agent.statuses.queue().trying_again == 1, seconds=60)
        api.away = None
        await eventually(lambda: node.agent.statuses.queue().trying_again == 0, seconds=120)
        queue = loop_picture(node.agent, world.journal).statuses
        assert (queue.waiting, queue.sending) == (0, 0)
