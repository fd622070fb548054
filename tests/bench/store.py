"""The stores behind the API server: durable writes by many at once, large lists, and one change told to a thousand."""

import asyncio
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from functools import partial
from pathlib import Path

from kit.etcd import private_etcd, program
from pykubelet.apiserver.store.etcd import EtcdStore
from pykubelet.apiserver.store.memory import MemoryStore
from pykubelet.apiserver.store.port import Event, Store
from pykubelet.apiserver.store.sqlite import SqliteStore
from pykubelet.apiserver.store.watch_cache import WatchCache

VALUE = b'{"kind":"Pod","filler":"' + b"x" * 6_000 + b'"}'
WRITERS = (1, 20, 50)
WRITES = 3_000
LISTED = 5_000
WATCHERS = 1_000
CHANGES = 100
CREATES_GOAL, LIST_GOAL, CORE_GOAL = 1_500, 250.0, 40.0


def run() -> None:
    print(f"stores: entries of {len(VALUE):,} bytes\n")
    asyncio.run(_in_memory())
    asyncio.run(_on_sqlite())
    if program() is not None:
        asyncio.run(_on_etcd())
    asyncio.run(_fan_out())


async def _in_memory() -> None:
    await _writes("memory", MemoryStore())


async def _on_sqlite() -> None:
    folder = Path(tempfile.mkdtemp(prefix="pykubelet-bench-"))
    try:
        print(f"the disk below {folder.parent} takes {_sync_milliseconds(folder):.2f} ms to make 8 KiB durable")
        store = await SqliteStore.open(folder / "store.db")
        best = await _writes("sqlite", store)
        _goal("sqlite, creates/s with 20 or 50 writers", best, CREATES_GOAL, at_least=True)
        await _lists("sqlite", store)
        await store.close()
    finally:
        shutil.rmtree(folder)


async def _on_etcd() -> None:
    with private_etcd() as running:
        store = await EtcdStore.open([running.endpoint], compact_every=0)
        await _writes("etcd", store)
        await _lists("etcd", store)
        await store.close()


async def _writes(name: str, store: Store) -> float:
    best = 0.0
    for writers in WRITERS:
        count = WRITES if writers > 1 else WRITES // 10
        prefix = f"/registry/w{writers}/"
        seconds, cpu, waits = await _together(writers, count, partial(_create, store, prefix))
        rate = count / seconds
        best = max(best, rate if writers > 1 else 0)
        p50, p99 = statistics.median(waits) * 1e3, sorted(waits)[int(len(waits) * 0.99)] * 1e3
        print(
            f"{name:>7}: {writers:>3} writers {rate:>8,.0f} creates/s, p50 {p50:>6.1f} ms, p99 {p99:>6.1f} ms, "
            f"{cpu / count * 1e6:>5.0f} us of CPU each"
        )
    return best


async def _create(store: Store, prefix: str, number: int) -> int:
    return await store.create(f"{prefix}{number}", VALUE)


async def _together(
    writers: int, count: int, work: Callable[[int], Awaitable[object]]
) -> tuple[float, float, list[float]]:
    numbers = iter(range(count))
    waits: list[float] = []

    async def write() -> None:
        for number in numbers:
            began = time.perf_counter()
            await work(number)
            waits.append(time.perf_counter() - began)

    start, cpu = time.perf_counter(), time.process_time()
    await asyncio.gather(*(write() for _ in range(writers)))
    return time.perf_counter() - start, time.process_time() - cpu, waits


async def _lists(name: str, store: Store) -> None:
    prefix = "/registry/pods/"
    await _together(50, LISTED, partial(_create, store, prefix))
    direct = await _timed(5, lambda: store.list(prefix))
    page = await _timed(20, lambda: store.list(prefix, limit=500))
    cache = WatchCache(store, prefix)
    running = asyncio.create_task(cache.run())
    await cache.list_newest()
    cached = await _timed(20, cache.list_newest)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    print(f"{name:>7}: list of {LISTED:,}: {direct:.1f} ms, first page of 500: {page:.1f} ms, cached: {cached:.2f} ms")
    _goal(f"{name}, list of {LISTED:,} (ms)", direct, LIST_GOAL)
    print()


async def _timed(rounds: int, work: Callable[[], Awaitable[object]]) -> float:
    times = []
    for _ in range(rounds):
        began = time.perf_counter()
        await work()
        times.append(time.perf_counter() - began)
    return statistics.median(times) * 1e3


async def _fan_out() -> None:
    """The watchers do nothing but take their events: what remains is the cost of telling them."""
    store = MemoryStore()
    cache = WatchCache(store, "/registry/pods/")
    taken = 0

    async def watch() -> None:
        nonlocal taken
        async with aclosing(cache.watch(since=since)) as told:
            async for each in told:
                taken += isinstance(each, Event)

    async def all_have(changes: int) -> None:
        while taken < changes * WATCHERS:  # noqa: ASYNC110  # an event would be work that is not the cache's
            await asyncio.sleep(0)

    running = asyncio.create_task(cache.run())
    since = (await cache.list_newest()).revision
    watchers = [asyncio.create_task(watch()) for _ in range(WATCHERS)]
    await asyncio.sleep(0.1)
    cpu, start = time.process_time(), time.perf_counter()
    for number in range(CHANGES):
        await store.create(f"/registry/pods/default/{number}", VALUE)
        await all_have(number + 1)
    cpu, wall = time.process_time() - cpu, time.perf_counter() - start
    each = cpu / CHANGES / WATCHERS
    cost = f"{each * 1e6:.1f} us of CPU for each telling, {wall / CHANGES * 1e3:.1f} ms a change"
    print(f" fanout: {WATCHERS:,} watchers, {cost}")
    _goal(f"fanout, 10 changes/s to {WATCHERS:,} watchers (% of a core)", each * WATCHERS * 10 * 100, CORE_GOAL)
    for task in (*watchers, running):
        task.cancel()
    await asyncio.gather(*watchers, running, return_exceptions=True)


def _goal(what: str, measured: float, goal: float, *, at_least: bool = False) -> None:
    met = "met" if (measured >= goal if at_least else measured <= goal) else "MISSED"
    print(f"{what}: {measured:,.1f} (goal: {'at least' if at_least else 'at most'} {goal:,g}): {met}")


def _sync_milliseconds(folder: Path) -> float:
    """Of one small write to this disk: a disk, or a virtual one, that answers early makes every store look good."""
    times = []
    with (folder / "probe").open("wb", buffering=0) as file:
        for _ in range(50):
            file.write(b"x" * 8192)
            began = time.perf_counter()
            os.fdatasync(file.fileno())
            times.append(time.perf_counter() - began)
    return statistics.median(times) * 1e3


if __name__ == "__main__":
    run()
