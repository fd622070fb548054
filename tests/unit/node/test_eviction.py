"""A node that runs short, from the look at what it has left to what becomes of its pods."""

import asyncio
import logging
from collections.abc import Iterable
from typing import Any

import pytest

from kit.node import Running, World
from kit.pods import make_pod
from kit.virtual_time import virtual_time
from kit.waiting import eventually
from pykubelet.api.container import Container, ResourceRequirements
from pykubelet.api.pod import Pod
from pykubelet.api.quantity import parse
from pykubelet.api.struct import changed
from pykubelet.base.errors import Retry
from pykubelet.node.eviction import EvictionParts
from pykubelet.node.image_gc import Look
from pykubelet.pod import moments as m
from pykubelet.pod.eviction.thresholds import EvictionSettings, Threshold, parse_thresholds
from pykubelet.pod.stats.stats import Disk, Memory, NodeReading, PodReading, Usage

MI = 1 << 20


class Machine:
    """What there is left in MiB of a thousand, and what pods use in MiB, by name."""

    def __init__(self) -> None:
        self.memory, self.disk, self.pids = 1000, 1000, 1000
        self.used: dict[str, int] = {}
        self.gives_back = True
        """Whether what a pod used is there again when it has gone."""
        self.looks = 0
        self.fault: Exception | None = None
        self.hangs = asyncio.Event()
        self.hangs.set()
        self.world: World | None = None

    async def node(self) -> NodeReading:
        self.looks += 1
        if self.fault is not None:
            raise self.fault
        disk = Disk(at=1, device="a", capacity=1000 * MI, available=self.disk * MI)
        memory = Memory(working_set=(1000 - self.memory) * MI, limit=1000 * MI)
        usage = Usage(at=1, memory=memory)
        return NodeReading(usage=usage, disk=disk, images=disk, max_pid=1000, tasks=1000 - self.pids)

    async def pods(self, *, files: bool) -> tuple[PodReading, ...]:
        await self.hangs.wait()
        return tuple(
            PodReading(
                uid=f"uid-{name}",
                name=name,
                namespace="default",
                created_at=None,
                group="",
                usage=Usage(at=1, memory=Memory(working_set=used * MI), threads=used),
            )
            for name, used in self.used.items()
        )


class Bell:
    def __init__(self) -> None:
        self.rung = asyncio.Event()
        self.is_closed = False

    def expect(self, node: NodeReading, thresholds: Iterable[Threshold]) -> None:
        pass

    async def wait(self) -> None:
        await self.rung.wait()
        self.rung.clear()

    def close(self) -> None:
        self.is_closed = True


def settings(hard: dict[str, str], **more: Any) -> EvictionSettings:
    said = {"soft": {}, "graces": {}, "reclaims": {}, **{name: more.pop(name) for name in [*more] if name in SAID}}
    return EvictionSettings(thresholds=parse_thresholds(hard, **said, for_allocatable=False), **more)


SAID = ("soft", "graces", "reclaims")
MEMORY = settings({"memory.available": "100Mi"})


def short_of(how: EvictionSettings, **parts: Any) -> tuple[World, Machine]:
    world, machine = World(), Machine()
    machine.world = world
    world.eviction = EvictionParts(settings=how, stats=machine, recorder=world.events, **parts)
    return world, machine


def pod(name: str, request: str = "", **spec: Any) -> Pod:
    made = make_pod(name)
    requests = {"memory": parse(request)} if request else {}
    container = Container(name="c", image="i", resources=ResourceRequirements(requests=requests))
    return changed(made, spec=changed(made.spec, restart_policy="Always", containers=(container,), **spec))


def once(name: str) -> Pod:
    made = pod(name)
    return changed(made, spec=changed(made.spec, restart_policy="Never"))


async def running(node: Running, world: World, *pods: Pod) -> None:
    for each in pods:
        world.pods.apply(each)
    await eventually(lambda: all(node.phase(each.metadata.uid) == "Running" for each in pods))


