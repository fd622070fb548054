"""A store that ends with the process, for tests and as the shortest telling of what a store does."""

from collections.abc import AsyncGenerator, Sequence
from typing import Final

from pykubelet.apiserver.store.followers import Followers
from pykubelet.apiserver.store.port import (
    FIRST_REVISION,
    AlreadyExists,
    Bookmark,
    Entry,
    Event,
    Expired,
    Future,
    Listing,
    Stale,
    check_key,
)
from pykubelet.base.errors import NotFound, Retry

_KEPT: Final = 10_000
"""Changes that are known at least. Twice as many are never kept, or a long life would fill the memory."""


class MemoryStore:
    progress_on_request = True

    def __init__(self) -> None:
        self._followers = Followers(FIRST_REVISION, self._older)
        self._now: dict[str, Entry] = {}
        self._past: dict[str, Entry] = {}
        """What there was when it was compacted, and then the log of what happened since."""
        self._log: list[Event] = []
        self._compacted = 0
        self._is_closed = False

    @property
    def newest(self) -> int | None:
        return None if self._is_closed else self._followers.revision

    async def get(self, key: str) -> Entry | None:
        self._check_open()
        return self._now.get(key)

    async def list(self, prefix: str, *, limit: int = 0, start_key: str = "", revision: int = 0) -> Listing:
        self._check_come_to(revision)
        if revision and revision < self._compacted:
            raise Expired(f"revision {revision} is forgotten: list again")
        at = revision or self._followers.revision
        held = self._held(at)
        entries = [held[key] for key in sorted(held) if key.startswith(prefix) and key >= start_key]
        page = entries[:limit] if limit else entries
        remaining = len(entries) - len(page)
        return Listing(tuple(page), at, more=remaining > 0, remaining=remaining)

    async def create(self, key: str, value: bytes) -> int:
        self._check_open()
        check_key(key)
        if (entry := self._now.get(key)) is not None:
            raise AlreadyExists(entry)
        revision = self._followers.revision + 1
        return self._append(Event("put", key, value, None, revision, revision))

    async def update(self, key: str, value: bytes, *, revision: int) -> int:
        entry = self._expect(key, revision)
        return self._append(Event("put", key, value, entry.value, self._followers.revision + 1, entry.created))

    async def delete(self, key: str, *, revision: int) -> Entry:
        entry = self._expect(key, revision)
        at = self._append(Event("delete", key, b"", entry.value, self._followers.revision + 1, entry.created))
        return Entry(key, entry.value, at, entry.created)

    def watch(self, prefix: str, *, since: int) -> AsyncGenerator[Event | Bookmark, None]:
        return self._followers.follow(prefix, since)

    def request_progress(self) -> None:
        """It is always told."""

    async def revision(self) -> int:
        self._check_open()
        return self._followers.revision

    async def compact(self, revision: int) -> None:
        self._check_come_to(revision)
        if revision > self._compacted:
            self._forget(revision)

    async def healthy(self) -> bool:
        return not self._is_closed

    async def close(self) -> None:
        self._is_closed = True
        self._followers.close()

    def _append(self, event: Event) -> int:
        self._log.append(event)
        _apply(self._now, event)
        self._followers.publish([event])
        if len(self._log) == 2 * _KEPT:
            self._forget(event.revision - _KEPT)
        return event.revision

    def _forget(self, revision: int) -> None:
        self._past = dict(self._held(revision))
        self._log = [event for event in self._log if event.revision > revision]
        self._compacted = revision

    def _expect(self, key: str, revision: int) -> Entry:
        self._check_open()
        entry = self._now.get(key)
        if entry is None:
            raise NotFound(f"{key} does not exist")
        if entry.revision != revision:
            raise Stale(entry, revision)
        return entry

    def _held(self, revision: int) -> dict[str, Entry]:
        if revision == self._followers.revision:
            return self._now
        held = dict(self._past)
        for event in self._log:
            if event.revision > revision:
                break
            _apply(held, event)
        return held

    async def _older(self, prefix: str, after: int, up_to: int) -> tuple[Sequence[Event], int]:
        self._check_open()
        if after < self._compacted:
            raise Expired(f"the changes after revision {after} are forgotten: list again")
        told = [event for event in self._log if after < event.revision <= up_to and event.key.startswith(prefix)]
        return told, up_to

    def _check_come_to(self, revision: int) -> None:
        self._check_open()
        if revision > self._followers.revision:
            raise Future(f"the store is at revision {self._followers.revision}, and has not come to {revision} yet")

    def _check_open(self) -> None:
        if self._is_closed:
            raise Retry("the store is closed")


def _apply(held: dict[str, Entry], event: Event) -> None:
    if event.kind == "put":
        held[event.key] = Entry(event.key, event.value, event.revision, event.created)
    else:
        del held[event.key]
