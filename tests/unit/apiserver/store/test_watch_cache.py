import asyncio
import random
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path

import pytest

from kit.virtual_time import virtual_time
from kit.waiting import eventually
from pykubelet.apiserver.store.memory import MemoryStore
from pykubelet.apiserver.store.port import Bookmark, Entry, Event, Expired, Store, TooSlow
from pykubelet.apiserver.store.sqlite import SqliteStore
from pykubelet.apiserver.store.watch_cache import WatchCache
from pykubelet.apiserver.store.watchers import Wanted
from pykubelet.base.errors import PykubeletError, Retry

PODS = "/registry/pods/"


class CountingStore(MemoryStore):
    """One that counts its watches, and can break them."""

    def __init__(self) -> None:
        super().__init__()
        self.watches = 0
        self.broken: PykubeletError | None = None

    def watch(self, prefix: str, *, since: int) -> AsyncGenerator[Event | Bookmark, None]:
        self.watches += 1
        return self._breakable(super().watch(prefix, since=since))

    async def _breakable(self, inner: AsyncGenerator[Event | Bookmark, None]) -> AsyncGenerator[Event | Bookmark, None]:
        async with aclosing(inner):
            async for told in inner:
                if self.broken is not None:
                    error, self.broken = self.broken, None
                    raise error
                yield told


@asynccontextmanager
async def running(cache: WatchCache) -> AsyncIterator[WatchCache]:
    task = asyncio.create_task(cache.run())
    try:
        yield cache
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


class Watcher:
    """Takes what it is told, until it is stopped or let go."""

    def __init__(self, cache: WatchCache, since: int, prefix: str = "", wanted: Wanted | None = None) -> None:
        self.events: list[Event] = []
        self.progress: list[int] = []
        self.error: PykubeletError | None = None
        self._told = cache.watch(prefix, since=since, wanted=wanted)
        self._task = asyncio.create_task(self._take())

    async def _take(self) -> None:
        try:
            async with aclosing(self._told) as told:
                async for each in told:
                    if isinstance(each, Event):
                        self.events.append(each)
                    else:
                        self.progress.append(each.revision)
        except PykubeletError as error:
            self.error = error

    async def stop(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)


@virtual_time
async def test_a_list_holds_what_was_acknowledged_before() -> None:
    store = MemoryStore()
    first = await store.create(f"{PODS}default/a", b"1")
    async with running(WatchCache(store, PODS)) as cache:
        assert (await cache.list_newest()).entries == (Entry(f"{PODS}default/a", b"1", first, first),)
        second = await store.update(f"{PODS}default/a", b"2", revision=first)
        assert (await cache.list_newest()).entries == (Entry(f"{PODS}default/a", b"2", second, first),)
        other = await store.create("/registry/nodes/n", b"1")
        listing = await cache.list_newest()
        assert listing.revision == other
        await store.delete(f"{PODS}default/a", revision=second)
        assert (await cache.list_newest()).entries == ()
        assert await cache.get(f"{PODS}default/a") is None


@virtual_time
async def test_whether_there_is_anything_is_true_at_every_moment() -> None:
    store = CountingStore()
    async with running(WatchCache(store, "/registry/")) as cache:
        await cache.list_newest()
        for key in (f"{PODS}default/a", "/registry/nodes/n"):
            folder = key[: key.rfind("/") + 1]
            assert not cache.has_any(folder)
            first = await store.create(key, b"1")
            await cache.list_newest()
            assert cache.has_any(folder)
            second = await store.update(key, b"2", revision=first)
            await cache.list_newest()
            assert cache.has_any(folder)
            await store.delete(key, revision=second)
            await cache.list_newest()
            assert not cache.has_any(folder)
            store.broken = Expired("x")
            await store.create(key, b"1")
            await asyncio.sleep(20)  # all was read again
            assert cache.has_any(folder)


class AskedStore(MemoryStore):
    """One that counts what it is asked for."""

    def __init__(self, *, knows: bool) -> None:
        super().__init__()
        self.asked = 0
        self._knows = knows

    @property
    def newest(self) -> int | None:
        return super().newest if self._knows else None

    async def get(self, key: str) -> Entry | None:
        self.asked += 1
        return await super().get(key)


