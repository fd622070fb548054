"""What a new agent finds when the one before it was killed in the middle of its work."""

from kit.node import World
from kit.pods import make_pod
from kit.virtual_time import virtual_time
from kit.waiting import eventually
from pykubelet.api.struct import changed
from pykubelet.pod.observed import State
from pykubelet.pod.ports.runtime import ContainerConfig


@virtual_time
async def test_a_container_that_came_to_run_only_after_another_was_started_in_its_place_is_ended() -> None:
    world = World()
    made = make_pod("web", uid="u1")
    async with world.agent():
        world.pods.apply(changed(made, spec=changed(made.spec, restart_policy="Always")))
        await eventually(world.runtime.running)
    seen = world.runtime.seen("u1")
    [first] = seen.containers
    again = ContainerConfig(name="c", image="i", attempt=1, annotations={"io.kubernetes.container.hash": first.hash})
    second = await world.runtime.create_container(seen.sandboxes[0].id, again)
    await world.runtime.start_container(second)
    assert world.runtime.running() == ["web/c", "web/c"]
    async with world.agent():
        await eventually(lambda: world.runtime.running() == ["web/c"])
    [kept] = [each for each in world.runtime.seen("u1").containers if each.state is State.RUNNING]
    assert kept.id == second
