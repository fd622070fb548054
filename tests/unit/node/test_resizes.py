"""Pods that ask for another size while they run, on a whole agent in virtual time."""

from collections.abc import Mapping

import pytest

from kit.node import Running, World, make_node
from kit.pods import make_pod
from kit.virtual_time import virtual_time
from kit.waiting import eventually
from pykubelet.api.container import Container, ContainerResizePolicy, ResourceRequirements
from pykubelet.api.pod import Pod, PodCondition
from pykubelet.api.quantity import parse
from pykubelet.api.struct import changed
from pykubelet.base.errors import Retry
from pykubelet.node.census import take_census
from pykubelet.pod.ports.runtime import Limits
from pykubelet.pod.resize.actions import MemoryUse
from pykubelet.pod.resize.feasibility import ResizeRules
from pykubelet.pod.resize.moments import ResizeAsked, Resized

Sizes = Mapping[str, str]
MI = 1 << 20


def resources(requests: Sizes, limits: Sizes | None = None) -> ResourceRequirements:
    return ResourceRequirements(
        requests={name: parse(text) for name, text in requests.items()},
        limits={name: parse(text) for name, text in (limits or {}).items()},
    )


SMALL = resources({"cpu": "100m", "memory": "64Mi"}, {"cpu": "200m", "memory": "128Mi"})
LARGE = resources({"cpu": "500m", "memory": "128Mi"}, {"cpu": "1", "memory": "256Mi"})


def sized(
    name: str, size: ResourceRequirements, generation: int = 1, *, restarts: tuple[str, ...] = (), priority: int = 0
) -> Pod:
    pod = make_pod(name)
    policy = tuple(ContainerResizePolicy(resource_name=each, restart_policy="RestartContainer") for each in restarts)
    container = changed(pod.spec.containers[0], resources=size, resize_policy=policy)
    return changed(
        pod,
        metadata=changed(pod.metadata, generation=generation),
        spec=changed(pod.spec, containers=(container,), restart_policy="Always", priority=priority),
    )


def condition(node: Running, uid: str, type: str) -> PodCondition | None:
    return next((each for each in node.status(uid).conditions if each.type == type), None)


async def started(world: World, node: Running, *pods: Pod) -> None:
    for pod in pods:
        world.pods.apply(pod)
    for pod in pods:
        await eventually(lambda uid=pod.metadata.uid: node.phase(uid) == "Running")  # type: ignore[misc]


def shown(node: Running, uid: str) -> ResourceRequirements | None:
    return next((each.resources for each in node.status(uid).container_statuses), None)


@virtual_time
async def test_a_running_pod_grows_and_shrinks_without_a_restart() -> None:
    world = World()
    async with world.agent() as node:
        await started(world, node, sized("web", SMALL))
        for generation, size in ((2, LARGE), (3, SMALL)):
            world.pods.apply(sized("web", size, generation))
            await eventually(lambda: shown(node, "uid-web") == size)  # noqa: B023
            status = node.status("uid-web")
            assert status.container_statuses[0].allocated_resources == size.requests
            assert status.container_statuses[0].restart_count == 0
            assert condition(node, "uid-web", "PodResizePending") is None
            assert condition(node, "uid-web", "PodResizeInProgress") is None
        assert [limits for _, limits in world.runtime.updates] == [
            Limits(memory=256 * MI),
            Limits(cpu_shares=512, cpu_quota=100_000),
            Limits(memory=128 * MI),
            Limits(cpu_shares=102, cpu_quota=20_000),
        ]
        assert world.events.reasons("web").count("ResizeCompleted") == 2
        told = [message for _, reason, message in world.events.all if reason == "ResizeCompleted"]
        assert told[0] == (
            'Pod resize completed: {"containers":[{"name":"c","resources":'
            '{"limits":{"cpu":"1","memory":"256Mi"},"requests":{"cpu":"500m","memory":"128Mi"}}}]}'
        )


