"""Whose turn it is: order, number, and what must never keep others from starting."""

import asyncio
from datetime import UTC, datetime

import pytest

from kit.node import World
from kit.pods import make_pod
from kit.virtual_time import virtual_time
from kit.waiting import eventually
from pykubelet.api.pod import Pod
from pykubelet.api.struct import changed
from pykubelet.node.start_queue import StartQueue


def pod(name: str, *, priority: int | None = None, second: int = 0) -> Pod:
    made = make_pod(name)
    created = datetime(2026, 1, 1, 0, 0, second, tzinfo=UTC)
    return changed(
        made,
        metadata=changed(made.metadata, creation_timestamp=created),
        spec=changed(made.spec, priority=priority),
    )


class Runtime:
    """Whose calls take a second, or for ever."""

    def __init__(self) -> None:
        self.queue = StartQueue()
        self.order: list[str] = []
        self.most = 0
        self._running = 0

    async def start(self, which: Pod, *, begun: bool = False, seconds: float = 1.0, fails: bool = False) -> None:
        async with self.queue.turn(which, "sandbox", begun=begun):
            self.order.append(which.metadata.name)
            self._running += 1
            self.most = max(self.most, self._running)
            try:
                await asyncio.sleep(seconds)
            finally:
                self._running -= 1
            if fails:
                raise OSError("no")


@virtual_time
async def test_few_run_at_a_time_and_the_oldest_come_first() -> None:
    runtime = Runtime()
    pods = [pod(f"p{second:02}", second=second) for second in reversed(range(30))]
    await asyncio.gather(*(runtime.start(each) for each in pods))
    assert runtime.most < 12
    assert runtime.order[4:] == [f"p{second:02}" for second in range(26)]  # four found room at once


@virtual_time
async def test_priority_counts_more_than_having_begun_and_that_more_than_age() -> None:
    runtime = Runtime()
    first = [asyncio.create_task(runtime.start(pod(f"first{number}"))) for number in range(4)]
    await asyncio.sleep(0)
    later = [
        asyncio.create_task(runtime.start(pod("old", second=1))),
        asyncio.create_task(runtime.start(pod("begun", second=9), begun=True)),
        asyncio.create_task(runtime.start(pod("critical", priority=2_000_000_000, second=30))),
        asyncio.create_task(runtime.start(pod("unwanted", priority=-5), begun=True)),
        asyncio.create_task(runtime.start(pod("young", second=20))),
    ]
    await asyncio.gather(*first, *later)
    assert runtime.order[4:] == ["critical", "begun", "old", "young", "unwanted"]


@virtual_time
async def test_calls_that_hang_keep_nobody_from_starting_for_long() -> None:
    runtime = Runtime()
    hung = [asyncio.create_task(runtime.start(pod(f"hung{number}"), seconds=1e6)) for number in range(20)]
    await asyncio.sleep(0)
    async with asyncio.timeout(60):
        await runtime.start(pod("sound", second=59))
    for each in hung:
        each.cancel()
    await asyncio.gather(*hung, return_exceptions=True)
    await asyncio.gather(*(runtime.start(pod(f"p{number}")) for number in range(20)))


@virtual_time
async def test_turns_come_back_from_what_fails_and_from_what_is_cancelled_while_it_waits() -> None:
    runtime = Runtime()
    for _ in range(10):
        with pytest.raises(OSError, match="no"):
            await runtime.start(pod("failing"), fails=True)
    busy = [asyncio.create_task(runtime.start(pod(f"busy{number}"))) for number in range(4)]
    await asyncio.sleep(0)
    waiting = [asyncio.create_task(runtime.start(pod(f"waiting{number}"))) for number in range(8)]
    await asyncio.sleep(0)
    for each in waiting[:4]:
        each.cancel()
    await asyncio.gather(*busy)
    for each in waiting[4:6]:
        each.cancel()  # they have just been called
    await asyncio.gather(*waiting, return_exceptions=True)
    runtime.most = 0
    await asyncio.gather(*(runtime.start(pod(f"p{number}")) for number in range(20)))
    assert runtime.most >= 4


@virtual_time
async def test_the_first_of_a_burst_run_long_before_the_last() -> None:
    """On a runtime whose calls share two cores, all of fifty pods would else be ready at the very end."""
    world = World()
    world.runtime.delays["run_sandbox"] = 1.0
    async with world.agent():
        for number in range(50):
            world.pods.apply(pod(f"p{number:02}", second=number))
        clock = asyncio.get_running_loop().time
        began = clock()
        await eventually(lambda: len(world.runtime.running()) >= 4, seconds=5)
        early = clock() - began
        await eventually(lambda: len(world.runtime.running()) == 50, seconds=60)
        assert (clock() - began) > 2 * early
        sandboxes = [uid for method, uid in world.runtime.calls if method == "run_sandbox"]
        assert sandboxes[4:] == sorted(sandboxes[4:])


@virtual_time
async def test_a_slow_pull_takes_no_turn() -> None:
    world = World()
    world.runtime.delays["pull_image"] = 600
    async with world.agent():
        for number in range(20):
            world.pods.apply(make_pod(f"slow{number}", image="slow:1"))
        await asyncio.sleep(5)
        world.runtime.delays["pull_image"] = 0
        world.pods.apply(make_pod("quick", image="quick:1"))
        await eventually(lambda: world.runtime.running() == ["quick/c"], seconds=10)


@virtual_time
async def test_what_the_node_depends_on_comes_before_all_priorities() -> None:
    runtime = Runtime()
    static = pod("static", second=9)
    annotations = {"kubernetes.io/config.source": "file"}
    static = changed(static, metadata=changed(static.metadata, annotations=annotations))
    pods = [*(pod(f"p{number}") for number in range(4)), pod("dear", priority=1000), static]
    await asyncio.gather(*(runtime.start(each) for each in pods))
    assert runtime.order[4:] == ["static", "dear"]