@virtual_time
async def test_what_is_newest_is_known_without_asking_a_store_that_nobody_else_writes() -> None:
    store, key = AskedStore(knows=True), f"{PODS}default/a"
    first = await store.create(key, b"1")
    cache = WatchCache(store, PODS)
    assert await cache.get_newest(key) == Entry(key, b"1", first, first)
    assert store.asked == 1  # the cache does not run yet
    async with running(cache):
        await cache.list()
        assert await cache.get_newest(key) == Entry(key, b"1", first, first)
        assert await cache.get_newest(f"{PODS}default/b") is None
        assert store.asked == 1
        second = await store.update(key, b"2", revision=first)
        assert await cache.get_newest(key) == Entry(key, b"2", second, first)
        assert store.asked == 2  # which the cache has not heard yet
        await cache.list_newest()
        await store.delete(key, revision=second)
        assert await cache.get_newest(key) is None
        await asyncio.sleep(1)
        assert await cache.get_newest(key) is None
        assert store.asked == 3
        await store.close()
        with pytest.raises(Retry, match="closed"):
            await cache.get_newest(key)


@virtual_time
async def test_a_store_that_others_write_too_is_asked_each_time() -> None:
    store = AskedStore(knows=False)
    async with running(WatchCache(store, PODS)) as cache:
        revision = await store.create(f"{PODS}a", b"1")
        await cache.list_newest()
        for _ in range(3):
            assert await cache.get_newest(f"{PODS}a") == Entry(f"{PODS}a", b"1", revision, revision)
    assert store.asked == 3


@virtual_time
async def test_a_list_waits_for_the_revision_that_it_needs_but_not_for_ever() -> None:
    store = MemoryStore()
    async with running(WatchCache(store, PODS)) as cache:
        waiting = asyncio.create_task(cache.list(at_least=3))
        await asyncio.sleep(1)
        assert not waiting.done()
        await store.create(f"{PODS}default/a", b"1")
        await asyncio.sleep(1)
        assert not waiting.done()
        await store.create("/registry/nodes/n", b"1")
        with pytest.raises(Retry, match="not yet at 99") as caught:
            await cache.list(at_least=99)
        assert caught.value.after == 1.0
        assert (await waiting).revision >= 2
        assert (await cache.list(at_least=3)).revision == 3


@virtual_time
async def test_a_cache_that_is_not_running_says_that_it_is_not_ready() -> None:
    with pytest.raises(Retry, match="not ready"):
        await WatchCache(MemoryStore(), PODS).list()


@virtual_time
async def test_pages_are_of_one_moment_and_narrower_prefixes_are_served() -> None:
    store = MemoryStore()
    for space in "ab":
        for number in range(5):
            await store.create(f"{PODS}{space}/{number}", b"1")
    async with running(WatchCache(store, PODS)) as cache:
        page = await cache.list(limit=4)
        assert (len(page.entries), page.more, page.remaining) == (4, True, 6)
        await store.create(f"{PODS}b/9", b"new")
        await cache.list_newest()
        rest = await cache.list(limit=40, start_key=page.next_key, revision=page.revision)
        assert (len(rest.entries), rest.revision, rest.more) == (6, page.revision, False)
        narrow = await cache.list(f"{PODS}b/")
        assert [entry.key for entry in narrow.entries] == [f"{PODS}b/{number}" for number in (0, 1, 2, 3, 4, 9)]
        assert await cache.get(f"{PODS}b/9") is not None


@virtual_time
async def test_any_number_of_watchers_cost_one_watch_and_share_each_event() -> None:
    store = CountingStore()
    async with running(WatchCache(store, PODS)) as cache:
        since = (await cache.list_newest()).revision
        watchers = [Watcher(cache, since) for _ in range(200)]
        await asyncio.sleep(1)
        await store.create(f"{PODS}default/a", b"1")
        await eventually(lambda: all(len(watcher.events) == 1 for watcher in watchers))
        first = watchers[0].events[0]
        assert all(watcher.events[0] is first for watcher in watchers)
        first.cache["json"] = b"{}"
        assert watchers[-1].events[0].cache == {"json": b"{}"}
        assert store.watches == 1
        for watcher in watchers:
            await watcher.stop()