@virtual_time
async def test_where_the_policy_says_so_a_container_restarts_to_have_its_size() -> None:
    world = World()
    async with world.agent() as node:
        await started(world, node, sized("web", SMALL, restarts=("memory",)))
        world.pods.apply(sized("web", LARGE, 2, restarts=("memory",)))
        await eventually(lambda: node.status("uid-web").container_statuses[0].restart_count == 1)
        await eventually(lambda: node.phase("uid-web") == "Running" and shown(node, "uid-web") == LARGE)
        assert world.runtime.updates == []
        killed = [message for _, reason, message in world.events.all if reason == "Killing"]
        assert killed == ["Container c resize requires restart"]
        assert not condition(node, "uid-web", "PodResizeInProgress")
        world.pods.apply(
            sized("web", resources({"cpu": "1", "memory": "128Mi"}, LARGE_LIMITS), 3, restarts=("memory",))
        )
        await eventually(lambda: bool(world.runtime.updates))  # what is not named goes without
        assert node.status("uid-web").container_statuses[0].restart_count == 1


LARGE_LIMITS = {"cpu": "1", "memory": "256Mi"}


@virtual_time
async def test_what_no_node_of_this_size_could_hold_is_infeasible_and_the_pod_keeps_what_it_has() -> None:
    world = World()
    async with world.agent() as node:
        await started(world, node, sized("web", SMALL))
        huge = resources({"cpu": "9", "memory": "64Mi"})
        world.pods.apply(sized("web", huge, 2))
        await eventually(lambda: condition(node, "uid-web", "PodResizePending") is not None)
        pending = condition(node, "uid-web", "PodResizePending")
        assert pending is not None
        assert (pending.status, pending.reason, pending.observed_generation) == ("True", "Infeasible", 2)
        assert pending.message == "Node didn't have enough capacity: cpu, requested: 9000, capacity: 8000"
        assert shown(node, "uid-web") == SMALL
        assert ("web", "ResizeInfeasible", f"Pod resize Infeasible: {pending.message}") in world.events.all
        world.pods.apply(sized("web", SMALL, 3))  # taken back
        await eventually(lambda: condition(node, "uid-web", "PodResizePending") is None)
        assert world.runtime.updates == []


@virtual_time
async def test_a_deferred_resize_happens_when_another_pod_leaves() -> None:
    world = World()
    async with world.agent() as node:
        await started(world, node, sized("web", resources({"cpu": "4"})), sized("other", resources({"cpu": "4"})))
        world.pods.apply(sized("web", resources({"cpu": "6"}), 2))
        await eventually(lambda: condition(node, "uid-web", "PodResizePending") is not None)
        pending = condition(node, "uid-web", "PodResizePending")
        assert pending is not None
        assert pending.reason == "Deferred"
        assert pending.message == "Node didn't have enough resource: cpu, requested: 6000, used: 4000, capacity: 8000"
        world.pods.remove("uid-other")
        await eventually(lambda: shown(node, "uid-web") == resources({"cpu": "6"}))
        assert condition(node, "uid-web", "PodResizePending") is None


@virtual_time
async def test_room_that_a_pod_gives_back_goes_to_those_who_wait_by_priority() -> None:
    world = World()
    async with world.agent() as node:
        pods = [sized(name, resources({"cpu": "2"}), priority=much) for name, much in (("low", 1), ("high", 5))]
        await started(world, node, *pods, sized("big", resources({"cpu": "4"})))
        for name, much in (("low", 1), ("high", 5)):
            world.pods.apply(sized(name, resources({"cpu": "4"}), 2, priority=much))
            await eventually(lambda: condition(node, f"uid-{name}", "PodResizePending") is not None)  # noqa: B023
        world.pods.apply(sized("big", resources({"cpu": "2"}), 2))
        await eventually(lambda: shown(node, "uid-high") == resources({"cpu": "4"}), seconds=600)
        still = condition(node, "uid-low", "PodResizePending")
        assert still is not None
        assert still.reason == "Deferred"


