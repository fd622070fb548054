import asyncio

from pykubelet.base.turnstile import Turnstile


async def test_a_crowd_passes_in_its_order_a_few_in_each_turn_of_the_loop() -> None:
    turnstile, passed, turns = Turnstile(3), [], [0]

    async def one(number: int) -> None:
        await turnstile.pass_through()
        passed.append((number, turns[0]))

    async def count() -> None:
        while len(passed) < 20:
            turns[0] += 1
            await asyncio.sleep(0)

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(count())
        for number in range(20):
            tasks.create_task(one(number))
    assert [number for number, _ in passed] == list(range(20))
    assert max(sum(turn == each for _, turn in passed) for each in range(turns[0] + 1)) <= 3


async def test_who_gives_up_waiting_holds_nobody_up() -> None:
    turnstile = Turnstile(1)
    await turnstile.pass_through()
    waiting = [asyncio.create_task(turnstile.pass_through()) for _ in range(5)]
    await asyncio.sleep(0)
    waiting[0].cancel()
    waiting[1].cancel()
    results = await asyncio.gather(*waiting, return_exceptions=True)
    assert results[2:] == [None, None, None]


async def test_alone_nobody_waits() -> None:
    turnstile = Turnstile(1)
    for _ in range(10):
        await turnstile.pass_through()
        await asyncio.sleep(0)