def ended(node: Running, *names: str) -> list[str]:
    return [name for name in names if node.phase(f"uid-{name}") == "Failed"]


def has_gone(node: Running, name: str) -> bool:
    return node.agent.workers.workers[f"uid-{name}"].released.is_set()


@virtual_time
async def test_the_hungry_go_one_at_a_time_until_there_is_enough_and_the_polite_stay() -> None:
    world, machine = short_of(MEMORY)
    async with world.agent() as node:
        told: list[tuple[str, ...]] = []
        assert node.agent.eviction is not None
        node.agent.eviction.on_change = lambda: told.append(node.agent.pressures())
        await running(node, world, pod("hungry", "10Mi"), pod("polite", "200Mi"), pod("greedy", "10Mi"))
        machine.used, machine.memory = {"hungry": 300, "polite": 150, "greedy": 400}, 50
        await eventually(lambda: ended(node, "hungry", "polite", "greedy") == ["greedy"], seconds=15)
        await eventually(lambda: ended(node, "hungry", "polite", "greedy") == ["hungry", "greedy"], seconds=5)
        machine.memory, machine.used = 750, {"polite": 150}
        await asyncio.sleep(60)
        assert ended(node, "hungry", "polite", "greedy") == ["hungry", "greedy"]
        assert node.agent.pressures() == ("MemoryPressure",), "for five minutes after"
        await eventually(lambda: node.agent.pressures() == (), seconds=300)
        assert told == [("MemoryPressure",), ()]
        status = node.status("uid-greedy")
        expected = "The node was low on resource: memory. Threshold quantity: 100Mi, available: 50Mi. "
        assert (status.reason, status.message) == ("Evicted", expected)
        target = next(each for each in status.conditions if each.type == "DisruptionTarget")
        assert (target.status, target.reason, target.message) == ("True", "TerminationByKubelet", expected)
    assert ("greedy", "Evicted", expected) in world.events.all
    assert world.events.annotations["greedy", "Evicted"]["starved_resource"] == "memory"
    assert ("", "EvictionThresholdMet", "Attempting to reclaim memory") in world.events.all
    noted = [each.moment for each in world.journal.of("uid-greedy")]
    assert [each.signal for each in noted if isinstance(each, m.Evicted)] == ["memory.available"]
    assert [(each.by, each.grace) for each in noted if isinstance(each, m.StopAsked)] == [("evicted", 1)]


@virtual_time
async def test_not_all_pods_go_at_once_although_nothing_is_won_back() -> None:
    world, machine = short_of(MEMORY)
    world.runtime.stop_seconds = 5
    async with world.agent() as node:
        names = [f"p{number}" for number in range(6)]
        await running(node, world, *map(pod, names))
        machine.used, machine.memory = dict.fromkeys(names, 50), 0
        await eventually(lambda: "Evicted" in {reason for _, reason, _ in world.events.all}, seconds=15)
        for _ in range(40):
            leaving = [name for name in names if "Evicted" in world.events.reasons(name) and not has_gone(node, name)]
            assert len(leaving) <= 1
            await asyncio.sleep(0.5)


@virtual_time
async def test_a_pod_that_never_ends_is_told_once_and_holds_the_others_up_for_forty_seconds() -> None:
    world, machine = short_of(MEMORY)
    async with world.agent() as node:
        await running(node, world, pod("stuck"), pod("other"))
        world.runtime.delays["stop_container"] = 10_000
        machine.used, machine.memory = {"stuck": 500, "other": 5}, 0
        await eventually(lambda: "Evicted" in world.events.reasons("stuck"), seconds=15)
        told = asyncio.get_running_loop().time()
        await eventually(lambda: "Evicted" in world.events.reasons("other"), seconds=60)
        assert 40 <= asyncio.get_running_loop().time() - told <= 52
        await asyncio.sleep(100)
        assert world.events.reasons("stuck").count("Evicted") == 1


