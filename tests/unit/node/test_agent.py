"""The agent as others in the process see it."""

from kit.node import World
from kit.pod_api import MemoryPods
from kit.pods import make_pod
from kit.virtual_time import virtual_time
from kit.waiting import eventually
from pykubelet.api.struct import changed
from unit.node.test_api_stories import cluster, static


@virtual_time
async def test_a_pod_is_found_by_its_name_and_uid_for_as_long_as_anything_of_it_is_left() -> None:
    world = World()
    world.runtime.stop_seconds = 20
    web = make_pod("web")
    async with world.agent() as node:
        world.pods.apply(changed(web, spec=changed(web.spec, restart_policy="Always")))
        await eventually(lambda: node.phase("uid-web") == "Running")
        find = node.agent.find_pod
        for uid in ("", "uid-web"):
            found = find("default", "web", uid)
            assert found is not None
            assert found.status.phase == "Running"
        assert find("default", "web", "other") is find("other", "web") is find("other", "web", "uid-web") is None
        world.pods.remove("uid-web")
        await eventually(lambda: node.agent.table.get("uid-web") is None)
        assert find("default", "web") is not None  # it is still stopping
        assert find("default", "web", "uid-web") is not None
        await eventually(lambda: node.idle)
        assert find("default", "web") is None


@virtual_time
async def test_a_mirror_pods_uid_stands_for_its_static_pod() -> None:
    api = MemoryPods()
    world = World(api)
    async with cluster(world, api) as node:
        world.files.apply(static())
        await eventually(lambda: node.agent.table.mirrors())
        (mirror,) = node.agent.table.mirrors()
        found = node.agent.find_pod("default", mirror.metadata.name, mirror.metadata.uid)
        assert found is not None
        assert found.metadata.uid == static().metadata.uid


@virtual_time
async def test_a_static_pod_whose_manifest_goes_and_comes_back_is_restarted_and_its_restarts_are_counted() -> None:
    world = World()
    always = changed(static(), spec=changed(static().spec, restart_policy="Always"))
    uid = always.metadata.uid
    async with world.agent() as node:
        for restarts in (0, 1, 2):
            world.files.apply(always)
            await eventually(lambda: node.phase(uid) == "Running" and bool(world.runtime.running()), seconds=60)
            await eventually(lambda: node.status(uid).container_statuses[0].restart_count == restarts)  # noqa: B023
            world.files.remove(uid)
