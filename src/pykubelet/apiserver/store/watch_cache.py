"""One read of the store for any number of watchers: what is there now, the last changes, and who is told of the next.

A thousand watchers cost the store one watch, and share one event object each time, so that what one of them made of it
(`Event.cache`) is there for the others. Nobody is waited for: who does not take its events in time is let go, and comes
back from the revision that it saw last.
"""

import asyncio
import logging
from bisect import bisect_left, insort
from collections import deque
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from functools import partial
from typing import Final

import msgspec

from pykubelet.apiserver.store.bookmarks import BOOKMARK_EVERY, send_bookmarks
from pykubelet.apiserver.store.port import Bookmark, Entry, Event, Expired, Listing, Store, prefix_end
from pykubelet.apiserver.store.watchers import Audience, Wanted, Watcher
from pykubelet.apiserver.store.window import Window
from pykubelet.base.backoff import Backoff
from pykubelet.base.errors import PykubeletError, Retry

log = logging.getLogger(__name__)

RECENT: Final = 4_096
RECENT_BYTES: Final = 32 * 1024 * 1024
QUEUE: Final = 1_024
"""Events that may wait for one watcher."""
_PATIENCE: Final = 3.0
"""Seconds in which the cache has to come to a revision that somebody asks for, as upstream."""
_BACKFILL: Final = 1_000
"""Revisions before the start that are remembered: after a restart, watchers go on instead of all listing at once."""
_PAGE: Final = 1_000
_KEPT_SECONDS: Final = 300.0
"""In which a change can be told to who was away; the last thousand are told at any time. As in the store's history."""

Told = Callable[[str, Entry | None], None]
"""A key, and what is there now; None: nothing. It may not raise."""


