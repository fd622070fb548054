"""Owners are looked at one at a time each, soon after a change, and not too often."""

import asyncio
from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager

from kit.cluster import TestCluster, cluster
from kit.virtual_time import virtual_time
from pykubelet.apiserver.controllers.client import PODS
from pykubelet.apiserver.controllers.keyed_work import Key, KeyedWork, Look
from pykubelet.apiserver.store.port import Event
from pykubelet.base.errors import Retry

KEY = ("default", "a")


async def own_keys(event: Event) -> Iterable[Key]:
    namespace, _, name = event.key.removeprefix("/registry/pods/").partition("/")
    return ((namespace, name),)


@asynccontextmanager
async def working(c: TestCluster, look: Look) -> AsyncGenerator[KeyedWork, None]:
    work = KeyedWork("test", look)
    task = asyncio.create_task(work.run(c, (PODS,), own_keys, PODS))
    try:
        yield work
        assert not task.done()
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@virtual_time
async def test_what_is_there_is_looked_at_first_and_then_what_changes() -> None:
    seen: list[Key] = []

    async def look(key: Key) -> None:
        seen.append(key)

    async with cluster() as c:
        await c.pod("a")
        async with working(c, look):
            await asyncio.sleep(1)
            assert seen == [KEY]
            await c.pod("b")
            await asyncio.sleep(1)
            assert seen == [KEY, ("default", "b")]


@virtual_time
async def test_one_owner_is_never_looked_at_twice_at_a_time_and_a_change_meanwhile_makes_one_more_look() -> None:
    begun = ended = 0

    async def look(key: Key) -> None:
        nonlocal begun, ended
        assert begun == ended
        begun += 1
        await asyncio.sleep(1)
        ended += 1

    async with cluster() as c:
        await c.pod("a")
        async with working(c, look) as work:
            await asyncio.sleep(0.5)
            for _ in range(5):
                work.add(KEY)
            await asyncio.sleep(5)
            assert (begun, ended) == (2, 2)


@virtual_time
async def test_slow_ones_stand_in_nobodys_way() -> None:
    seen: list[str] = []

    async def look(key: Key) -> None:
        if key[1] == "slow":
            await asyncio.sleep(1000)
        seen.append(key[1])

    async with cluster() as c, working(c, look):
        await c.pod("slow")
        await c.pod("quick")
        await asyncio.sleep(1)
        assert seen == ["quick"]


@virtual_time
async def test_a_failure_is_tried_again_ever_more_slowly() -> None:
    times: list[float] = []

    async def look(key: Key) -> None:
        times.append(asyncio.get_running_loop().time())
        if len(times) < 6:
            raise Retry("not now")

    async with cluster() as c:
        await c.pod("a")
        async with working(c, look):
            await asyncio.sleep(120)
    assert len(times) == 6
    assert times[5] - times[4] > times[2] - times[1] > 0


@virtual_time
async def test_even_a_bug_only_hurts_the_one_it_is_about(caplog) -> None:  # type: ignore[no-untyped-def]
    seen: list[str] = []

    async def look(key: Key) -> None:
        seen.append(key[1])
        if key[1] == "bad":
            raise ZeroDivisionError

    async with cluster() as c, working(c, look):
        await c.pod("bad")
        await c.pod("good")
        await asyncio.sleep(1)
        assert "good" in seen
    assert "default/bad failed" in caplog.text


@virtual_time
async def test_it_looks_again_when_it_was_asked_to() -> None:
    times: list[float] = []

    async def look(key: Key) -> float | None:
        times.append(asyncio.get_running_loop().time())
        return 30.0 if len(times) == 1 else None

    async with cluster() as c:
        await c.pod("a")
        async with working(c, look):
            await asyncio.sleep(100)
    assert len(times) == 2
    assert 29 < times[1] - times[0] < 31


@virtual_time
async def test_a_storm_of_changes_is_a_few_looks_and_the_last_change_is_seen() -> None:
    looks: list[float] = []
    now = asyncio.get_running_loop().time

    async def look(key: Key) -> None:
        looks.append(now())

    async with cluster() as c, working(c, look) as work:
        for _ in range(500):
            work.add(KEY)
            await asyncio.sleep(0.01)
        last = now()
        await asyncio.sleep(2)
    assert len(looks) <= 10 + 5 / 0.25 + 2
    assert looks[-1] >= last - 0.01
