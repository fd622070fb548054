"""Work beside the loop: whose turn it is, and what may be waited for there."""

import asyncio
import gc
import threading

import pytest

from pykubelet.apiserver.requests.beside import Across, Beside, Turns


async def test_those_who_wait_are_served_in_turn_however_often_each_has_asked() -> None:
    turns, order, go = Turns(), list[str](), asyncio.Event()

    async def first() -> None:
        async with turns.turn("first"):
            await go.wait()

    async def ask(who: str) -> None:
        async with turns.turn(who):
            order.append(who)
            await asyncio.sleep(0)

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(first())
        await asyncio.sleep(0)
        for who in ("greedy", "greedy", "greedy", "greedy", "admin", "node", "greedy"):
            tasks.create_task(ask(who))
        await asyncio.sleep(0)
        go.set()
    assert order == ["greedy", "admin", "node", "greedy", "greedy", "greedy", "greedy"]


@pytest.mark.parametrize("when", ["while it waits", "when it was just given the turn"])
async def test_a_turn_of_somebody_who_has_gone_is_the_next_ones(when: str) -> None:
    turns, held = Turns(), asyncio.Event()
    done: list[str] = []

    async def ask(who: str) -> None:
        async with turns.turn(who):
            await held.wait()
            done.append(who)

    tasks = [asyncio.create_task(ask(who)) for who in ("a", "b", "c")]
    await asyncio.sleep(0)
    if when == "while it waits":
        tasks[1].cancel()
        await asyncio.sleep(0)
        held.set()
    else:
        held.set()
        await asyncio.sleep(0)
        tasks[1].cancel()
    async with asyncio.timeout(5):
        await asyncio.gather(*tasks, return_exceptions=True)
        await ask("d")
    assert done == ["a", "c", "d"]


class Loop:
    """Something that belongs to the loop."""

    size = 3

    def __init__(self) -> None:
        self.seen: list[int] = []

    async def look(self, name: str) -> str:
        await asyncio.sleep(0)
        self.seen.append(threading.get_ident())
        if name == "nothing":
            raise KeyError(name)
        return name.upper()


async def test_what_runs_beside_the_loop_may_ask_it() -> None:
    there = Loop()
    across, beside = Across(there, asyncio.get_running_loop()), Beside()

    async def work() -> tuple[int, str, int, bool]:
        return threading.get_ident(), await across.look("a"), across.size, gc.isenabled()

    ident, answer, size, collects = await beside.run("me", work)
    assert ident != threading.get_ident()
    assert there.seen == [threading.get_ident()]
    assert (answer, size, collects) == ("A", 3, False)
    assert gc.isenabled()


async def test_errors_come_back_and_the_next_has_its_turn() -> None:
    loop = asyncio.get_running_loop()
    across, beside = Across(Loop(), loop), Beside()

    async def fails() -> str:
        answer: str = await across.look("nothing")
        return answer

    async def waits() -> None:
        await loop.create_future()

    async def works() -> int:
        await asyncio.sleep(0)
        return 1

    with pytest.raises(KeyError):
        await beside.run("me", fails)
    with pytest.raises(RuntimeError, match="may wait for nothing"):
        await beside.run("me", waits)
    assert await beside.run("me", works) == 1