class WatchCache:
    """The entries below one prefix. `run` keeps it true; until it is ready, everything else waits."""

    def __init__(
        self,
        store: Store,
        prefix: str,
        *,
        recent: int = RECENT,
        recent_bytes: int = RECENT_BYTES,
        queue: int = QUEUE,
        bookmark_every: float = BOOKMARK_EVERY,
    ) -> None:
        self.prefix = prefix
        self._store = store
        self._new_window = partial(Window, most=recent, most_bytes=recent_bytes)
        self._queue = queue
        self._bookmark_every = bookmark_every
        self._entries: dict[str, Entry] = {}
        self._keys: list[str] = []
        self._revision = 0
        self._window = self._new_window(0)
        self._ready = asyncio.Event()
        self._any: dict[str, bool] = {}
        self._asked_for: tuple[str, ...] = ()
        """The prefixes of which it is remembered whether there is anything below them."""
        self._mirrors: list[tuple[str, Told]] = []
        self._mirrored: tuple[str, ...] = ()
        self._audience = Audience()
        self._moved = asyncio.Event()

    @property
    def revision(self) -> int:
        """Everything up to here is in the cache."""
        return self._revision

    @property
    def is_ready(self) -> bool:
        return self._ready.is_set()

    # --- reading the store

    async def run(self) -> None:
        """Follow the store until cancelled. When it has forgotten where we were, all watchers start over, too."""
        backoff = Backoff(0.1, 10.0, now=asyncio.get_running_loop().time)
        try:
            while True:
                try:
                    await self._follow()
                except PykubeletError as error:
                    delay = 0.0 if isinstance(error, Expired) and self.is_ready else backoff.next()
                    log.warning("cache of %s: %s; reading all of it again in %.1f s", self.prefix, error, delay)
                    self._start_over(error)
                    await asyncio.sleep(delay)
        finally:
            self._start_over(Retry(f"the cache of {self.prefix} has ended"))

    async def _follow(self) -> None:
        listing = await self._store.list(self.prefix, limit=_PAGE)
        pages, at = [listing.entries], listing.revision
        while listing.more:
            listing = await self._store.list(self.prefix, limit=_PAGE, start_key=listing.next_key, revision=at)
            pages.append(listing.entries)
        before, self._entries = self._entries, {entry.key: entry for page in pages for entry in page}
        self._keys = list(self._entries)
        self._any.clear()
        self._tell_mirrors(before)
        self._come_to(at)
        since = max(at - _BACKFILL, 1) if self._store.progress_on_request else at
        while True:
            self._window = self._new_window(since)
            try:
                await self._watch(since, at)
            except Expired:
                if self.is_ready or since == at:
                    raise
                since = at  # there is no such past: begin with the present

    async def _watch(self, since: int, listed: int) -> None:
        if since == listed:
            self._ready.set()
        async with aclosing(self._store.watch(self.prefix, since=since)) as changes, asyncio.TaskGroup() as group:
            beside = [group.create_task(self._ask_progress()), group.create_task(self._age())]
            try:
                async for change in changes:
                    self._take(change, listed)
                failure: PykubeletError = Retry("the watch has ended")
            except PykubeletError as error:
                failure = error
            for task in beside:
                task.cancel()
        raise failure

    def _take(self, change: Event | Bookmark, listed: int) -> None:
        if isinstance(change, Event):
            self._share_previous(change)
            self._window.append(change)
            if change.revision > listed:
                self._apply(change)
                self._audience.tell(change, self._queue)
        if change.revision >= listed:
            self._ready.set()
        if change.revision > self._revision:
            self._come_to(change.revision)

    def _share_previous(self, event: Event) -> None:
        """The value before is one that is here already: no need to keep it twice for as long as the event is known."""
        entry = self._entries.get(event.key)
        if entry is not None and entry.value == event.previous:
            msgspec.structs.force_setattr(event, "previous", entry.value)

    def _apply(self, event: Event) -> None:
        entry = None
        is_there = event.key in self._entries
        if is_there != (event.kind == "put") and event.key.startswith(self._asked_for):
            self._any.clear()
        if event.kind == "delete":
            if is_there:
                del self._entries[event.key]
                del self._keys[bisect_left(self._keys, event.key)]
        else:
            if not is_there:
                insort(self._keys, event.key)
            entry = self._entries[event.key] = Entry(event.key, event.value, event.revision, event.created)
        if event.key.startswith(self._mirrored):  # few are
            for prefix, told in self._mirrors:
                if event.key.startswith(prefix):
                    told(event.key, entry)

    def _tell_mirrors(self, before: dict[str, Entry]) -> None:
        for prefix, told in self._mirrors:
            for key in before.keys() - self._entries.keys():
                if key.startswith(prefix):
                    told(key, None)
            for entry in self._page(prefix, 0, "").entries:
                told(entry.key, entry)

    async def _ask_progress(self) -> None:
        while not self.is_ready:
            self._store.request_progress()
            await asyncio.sleep(0.05)
        await send_bookmarks(self._store, self._audience, lambda: self._revision, self._bookmark_every)

    async def _age(self) -> None:
        """Endless. Who was away for longer than this lists again: what a busy hour has left is not kept for ever."""
        marks, now = deque[tuple[float, int]](), asyncio.get_running_loop().time
        while True:
            marks.append((now() + _KEPT_SECONDS, self._revision))
            await asyncio.sleep(_KEPT_SECONDS / 5)
            while marks and marks[0][0] <= now():
                self._window.age(marks.popleft()[1], _BACKFILL)

    def _start_over(self, error: PykubeletError) -> None:
        self._ready.clear()
        self._audience.end(error)

    def _come_to(self, revision: int) -> None:
        self._revision = revision
        self._moved.set()
        self._moved = asyncio.Event()

    def mirror(self, prefix: str, told: Told) -> None:
        """Have somebody know at every moment what the cache knows below a prefix: told of each entry that is there, and
        of each change in the moment of the change. What was known stays known while the store is away."""
        self._mirrors.append((prefix, told))
        self._mirrored = (*self._mirrored, prefix)
        for entry in self._page(prefix, 0, "").entries:
            told(entry.key, entry)

    # --- answering from it

    async def get(self, key: str) -> Entry | None:
        """As the cache knows it, which may be older than the store's."""
        await self.reach(0)
        return self._entries.get(key)

    async def get_newest(self, key: str) -> Entry | None:
        """As `Store.get`, and mostly without a question to the store: it costs a change of threads, or a round trip."""
        newest = self._store.newest
        if newest is not None and self._revision >= newest and self.is_ready:
            return self._entries.get(key)
        return await self._store.get(key)

    async def list(
        self, prefix: str = "", *, limit: int = 0, start_key: str = "", revision: int = 0, at_least: int = 0
    ) -> Listing:
        """As `Store.list`: of the cache's moment, or one that is not before `at_least`, or exactly of `revision`.

        A moment that the cache has not come to within some seconds is one that the store has not come to either: Retry.
        """
        prefix = prefix or self.prefix
        if not revision and await self._only_store_has(at_least):
            return await self._store.list(prefix, limit=limit, start_key=start_key)
        await self.reach(at_least)
        if revision and revision != self._revision:
            return await self._store.list(prefix, limit=limit, start_key=start_key, revision=revision)
        return self._page(prefix, limit, start_key)

    async def list_newest(self, prefix: str = "", *, limit: int = 0, start_key: str = "") -> Listing:
        """With everything that was acknowledged before the call, as if it came from the store itself."""
        prefix = prefix or self.prefix
        newest = await self._store.revision()
        if self._revision < newest and not self._store.progress_on_request:
            return await self._store.list(prefix, limit=limit, start_key=start_key)
        try:
            await self.reach(newest)
        except Retry as error:
            log.warning("%s; it is read from the store", error)
            return await self._store.list(prefix, limit=limit, start_key=start_key)
        return self._page(prefix, limit, start_key)

    def weight(self, prefix: str, most: int = 0) -> int:
        """Of the entries below a prefix, or the first of them: about how many bytes whoever lists them has to bear."""
        entries = self._page(prefix, most, "").entries
        return sum([len(entry.value) for entry in entries])

    def count(self, prefix: str) -> int:
        """Of the entries below a prefix."""
        first, after = bisect_left(self._keys, prefix), prefix_end(prefix)
        return (bisect_left(self._keys, after) if after else len(self._keys)) - first

    def has_any(self, prefix: str) -> bool:
        """Below a prefix. Asked by a dozen for each change, of a dozen prefixes that seldom become empty or filled."""
        found = self._any.get(prefix)
        if found is None:
            first = bisect_left(self._keys, prefix)
            found = self._any[prefix] = first < len(self._keys) and self._keys[first].startswith(prefix)
            self._asked_for = tuple(self._any)
        return found

    def _page(self, prefix: str, limit: int, start_key: str) -> Listing:
        first = bisect_left(self._keys, max(prefix, start_key))
        after = prefix_end(prefix)
        last = bisect_left(self._keys, after) if after else len(self._keys)
        end = min(last, first + limit) if limit else last
        entries = tuple(map(self._entries.__getitem__, self._keys[first:end]))
        return Listing(entries, self._revision, more=end < last, remaining=max(last - end, 0))

    async def _only_store_has(self, revision: int) -> bool:
        """A store that cannot be asked for progress may leave a quiet cache behind for long: then it is read itself."""
        if self._revision >= revision or self._store.progress_on_request:
            return False
        return await self._store.revision() >= revision

    async def reach(self, revision: int) -> None:
        """Return once the cache is ready and has come to this revision; Retry when it does not for some seconds."""
        if self.is_ready and self._revision >= revision:
            return
        try:
            async with asyncio.timeout(_PATIENCE):
                await self._ready.wait()
                self._store.request_progress()
                while self._revision < revision:
                    await self._moved.wait()
        except TimeoutError:
            where = f"is at revision {self._revision}, not yet at {revision}" if self.is_ready else "is not ready yet"
            raise Retry(f"the cache of {self.prefix} {where}", after=1.0) from None

    # --- telling watchers

    async def watch(
        self, prefix: str | tuple[str, ...] = "", *, since: int, wanted: Wanted | None = None
    ) -> AsyncGenerator[Event | Bookmark, None]:
        """As `Store.watch`, of the changes that are `wanted`, below one prefix or several that are apart from each
        other. Ends with Expired when `since` is too long ago, and with TooSlow when more events wait than a watcher may
        leave waiting."""
        async with aclosing(self.batches(prefix, since=since, wanted=wanted)) as batches:
            async for batch in batches:
                for told in batch:
                    yield told

    async def batches(
        self,
        prefix: str | tuple[str, ...] = "",
        *,
        since: int,
        wanted: Wanted | None = None,
        until: float | None = None,
    ) -> AsyncGenerator[Sequence[Event | Bookmark], None]:
        """The same, with all at once that there is to tell; it ends `until` a time of the loop."""
        prefix = prefix or self.prefix
        await self.reach(0)
        past = self._window.after(since)
        watcher = Watcher(prefix, since, wanted)
        self._audience.add(watcher)
        end = asyncio.get_running_loop().call_at(until, watcher.end) if until is not None else None
        try:
            if told := [each for each in past if each.key.startswith(prefix) and (wanted is None or wanted(each))]:
                yield told
            while news := await watcher.next():
                yield news
        finally:
            self._audience.remove(watcher)
            if end is not None:
                end.cancel()
