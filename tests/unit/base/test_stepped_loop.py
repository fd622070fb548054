import asyncio
import subprocess
import sys

import pytest

from pykubelet.base.backoff import Backoff
from pykubelet.base.chance import chance
from pykubelet.base.stepped_loop import EndlessStep, SteppedLoop, stepped_loop


def test_nothing_happens_between_steps() -> None:
    loop, said = stepped_loop(seed=1), list[float]()

    async def sleeper() -> None:
        for _ in range(3):
            await asyncio.sleep(10)
            said.append(loop.time())

    loop.create_task(sleeper())
    loop.begin(0.0)
    assert loop.run()
    assert (said, loop.due) == ([], 10.0)
    loop.begin(25.0)
    loop.run()
    assert (said, loop.due) == ([25.0], 35.0)


def test_time_stands_still_in_a_step_and_never_goes_back() -> None:
    loop = stepped_loop(seed=1, now=5.0)
    loop.begin(3.0)
    assert loop.time() == 5.0


def test_a_group_ends_its_tasks_in_the_same_order_each_time() -> None:
    def ended(spread: int) -> list[int]:
        loop, order = stepped_loop(seed=1), list[int]()
        elsewhere = list[object]()

        async def wait(number: int) -> None:
            try:
                await asyncio.sleep(60)
            finally:
                order.append(number)

        async def group() -> None:
            async with asyncio.TaskGroup() as tasks:
                for number in range(20):
                    elsewhere.append(bytearray(spread * number))  # so that tasks do not lie where they lay before
                    tasks.create_task(wait(number))

        task = loop.create_task(group())
        loop.begin(0.0)
        loop.run()
        task.cancel()
        loop.run()
        return order

    assert ended(7) == ended(300) == ended(5000)


def test_a_step_inside_of_another_loop_leaves_that_as_it_was() -> None:
    inner, seen = stepped_loop(seed=1), list[object]()

    async def inside() -> None:
        seen.append(asyncio.get_running_loop())
        async with asyncio.timeout(5):
            await asyncio.sleep(0)
        seen.append(asyncio.current_task())

    async def outside() -> None:
        outer, done = asyncio.get_running_loop(), asyncio.Event()
        task = inner.create_task(inside())

        def step() -> None:
            inner.begin(0.0)
            inner.run()
            seen.append(asyncio.get_running_loop())
            done.set()

        outer.call_soon(step)
        await done.wait()
        assert seen == [inner, task, outer]
        assert asyncio.get_running_loop() is outer

    asyncio.run(outside())


def test_a_step_can_be_interrupted_and_goes_on() -> None:
    loop, said = stepped_loop(seed=1), list[int]()
    for number in range(5):
        loop.call_soon(said.append, number)
    loop.begin(0.0)
    assert not loop.run(lambda: len(said) >= 2)
    assert said == [0, 1]
    assert loop.run()
    assert said == [0, 1, 2, 3, 4]


def test_timers_of_one_time_keep_their_order_and_cancelled_ones_do_not_pile_up() -> None:
    loop, said = stepped_loop(seed=1), list[int]()
    for number in range(10):
        loop.call_later(1.0, said.append, number)
    for _ in range(100_000):
        loop.call_later(3600.0, said.append, -1).cancel()
    assert len(loop._timers) < 500
    loop.begin(1.0)
    loop.run()
    assert said == list(range(10))


def test_who_never_waits_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pykubelet.base.stepped_loop._MOST_CALLS", 1000)
    loop = stepped_loop(seed=1)

    async def busy() -> None:
        while True:  # noqa: ASYNC110
            await asyncio.sleep(0)

    task = loop.create_task(busy())
    loop.begin(0.0)
    with pytest.raises(EndlessStep):
        loop.run()
    task.cancel()
    loop.begin(1.0)
    loop.run()


def test_chance_belongs_to_the_loop() -> None:
    def delays(loop: SteppedLoop) -> list[float]:
        found = list[float]()

        async def fail() -> None:
            backoff = Backoff(1.0, 60.0, now=loop.time)
            found.extend(backoff.next() for _ in range(5))
            found.append(chance().random())

        loop.create_task(fail())
        loop.begin(0.0)
        loop.run()
        return found

    assert delays(stepped_loop(seed=7)) == delays(stepped_loop(seed=7))
    assert delays(stepped_loop(seed=7)) != delays(stepped_loop(seed=8))


def test_jitter_of_other_loops_differs_from_process_to_process() -> None:
    program = "from pykubelet.base.chance import chance; print(chance().random())"
    said = {subprocess.run([sys.executable, "-c", program], capture_output=True).stdout for _ in range(2)}
    assert len(said) == 2