@virtual_time
async def test_a_watcher_hears_only_of_its_prefix_and_of_what_it_wants() -> None:
    store = MemoryStore()
    async with running(WatchCache(store, PODS)) as cache:
        since = (await cache.list_newest()).revision
        everything = Watcher(cache, since)
        space = Watcher(cache, since, f"{PODS}a/")
        single = Watcher(cache, since, f"{PODS}a/1")
        mine = Watcher(cache, since, wanted=lambda event: b"mine" in event.value)
        await asyncio.sleep(1)
        for key in ("a/1", "a/2", "ab/1", "b/1"):
            await store.create(PODS + key, b"mine" if key == "ab/1" else b"1")
        await eventually(lambda: len(everything.events) == 4)
        assert [event.key.removeprefix(PODS) for event in space.events] == ["a/1", "a/2"]
        assert [event.key.removeprefix(PODS) for event in single.events] == ["a/1"]
        assert [event.key.removeprefix(PODS) for event in mine.events] == ["ab/1"]
        late = Watcher(cache, since, wanted=lambda event: b"mine" in event.value)
        await eventually(lambda: late.events == mine.events)
        for watcher in (everything, space, single, mine, late):
            await watcher.stop()


@virtual_time
async def test_who_is_too_slow_is_let_go_and_nobody_waits_for_it() -> None:
    store = MemoryStore()
    async with running(WatchCache(store, PODS, queue=10)) as cache:
        since = (await cache.list_newest()).revision
        quick = Watcher(cache, since)
        slow = cache.watch(since=since)
        await store.create(f"{PODS}default/first", b"1")
        assert isinstance(await anext(slow), Event)
        for number in range(30):
            await store.create(f"{PODS}default/{number}", b"1")
            await eventually(lambda wanted=number + 2: len(quick.events) == wanted)  # type: ignore[misc]
        with pytest.raises(TooSlow):
            await anext(slow)
        assert quick.error is None
        await quick.stop()


@virtual_time
async def test_a_watch_from_too_long_ago_is_expired() -> None:
    store = MemoryStore()
    async with running(WatchCache(store, PODS, recent=5)) as cache:
        since = (await cache.list_newest()).revision
        made = [await store.create(f"{PODS}default/{number}", b"1") for number in range(20)]
        await cache.list_newest()
        old = Watcher(cache, since)
        recent = Watcher(cache, made[-6])
        await eventually(lambda: old.error is not None and len(recent.events) == 5)
        assert isinstance(old.error, Expired)
        assert [event.revision for event in recent.events] == made[-5:]
        await recent.stop()


@virtual_time
async def test_what_a_busy_hour_has_left_is_forgotten_but_for_the_last_thousand() -> None:
    store = MemoryStore()
    async with running(WatchCache(store, PODS)) as cache:
        await cache.list_newest()
        for number in range(3_000):
            await store.create(f"{PODS}{number}", b"")
        await asyncio.sleep(200)
        first = Watcher(cache, since=1)
        await eventually(lambda: len(first.events) == 3_000)
        await asyncio.sleep(400)
        late, last = Watcher(cache, since=1_999), Watcher(cache, since=2_001)
        await eventually(lambda: late.error is not None and len(last.events) == 1_000)
        assert isinstance(late.error, Expired)
        await first.stop()
        await last.stop()


@virtual_time
async def test_after_a_restart_watchers_go_on_from_where_they_were() -> None:
    store = MemoryStore()
    made = [await store.create(f"{PODS}default/{number}", b"1") for number in range(20)]
    async with running(WatchCache(store, PODS)) as cache:
        watcher = Watcher(cache, made[4])
        await eventually(lambda: len(watcher.events) == 15)
        made.append(await store.create(f"{PODS}default/new", b"1"))
        await eventually(lambda: len(watcher.events) == 16)
        assert [event.revision for event in watcher.events] == made[5:]
        assert len((await cache.list_newest()).entries) == 21
        await watcher.stop()


@virtual_time
async def test_a_past_that_the_store_has_forgotten_does_not_keep_a_cache_from_starting() -> None:
    store = MemoryStore()
    made = [await store.create(f"{PODS}default/{number}", b"1") for number in range(20)]
    await store.compact(made[-1])
    async with running(WatchCache(store, PODS)) as cache:
        assert len((await cache.list_newest()).entries) == 20
        watcher = Watcher(cache, made[-1])
        await asyncio.sleep(1)
        await store.create(f"{PODS}default/new", b"1")
        await eventually(lambda: len(watcher.events) == 1)
        await watcher.stop()


@pytest.mark.parametrize("error", [Expired("forgotten"), Retry("cut off")], ids=["forgotten", "cut off"])
@virtual_time
async def test_when_the_store_breaks_its_watch_all_is_read_again_and_watchers_start_over(error: PykubeletError) -> None:
    store = CountingStore()
    async with running(WatchCache(store, PODS)) as cache:
        since = (await cache.list_newest()).revision
        watcher = Watcher(cache, since)
        await asyncio.sleep(1)
        store.broken = error
        await store.create(f"{PODS}default/a", b"1")
        await eventually(lambda: watcher.error is not None)
        assert type(watcher.error) is type(error)
        await eventually(lambda: cache.is_ready)
        assert [entry.key for entry in (await cache.list_newest()).entries] == [f"{PODS}default/a"]
        assert store.watches == 2
        again = Watcher(cache, since)  # the store still knows: nothing is lost
        await eventually(lambda: len(again.events) == 1)
        await again.stop()


