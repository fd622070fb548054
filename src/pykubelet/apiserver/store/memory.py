"""A store that ends with the process, for tests and as the shortest telling of what a store does."""

from collections.abc import AsyncGenerator

from pykubelet.apiserver.store.feed import PROGRESS_EVERY, Feed
from pykubelet.apiserver.store.port import (
    FIRST_REVISION,
    AlreadyExists,
    Entry,
    Event,
    Expired,
    Future,
    Listing,
    Progress,
    Stale,
    check_key,
)
from pykubelet.base.errors import NotFound, Retry


class MemoryStore:
    progress_on_request = True

    def __init__(self, *, progress_every: float = PROGRESS_EVERY) -> None:
        self._feed = Feed(FIRST_REVISION, progress_every=progress_every)
        self._history: dict[str, list[tuple[int, Entry | None]]] = {}
        """What each key has held, and since when: None after it was deleted."""
        self._compacted = 0
        self._is_closed = False

    async def get(self, key: str) -> Entry | None:
        self._check_open()
        return self._newest(key)

    async def list(self, prefix: str, *, limit: int = 0, start_key: str = "", revision: int = 0) -> Listing:
        self._check_open()
        if revision > self._feed.revision:
            raise Future(f"the store is at revision {self._feed.revision}, and has not come to {revision} yet")
        if revision and revision < self._compacted:
            raise Expired(f"revision {revision} is forgotten: list again")
        at = revision or self._feed.revision
        keys = sorted(key for key in self._history if key.startswith(prefix) and key >= start_key)
        entries = [entry for key in keys if (entry := self._at(key, at)) is not None]
        page = entries[:limit] if limit else entries
        remaining = len(entries) - len(page)
        return Listing(tuple(page), at, more=remaining > 0, remaining=remaining)

    async def create(self, key: str, value: bytes) -> int:
        self._check_open()
        check_key(key)
        entry = self._newest(key)
        if entry is not None:
            raise AlreadyExists(entry)
        revision = self._feed.revision + 1
        return self._put(Entry(key, value, revision, revision), None)

    async def update(self, key: str, value: bytes, *, revision: int) -> int:
        entry = self._expect(key, revision)
        return self._put(Entry(key, value, self._feed.revision + 1, entry.created), entry)

    async def delete(self, key: str, *, revision: int) -> Entry:
        entry = self._expect(key, revision)
        at = self._feed.revision + 1
        self._history[key].append((at, None))
        self._feed.publish([Event("delete", key, b"", entry.value, at, entry.created)], at)
        return Entry(key, entry.value, at, entry.created)

    def watch(self, prefix: str, *, since: int) -> AsyncGenerator[Event | Progress, None]:
        return self._feed.watch(prefix, since)

    def request_progress(self) -> None:
        self._feed.request_progress()

    async def revision(self) -> int:
        self._check_open()
        return self._feed.revision

    async def compact(self, revision: int) -> None:
        self._check_open()
        if revision > self._feed.revision:
            raise Future(f"the store is at revision {self._feed.revision}, and has not come to {revision} yet")
        self._compacted = max(self._compacted, revision)
        self._feed.forget(revision)
        for key, held in list(self._history.items()):
            current = sum(since <= revision for since, _ in held) - 1
            kept = held[max(current, 0) :]
            if kept[0][1] is None and kept[0][0] <= revision:
                kept = kept[1:]
            if kept:
                self._history[key] = kept
            else:
                del self._history[key]

    async def healthy(self) -> bool:
        return not self._is_closed

    async def close(self) -> None:
        self._is_closed = True
        self._feed.close()

    def _put(self, entry: Entry, previous: Entry | None) -> int:
        self._history.setdefault(entry.key, []).append((entry.revision, entry))
        before = previous.value if previous else None
        self._feed.publish(
            [Event("put", entry.key, entry.value, before, entry.revision, entry.created)], entry.revision
        )
        return entry.revision

    def _expect(self, key: str, revision: int) -> Entry:
        self._check_open()
        entry = self._newest(key)
        if entry is None:
            raise NotFound(f"{key} does not exist")
        if entry.revision != revision:
            raise Stale(entry, revision)
        return entry

    def _newest(self, key: str) -> Entry | None:
        held = self._history.get(key)
        return held[-1][1] if held else None

    def _at(self, key: str, revision: int) -> Entry | None:
        entry: Entry | None = None
        for since, held in self._history[key]:
            if since > revision:
                break
            entry = held
        return entry

    def _check_open(self) -> None:
        if self._is_closed:
            raise Retry("the store is closed")