@virtual_time
async def test_a_limit_below_what_is_in_use_waits_until_it_is_not() -> None:
    world = World()
    async with world.agent() as node:
        await started(world, node, sized("web", LARGE))
        world.memory_use = MemoryUse(pod=200 * MI, containers={"c": 200 * MI})
        world.pods.apply(sized("web", SMALL, 2))
        await eventually(lambda: _error(node) != "")
        assert _error(node).startswith("cannot decrease memory limits: [attempting to set pod memory limit (134217728)")
        progress = condition(node, "uid-web", "PodResizeInProgress")
        assert progress is not None
        assert progress.observed_generation == 2
        assert world.runtime.updates == []
        world.memory_use = MemoryUse(pod=20 * MI, containers={"c": 20 * MI})
        await eventually(lambda: shown(node, "uid-web") == SMALL, seconds=60)
        assert condition(node, "uid-web", "PodResizeInProgress") is None


def _error(node: Running) -> str:
    progress = condition(node, "uid-web", "PodResizeInProgress")
    return progress.message if progress is not None and progress.reason == "Error" else ""


@virtual_time
async def test_what_the_runtime_refuses_is_said_and_tried_again() -> None:
    world = World()
    async with world.agent() as node:
        await started(world, node, sized("web", SMALL))
        world.runtime.failures["update_container"] = [Retry("the kernel said no")]
        world.pods.apply(sized("web", LARGE, 2))
        await eventually(lambda: _error(node) == "the kernel said no")
        await eventually(lambda: shown(node, "uid-web") == LARGE, seconds=60)
        assert node.status("uid-web").container_statuses[0].restart_count == 0


@virtual_time
async def test_sidecars_are_resized_and_other_init_containers_are_not() -> None:
    world = World()
    pod = sized("web", SMALL)
    setup = Container(name="setup", image="busybox:1.36", resources=SMALL)
    helper = Container(name="helper", image="busybox:1.36", resources=SMALL, restart_policy="Always")
    pod = changed(pod, spec=changed(pod.spec, init_containers=(setup, helper)))
    async with world.agent() as node:
        world.pods.apply(pod)
        await eventually(lambda: "web/setup" in world.runtime.running())
        world.runtime.exit("uid-web", "setup")
        await eventually(lambda: node.phase("uid-web") == "Running")
        grown = changed(
            pod,
            metadata=changed(pod.metadata, generation=2),
            spec=changed(pod.spec, init_containers=(setup, changed(helper, resources=LARGE))),
        )
        world.memory_use = MemoryUse(pod=MI, containers={"c": MI, "helper": MI})
        world.pods.apply(grown)
        await eventually(lambda: node.status("uid-web").init_container_statuses[1].resources == LARGE)
        assert {container_id.split("-")[0] for container_id, _ in world.runtime.updates} == {"helper"}
        assert node.status("uid-web").init_container_statuses[0].resources == SMALL


@virtual_time
async def test_without_the_feature_or_the_runtimes_help_a_pod_keeps_its_size() -> None:
    world = World()
    world.resize_rules = ResizeRules(refusal="there are no control groups; run it as root")
    async with world.agent() as node:
        await started(world, node, sized("web", SMALL))
        world.pods.apply(sized("web", LARGE, 2))
        await eventually(lambda: condition(node, "uid-web", "PodResizePending") is not None)
        pending = condition(node, "uid-web", "PodResizePending")
        assert pending is not None
        assert pending.message.endswith("not possible on this node: there are no control groups; run it as root")
        assert "ResizeInfeasible" in world.events.reasons("web")
    assert world.runtime.updates == []


KILLED = ("nothing is written down", "the allocation is", "one container was told", "everything but its record")