@virtual_time
async def test_critical_and_static_pods_are_spared_and_one_that_stops_anyway_hurries() -> None:
    world, machine = short_of(MEMORY)
    async with world.agent() as node:
        world.files.apply(pod("static"))
        slow = pod("slow", termination_grace_period_seconds=3000)
        await running(node, world, pod("critical", priority=2_000_000_000), slow)
        await eventually(lambda: node.phase("uid-static") == "Running")
        world.runtime.stop_seconds = 2500
        leaving = changed(slow.metadata, deletion_timestamp=world.now(), deletion_grace_period_seconds=3000)
        world.pods.apply(changed(slow, metadata=leaving))
        machine.used, machine.memory = {"static": 500, "critical": 400, "slow": 5}, 0
        await eventually(lambda: "Evicted" in world.events.reasons("slow"), seconds=30)
        await asyncio.sleep(120)
        assert (node.phase("uid-static"), node.phase("uid-critical")) == ("Running", "Running")
    stops = [each.moment for each in world.journal.of("uid-slow") if isinstance(each.moment, m.StopAsked)]
    assert [each.grace for each in stops] == [3000, 1]


@virtual_time
async def test_a_soft_threshold_gives_time_first_to_the_node_then_to_the_pod() -> None:
    how = settings({}, soft={"pid.available": "10%"}, graces={"pid.available": "1m"}, longest_grace=20)
    world, machine = short_of(how)
    async with world.agent() as node:
        await running(
            node,
            world,
            pod("patient", termination_grace_period_seconds=5),
            pod("slow", termination_grace_period_seconds=90),
        )
        machine.used, machine.pids = {"patient": 500, "slow": 600}, 20
        await eventually(lambda: node.agent.pressures() == ("PIDPressure",), seconds=12)
        await asyncio.sleep(45)
        assert not ended(node, "patient", "slow")
        await eventually(lambda: ended(node, "slow") == ["slow"], seconds=50)
        await eventually(lambda: ended(node, "patient") == ["patient"], seconds=50)
    for name, grace in (("slow", 20), ("patient", 5)):
        stops = [each.moment for each in world.journal.of(f"uid-{name}") if isinstance(each.moment, m.StopAsked)]
        assert [each.grace for each in stops] == [grace]


@virtual_time
async def test_images_and_dead_containers_go_first_and_no_pod_if_that_is_enough() -> None:
    cleared: list[int] = []

    async def remove_images(look: Look) -> None:
        await look()
        cleared.append(machine.disk)
        machine.disk += 100

    world, machine = short_of(
        settings({"nodefs.available": "100Mi"}, reclaims={"nodefs.available": "150Mi"}), remove_images=remove_images
    )
    async with world.agent() as node:
        await running(node, world, pod("web"), once("job"))
        world.files.apply(once("static"))
        await eventually(lambda: node.phase("uid-static") == "Running")
        for name in ("job", "static"):
            world.runtime.exit(f"uid-{name}", "c", 0)
            await eventually(lambda name=name: node.phase(f"uid-{name}") == "Succeeded" and has_gone(node, name))  # type: ignore[misc]
        machine.disk = 160
        await asyncio.sleep(30)
        assert cleared == [], "what is to be won back counts only once it has begun"
        machine.disk = 99
        await eventually(lambda: cleared == [99, 199], seconds=25)
        await asyncio.sleep(30)
        assert node.phase("uid-web") == "Failed", "299 are enough, 199 were not"
        machine.disk = 150
        await asyncio.sleep(30)
        assert cleared == [99, 199], "there is enough: nothing has begun anew"
    assert world.runtime.seen("uid-job").containers == ()
    assert world.runtime.seen("uid-static").containers != (), "it would run once more"


@virtual_time
async def test_clearing_away_may_be_enough() -> None:
    async def remove_images(look: Look) -> None:
        machine.disk = 900

    world, machine = short_of(settings({"imagefs.available": "15%"}), remove_images=remove_images)
    async with world.agent() as node:
        await running(node, world, pod("web"))
        machine.disk = 100
        await eventually(lambda: node.agent.pressures() == ("DiskPressure",), seconds=15)
        await asyncio.sleep(60)
        assert node.phase("uid-web") == "Running"
    assert ("", "EvictionThresholdMet", "Attempting to reclaim ephemeral-storage") in world.events.all


