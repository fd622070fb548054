"""Stories in which something is in the way: restarts, edits, failures that last. Each was a defect once."""

import asyncio
from datetime import UTC, datetime
from typing import Any

from kit.node import World, make_node
from kit.pod_api import MemoryPods
from kit.pods import make_pod
from kit.virtual_time import virtual_time
from kit.waiting import eventually
from pykubelet.api.container import Container, ContainerPort, ResourceRequirements
from pykubelet.api.pod import Pod, PodCondition, PodReadinessGate
from pykubelet.api.quantity import parse
from pykubelet.api.struct import changed
from pykubelet.base.errors import Retry
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


@virtual_time
async def test_a_pod_whose_deadline_has_passed_does_not_run_again_after_a_restart() -> None:
    api = MemoryPods()
    world = World(api)
    async with cluster(world, api):
        api.put(pod(active_deadline_seconds=30))
        await eventually(lambda: (p := stored(api, "web")) is not None and p.status.phase == "Failed", seconds=120)
        await eventually(lambda: not world.runtime.running())
        await asyncio.sleep(10)
    async with cluster(world, api):
        for _ in range(60):
            assert not world.runtime.running()
            await asyncio.sleep(1)
    assert api.pods["default", "web"].status.phase == "Failed"


@virtual_time
async def test_a_volume_error_is_forgotten_when_it_is_mended() -> None:
    world = World()
    world.host.failures["set_up"] = [Retry("disk is away")]
    async with world.agent() as node:
        world.pods.apply(pod(init_containers=(Container(name="init", image="i"),)))
        await eventually(lambda: world.runtime.running() == ["web/init"], seconds=60)
        await eventually(lambda: node.waiting("uid-web") == "PodInitializing")


@virtual_time
async def test_containers_that_cannot_be_started_do_not_pile_up() -> None:
    world = World()
    world.runtime.failures["start_container"] = [Retry("no") for _ in range(10_000)]
    async with world.agent():
        world.pods.apply(pod())
        await asyncio.sleep(1800)
        assert len(world.runtime.seen("uid-web").containers) <= 3


@virtual_time
async def test_sidecars_and_sandbox_stop_even_when_the_main_container_cannot_be_stopped() -> None:
    world = World()
    stop = world.runtime.stop_container

    async def stuck(container_id: str, grace: float) -> None:
        if container_id.startswith("c-"):
            raise Retry("hangs")
        await stop(container_id, grace)

    async with world.agent():
        world.pods.apply(pod(init_containers=(Container(name="side", image="i", restart_policy="Always"),)))
        await eventually(lambda: len(world.runtime.running()) == 2)
        world.runtime.stop_container = stuck  # type: ignore[method-assign]
        world.pods.remove("uid-web")
        await eventually(lambda: not world.runtime.running(), seconds=120)


@virtual_time
async def test_neither_a_bug_of_the_runtime_nor_an_odd_pod_ends_the_agent() -> None:
    world = World()
    async with world.agent() as node:
        odd = pod("odd", active_deadline_seconds=10)
        late = datetime(9999, 12, 31, 23, 59, 55, tzinfo=UTC)
        world.pods.apply(changed(odd, status=changed(odd.status, start_time=late)))
        world.runtime.failures["pods"] = [OSError("a bug") for _ in range(3)]
        await asyncio.sleep(30)
        world.pods.apply(pod())
        await eventually(lambda: node.phase("uid-web") == "Running")


@virtual_time
async def test_stopping_all_pods_is_not_given_up_because_the_runtime_is_busy() -> None:
    world = World()
    async with world.agent() as node:
        world.pods.apply(pod())
        await eventually(world.runtime.running)
        world.runtime.failures["pods"] = [Retry("busy") for _ in range(5)]
        await node.agent.stop_pods()
        assert world.runtime.is_empty


@virtual_time
async def test_a_pod_with_a_deadline_is_not_looked_at_every_second() -> None:
    world = World()
    async with world.agent():
        world.pods.apply(pod(active_deadline_seconds=36_000))
        await eventually(world.runtime.running)
        before = len(world.runtime.calls)
        await asyncio.sleep(600)
        looks = [method for method, _ in world.runtime.calls[before:] if method == "observe"]
        assert len(looks) < 40


@virtual_time
async def test_a_stop_that_is_to_be_quicker_still_gives_the_time_it_has() -> None:
    world = World()
    world.runtime.stop_seconds = 8
    async with world.agent():
        leaving = pod(termination_grace_period_seconds=60)
        world.pods.apply(leaving)
        await eventually(world.runtime.running)
        for grace in (60, 30):
            meta = changed(leaving.metadata, deletion_timestamp=datetime.now(UTC), deletion_grace_period_seconds=grace)
            world.pods.apply(changed(leaving, metadata=meta))
            await asyncio.sleep(1)
        assert world.runtime.running()
        await eventually(lambda: not world.runtime.running())
        assert world.runtime.seen("uid-web").containers[0].exit_code == 143  # not killed: it has ended by itself


@virtual_time
async def test_an_agent_that_goes_while_a_pod_stops_does_not_kill_it() -> None:
    world = World()
    world.runtime.stop_seconds = 30
    async with world.agent():
        leaving = pod(termination_grace_period_seconds=60)
        world.pods.apply(leaving)
        await eventually(world.runtime.running)
        meta = changed(leaving.metadata, deletion_timestamp=datetime.now(UTC), deletion_grace_period_seconds=60)
        world.pods.apply(changed(leaving, metadata=meta))
        await asyncio.sleep(1)
    assert world.runtime.running()