@pytest.mark.parametrize("moment", KILLED)
@pytest.mark.parametrize("restarts", [(), ("memory", "cpu")], ids=["in place", "restarts"])
def test_an_agent_that_is_killed_on_the_way_is_followed_by_one_that_goes_on(
    moment: str, restarts: tuple[str, ...]
) -> None:
    @virtual_time
    async def story() -> None:
        world = World()
        async with world.agent() as node:
            await started(world, node, sized("web", SMALL, restarts=restarts))
            world.allocations.settle()
            if moment == "nothing is written down":
                world.allocations.is_full = True
            elif moment == "one container was told":
                world.runtime.delays["update_container"] = 5.0
            elif moment == "the allocation is":
                world.runtime.delays |= {"update_container": 1000.0, "stop_container": 1000.0}
            world.pods.apply(sized("web", LARGE, 2, restarts=restarts))
            if moment == "one container was told" and not restarts:
                await eventually(lambda: len(world.runtime.updates) == 1)
            elif moment == "everything but its record" and not restarts:
                await eventually(lambda: len(world.runtime.updates) == 2)
            else:
                await eventually(lambda: node.agent.workers.workers["uid-web"].wish.pod.metadata.generation == 2)
        world.allocations.is_full = False
        world.runtime.delays.clear()
        async with world.agent() as node:
            await eventually(lambda: node.phase("uid-web") == "Running" and shown(node, "uid-web") == LARGE, seconds=60)
            assert condition(node, "uid-web", "PodResizeInProgress") is None
            held = world.runtime.seen("uid-web").newest("c")
            assert held is not None
            assert held.limits is not None
            assert (held.limits.memory, held.limits.cpu_quota) == (256 * MI, 100_000)
            assert held.attempt == (1 if restarts else 0)

    story()


@virtual_time
async def test_an_agent_that_knows_nothing_of_a_containers_size_restarts_nothing() -> None:
    world = World()
    async with world.agent() as node:
        await started(world, node, sized("web", SMALL, restarts=("memory", "cpu")))
    world.allocations = type(world.allocations)()  # as an agent without this feature leaves a node
    async with world.agent() as node:
        await eventually(lambda: node.phase("uid-web") == "Running" and bool(world.runtime.updates))
        assert node.status("uid-web").container_statuses[0].restart_count == 0
        assert condition(node, "uid-web", "PodResizeInProgress") is None


@virtual_time
async def test_a_pod_keeps_what_an_earlier_agent_gave_it_when_the_node_has_become_smaller_than_its_wish() -> None:
    world = World()
    async with world.agent() as node:
        await started(world, node, sized("web", resources({"cpu": "4"})), sized("other", resources({"cpu": "4"})))
        world.pods.apply(sized("web", resources({"cpu": "6"}), 2))
        await eventually(lambda: condition(node, "uid-web", "PodResizePending") is not None)
        world.allocations.settle()
    async with world.agent() as node:
        await eventually(lambda: node.phase("uid-web") == node.phase("uid-other") == "Running")
        await eventually(lambda: condition(node, "uid-web", "PodResizePending") is not None)
        assert shown(node, "uid-web") == resources({"cpu": "4"})
    world.node = make_node(cpu="16")
    async with world.agent() as node:
        await eventually(lambda: shown(node, "uid-web") == resources({"cpu": "6"}))


@virtual_time
async def test_what_was_given_is_forgotten_with_the_pod() -> None:
    world = World()
    async with world.agent() as node:
        await started(world, node, sized("web", SMALL))
        world.pods.remove("uid-web")
        await eventually(lambda: node.idle)
        world.allocations.settle()
    assert world.allocations.on_disk.allocated == world.allocations.on_disk.actuated == {}


@virtual_time
async def test_what_is_asked_for_and_what_becomes_of_it_is_noted_and_counted() -> None:
    world = World()
    told: list[object] = []
    world.journal.read_by(lambda noted: told.append(noted.moment))
    async with world.agent() as node:
        await started(world, node, sized("web", SMALL))
        world.pods.apply(sized("web", LARGE, 2))
        await eventually(lambda: shown(node, "uid-web") == LARGE)
        world.pods.apply(sized("web", resources({"cpu": "9", "memory": "128Mi"}, {"memory": "256Mi"}), 3))
        await eventually(lambda: condition(node, "uid-web", "PodResizePending") is not None)
        counted = take_census(node.agent)
        assert (counted.pending_resizes, counted.resizes_in_progress) == ({"infeasible": 1}, 0)
    assert {(each.resource, each.requirement, each.operation) for each in told if isinstance(each, ResizeAsked)} == {
        ("cpu", "requests", "increase"),
        ("cpu", "limits", "increase"),
        ("memory", "requests", "increase"),
        ("memory", "limits", "increase"),
        ("cpu", "limits", "remove"),
    }
    stages = [(each.stage, each.seconds is not None) for each in told if isinstance(each, Resized)]
    assert stages == [("Begun", False), ("Told", True), ("Completed", False), ("Infeasible", False)]
