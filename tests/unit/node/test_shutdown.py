"""The machine is about to go down: stories in virtual time, with a machine that says what a test wants."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any

import pytest

from kit.node import Running, World
from kit.pod_api import MemoryPods
from kit.virtual_time import virtual_time
from kit.waiting import eventually
from pykubelet.api.pod import Pod, PodStatus
from pykubelet.api.struct import changed
from pykubelet.base.errors import NotFound, Retry
from pykubelet.node.dependencies import ShutdownParts
from pykubelet.pod.lifecycle.node_shutdown import shutdown_periods
from pykubelet.pod.lifecycle.static_pod import static_pod
from unit.node.test_handlers import pod

CRITICAL = 2_000_000_000
REJECTED = "Pod was rejected as the node is shutting down."
TERMINATED = "Pod was terminated in response to imminent node shutdown."


class Machine:
    """One that says that it goes down, and waits for who holds it. Two ports at once."""

    def __init__(self) -> None:
        self.words: asyncio.Queue[bool | None] = asyncio.Queue()
        self.is_held = False
        self.asked: list[float] = []
        self.refusals: list[Exception] = []
        self.events: list[str] = []
        self.times: tuple[datetime | None, datetime | None] = (None, None)
        self.looks = 0

    @asynccontextmanager
    async def notices(self, seconds: float) -> AsyncIterator["Machine"]:
        self.asked.append(seconds)
        if self.refusals:
            raise self.refusals.pop(0)
        await self.hold()
        yield self
        self.let_go()

    async def hold(self) -> None:
        self.is_held = True

    def let_go(self) -> None:
        self.is_held = False

    async def told(self) -> AsyncGenerator[bool, None]:
        while (word := await self.words.get()) is not None:
            yield word

    async def load(self) -> tuple[datetime | None, datetime | None]:
        return self.times

    async def save(self, began: datetime, ended: datetime | None) -> None:
        self.times = began, ended

    def node_event(self, kind: str, reason: str, message: str) -> None:
        self.events.append(f"{kind} {reason}: {message}")

    def look(self) -> None:
        self.looks += 1


def going_down(world: World, machine: Machine, everybody: float = 30, critical: float = 10) -> None:
    world.shutdown = ShutdownParts(
        periods=shutdown_periods(everybody, critical),
        notice=machine,
        times=machine,
        recorder=machine,
        changed=machine.look,
    )


def dear(name: str, **fields: Any) -> Pod:
    return pod(name, priority=CRITICAL, **fields)


def told(node: Running, uid: str) -> tuple[str, str, str]:
    status = node.status(uid)
    return status.phase, status.reason, status.message


@virtual_time
async def test_pods_end_in_their_order_and_then_the_machine_may_go() -> None:
    world, machine = World(), Machine()
    going_down(world, machine)
    world.runtime.stop_seconds = 3
    async with world.agent() as node:
        for each in (pod("plain"), dear("critical")):
            world.pods.apply(each)
        world.files.apply(static_pod(pod("static"), "s1", "n1", "file"))
        await eventually(lambda: len(world.runtime.running()) == 3)
        assert (machine.is_held, machine.asked) == (True, [30.0])
        machine.words.put_nowait(True)
        await eventually(lambda: world.runtime.running() == ["critical/c"])
        assert machine.is_held
        assert [*node.agent.troubles()] == ["node is shutting down"]
        assert machine.looks == 1
        await eventually(lambda: not machine.is_held)
        assert world.runtime.running() == []
        for uid in ("uid-plain", "uid-critical", "s1"):
            assert told(node, uid) == ("Failed", "Terminated", TERMINATED)
            (condition,) = [each for each in node.status(uid).conditions if each.type == "DisruptionTarget"]
            assert (condition.status, condition.reason, condition.message) == (
                "True",
                "TerminationByKubelet",
                TERMINATED,
            )
        assert machine.events == ["Normal NodeShutdown: Shutdown manager detected shutdown event"]
        began, ended = machine.times
        assert began is not None
        assert ended is not None
        assert began < ended


@virtual_time
async def test_who_comes_meanwhile_is_turned_away_and_later_let_in() -> None:
    world, machine = World(), Machine()
    going_down(world, machine)
    async with world.agent() as node:
        machine.words.put_nowait(True)
        await eventually(lambda: [*node.agent.troubles()])
        world.pods.apply(pod("late"))
        await eventually(lambda: node.phase("uid-late") == "Failed")
        assert told(node, "uid-late")[1:] == ("NodeShutdown", f"Pod was rejected: {REJECTED}")
        await eventually(lambda: not machine.is_held)
        machine.words.put_nowait(False)
        await eventually(lambda: machine.is_held)
        assert [*node.agent.troubles()] == []
        assert machine.looks == 2
        world.pods.apply(pod("later"))
        await eventually(lambda: world.runtime.running() == ["later/c"])
        assert machine.events[-1] == "Normal NodeShutdown: Shutdown manager detected shutdown cancellation"


@virtual_time
async def test_who_does_not_end_is_not_waited_for_longer_than_his_time() -> None:
    world, machine = World(), Machine()
    going_down(world, machine)
    world.runtime.stop_seconds = 10_000
    async with world.agent():
        world.pods.apply(pod("stubborn"))
        world.pods.apply(dear("critical"))
        await eventually(lambda: len(world.runtime.running()) == 2)
        began = asyncio.get_running_loop().time()
        machine.words.put_nowait(True)
        await eventually(lambda: not machine.is_held, seconds=100)
        assert asyncio.get_running_loop().time() - began <= 33


@virtual_time
async def test_a_finished_pod_stays_finished() -> None:
    world, machine = World(), Machine()
    going_down(world, machine)
    async with world.agent() as node:
        world.pods.apply(pod("job", restart_policy="Never"))
        await eventually(world.runtime.running)
        world.runtime.exit("uid-job", "c", 0)
        await eventually(lambda: node.phase("uid-job") == "Succeeded")
        machine.words.put_nowait(True)
        await eventually(lambda: not machine.is_held)
        assert told(node, "uid-job")[0] == "Succeeded"


@virtual_time
async def test_an_end_that_nobody_heard_of_is_told_when_the_machine_is_up_again() -> None:
    api = MemoryPods()
    world, machine = World(api), Machine()
    going_down(world, machine)
    shown = await api.create(pod("web"))
    uid = shown.metadata.uid
    async with world.agent() as node:
        world.pods.apply(shown)
        await eventually(world.runtime.running)
        api.away = lambda: Retry("away")
        machine.words.put_nowait(True)
        await eventually(lambda: not machine.is_held, seconds=60)
        assert node.phase(uid) == "Failed"
    assert world.checkpoint.pods[uid].status.phase == "Failed"
    api.away = None
    world.shutdown = None
    world.pods.apply(changed(shown, status=PodStatus(phase="Running")))
    async with world.agent() as node:
        await eventually(lambda: api.pods["default", "web"].status.phase == "Failed", seconds=60)
        assert api.pods["default", "web"].status.reason == "Terminated"
        await asyncio.sleep(60)
        assert world.runtime.running() == []


@virtual_time
async def test_a_machine_that_cannot_be_heard_is_asked_again_and_that_is_told_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world, machine = World(), Machine()
    going_down(world, machine)
    machine.refusals = [Retry("the bus is gone"), Retry("the bus is gone"), NotFound("no D-Bus answers at /x")]
    async with world.agent():
        await eventually(lambda: machine.is_held, seconds=100)
        machine.words.put_nowait(None)  # it goes away, and is there again
        await eventually(lambda: len(machine.asked) == 5, seconds=10)
        await eventually(lambda: machine.is_held)
    warnings = [record.getMessage() for record in caplog.records if "are not seen" in record.getMessage()]
    assert [text.rpartition(": ")[2] for text in warnings] == [
        "the bus is gone",
        "no D-Bus answers at /x",
        "the connection has ended",
    ]