@virtual_time
async def test_an_idle_watcher_is_told_how_far_it_has_come() -> None:
    store = MemoryStore()
    async with running(WatchCache(store, PODS, bookmark_every=60)) as cache:
        since = (await cache.list_newest()).revision
        watcher = Watcher(cache, since)
        await asyncio.sleep(30)
        newest = await store.create("/registry/nodes/n", b"1")
        await asyncio.sleep(150)
        assert watcher.progress[-1] == newest
        assert watcher.progress == sorted(watcher.progress)
        assert watcher.events == []
        await watcher.stop()


@virtual_time
async def test_watchers_end_with_the_cache() -> None:
    cache = WatchCache(MemoryStore(), PODS)
    async with running(cache):
        watcher = Watcher(cache, (await cache.list_newest()).revision)
        await asyncio.sleep(1)
    await eventually(lambda: watcher.error is not None)
    assert isinstance(watcher.error, Retry)


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
async def test_lists_and_watches_from_any_moment_add_up_under_load(kind: str, tmp_path: Path) -> None:
    store: Store = MemoryStore() if kind == "memory" else await SqliteStore.open(tmp_path / "store.db")
    async with running(WatchCache(store, PODS)) as cache, asyncio.timeout(50), asyncio.TaskGroup() as group:
        for writer in range(4):
            group.create_task(_write(store, cache, writer))
        for _ in range(12):
            group.create_task(_follow(cache))
            await asyncio.sleep(0.005)
        await store.create(f"{PODS}end", b"")
    await store.close()


async def _write(store: Store, cache: WatchCache, writer: int) -> None:
    draw = random.Random(writer)
    held: dict[str, int] = {}
    for _ in range(80):
        key = f"{PODS}{writer}/{draw.randrange(5)}"
        if key not in held:
            held[key] = await store.create(key, b"new")
        elif draw.random() < 0.3:
            await store.delete(key, revision=held.pop(key))
        else:
            held[key] = await store.update(key, draw.randbytes(4), revision=held[key])
        entry = await cache.get_newest(key)
        assert (entry.revision if entry else None) == held.get(key)
        await asyncio.sleep(0)


async def _follow(cache: WatchCache) -> None:
    listing = await cache.list_newest()
    state, last = {entry.key: entry.value for entry in listing.entries}, listing.revision
    async with aclosing(cache.watch(since=last)) as told:
        while f"{PODS}end" not in state:
            event = await anext(told)
            assert isinstance(event, Event)
            assert event.revision > last
            last = event.revision
            assert state.pop(event.key, None) == event.previous
            if event.kind == "put":
                state[event.key] = event.value


@virtual_time
async def test_a_mirror_knows_what_the_cache_knows_also_after_the_store_was_away() -> None:
    store = CountingStore()
    known: dict[str, bytes] = {}

    def told(key: str, entry: Entry | None) -> None:
        if entry is None:
            del known[key]
        else:
            known[key] = entry.value

    first = await store.create(f"{PODS}default/a", b"1")
    await store.create("/registry/nodes/n", b"1")
    cache = WatchCache(store, "/registry/")
    cache.mirror(PODS, told)
    async with running(cache):
        await cache.list_newest()
        assert known == {f"{PODS}default/a": b"1"}
        second = await store.update(f"{PODS}default/a", b"2", revision=first)
        gone = await store.create(f"{PODS}default/b", b"1")
        await cache.list_newest()
        assert known == {f"{PODS}default/a": b"2", f"{PODS}default/b": b"1"}
        await store.delete(f"{PODS}default/a", revision=second)
        await cache.list_newest()
        assert known == {f"{PODS}default/b": b"1"}
        store.broken = Retry("cut off")
        await store.delete(f"{PODS}default/b", revision=gone)  # of which nobody is told
        await store.create(f"{PODS}default/c", b"1")
        await eventually(lambda: cache.is_ready and store.watches == 2)
        assert known == {f"{PODS}default/c": b"1"}
        late: dict[str, bytes] = {}
        cache.mirror(PODS, lambda key, entry: late.update({key: b"" if entry is None else entry.value}))
        assert late == known