@virtual_time
async def test_clearing_away_that_fails_or_never_ends_does_not_keep_the_node_short() -> None:
    tries = 0

    async def remove_images(look: Look) -> None:
        nonlocal tries
        tries += 1
        if tries == 1:
            await asyncio.Event().wait()
        raise Retry("the runtime is away")

    world, machine = short_of(settings({"imagefs.available": "15%"}), remove_images=remove_images)
    async with world.agent() as node:
        await running(node, world, pod("web"), pod("other"))
        machine.disk = 10
        await eventually(lambda: len(ended(node, "web", "other")) == 1, seconds=80)
        await eventually(lambda: len(ended(node, "web", "other")) == 2, seconds=10)


@virtual_time
async def test_nobody_is_ended_on_a_guess() -> None:
    """Whoever measures fails, or never answers: the node says so, looks again, and ends nobody."""
    world, machine = short_of(MEMORY)
    async with world.agent() as node:
        await running(node, world, pod("web"))
        machine.memory, machine.fault = 0, Retry("nobody there")
        await asyncio.sleep(100)
        machine.fault = None
        machine.hangs.clear()
        await asyncio.sleep(200)
        assert node.agent.pressures() == ("MemoryPressure",)
        assert node.phase("uid-web") == "Running"
        machine.used = {"web": 1}
        machine.hangs.set()
        await eventually(lambda: node.phase("uid-web") == "Failed", seconds=15)


@virtual_time
async def test_a_threshold_above_all_there_is_ends_nobody(caplog: pytest.LogCaptureFixture) -> None:
    world, _ = short_of(settings({"pid.available": "1001"}))
    async with world.agent() as node:
        await running(node, world, pod("web"))
        with caplog.at_level(logging.WARNING):
            await asyncio.sleep(100)
        assert (node.phase("uid-web"), node.agent.pressures()) == ("Running", ())
    told = [each.getMessage() for each in caplog.records if "pid.available" in each.getMessage()]
    assert (
        told[0]
        == "evictionHard or evictionSoft: pid.available is above all there is (1000), and does not count: lower it"
    )
    assert len(told) <= 2, "once a minute"


@virtual_time
async def test_the_kernels_word_is_heard_at_once_and_not_more_than_once_a_second() -> None:
    bell = Bell()
    world, machine = short_of(MEMORY, notice=lambda: bell)
    async with world.agent() as node:
        await running(node, world, pod("web"))
        await asyncio.sleep(20.5)
        looks = machine.looks
        await asyncio.sleep(100)
        assert machine.looks - looks == 10, "while there is nothing to hear, every ten seconds"
        machine.memory, machine.used = 0, {"web": 900}
        bell.rung.set()
        await eventually(lambda: node.agent.pressures() == ("MemoryPressure",), seconds=1)
        await eventually(lambda: has_gone(node, "web"), seconds=5)
        looks = machine.looks
        for _ in range(1000):
            bell.rung.set()
            await asyncio.sleep(0.01)
        assert machine.looks - looks <= 11
    assert bell.is_closed


@virtual_time
async def test_new_pods_are_turned_away_while_the_node_is_short() -> None:
    world, machine = short_of(settings({"memory.available": "100Mi", "pid.available": "100"}))
    async with world.agent() as node:
        machine.memory = 50
        await eventually(lambda: node.agent.pressures() == ("MemoryPressure",), seconds=15)
        world.pods.apply(pod("effort"))
        await eventually(lambda: node.phase("uid-effort") == "Failed")
        status = node.status("uid-effort")
        assert (status.reason, status.message) == (
            "Evicted",
            "Pod was rejected: The node had condition: [MemoryPressure]. ",
        )
        machine.memory = 900
        await running(node, world, pod("asks", "10Mi"))
