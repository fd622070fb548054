"""Those who watch: what waits for each of them, and which of them a change is for. Nobody is waited for: who lets more
wait than it may is let go with TooSlow, and comes back from the revision that it saw last."""

import asyncio
from collections.abc import Callable
from typing import Final

from pykubelet.apiserver.store.port import Bookmark, Event, Expired, TooSlow
from pykubelet.base.errors import PykubeletError, Retry

Wanted = Callable[[Event], bool]
_FOLDERS: Final = 1_024


class Watcher:
    """What waits for one watcher."""

    __slots__ = ("_is_over", "_news", "_waiting", "failure", "prefixes", "since", "wanted")

    def __init__(self, prefix: str | tuple[str, ...], since: int, wanted: Wanted | None = None) -> None:
        """Of several prefixes none is the beginning of another: each event is told once."""
        self.prefixes = prefix if isinstance(prefix, tuple) else (prefix,)
        self.since = since
        self.wanted = wanted
        self.failure: PykubeletError | None = None
        self._news: list[Event | Bookmark] = []
        self._is_over = False
        self._waiting: asyncio.Future[None] | None = None

    @property
    def is_idle(self) -> bool:
        return not self._news and self.failure is None

    def put(self, told: Event | Bookmark, most: int) -> None:
        if self.failure is not None:
            return
        if len(self._news) >= most:
            self._news = []
            self.fail(TooSlow("the watcher did not take its events in time: watch again from the last one"))
            return
        self._news.append(told)
        self._wake()

    def end(self) -> None:
        """What was put before is still told."""
        self._is_over = True
        self._wake()

    def fail(self, error: PykubeletError) -> None:
        if self.failure is None:
            self.failure = error
        self._wake()

    def _wake(self) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)

    async def next(self) -> list[Event | Bookmark]:
        """All there is by now, at least one; nothing when it is over."""
        if self.is_idle and not self._is_over:
            self._waiting = asyncio.get_running_loop().create_future()
            try:
                await self._waiting
            finally:
                self._waiting = None
        if not self._news and self.failure is not None:
            raise self.failure
        news, self._news = self._news, []
        return news


class Audience:
    """All watchers, by prefix: an event finds those it is for by the few lengths that prefixes have, and the next one
    in the same folder finds them at once."""

    def __init__(self) -> None:
        self._by_prefix: dict[str, set[Watcher]] = {}
        self._lengths: tuple[int, ...] = ()
        self._by_folder: dict[str, tuple[Watcher, ...]] = {}

    def add(self, watcher: Watcher) -> None:
        for prefix in watcher.prefixes:
            self._by_prefix.setdefault(prefix, set()).add(watcher)
        self._measure()

    def remove(self, watcher: Watcher) -> None:
        for prefix in watcher.prefixes:
            same = self._by_prefix.get(prefix, set())
            same.discard(watcher)
            if not same:
                self._by_prefix.pop(prefix, None)
        self._measure()

    def tell(self, event: Event, most: int) -> None:
        for watcher in self._for(event.key):
            if event.revision > watcher.since and (watcher.wanted is None or watcher.wanted(event)):
                watcher.put(event, most)

    def _for(self, key: str) -> tuple[Watcher, ...]:
        folder = key[: key.rfind("/") + 1]
        found = self._by_folder.get(folder)
        if found is None:
            found = tuple(each for length in self._lengths for each in self._by_prefix.get(key[:length], ()))
            is_for_all = not any(each.startswith(folder) and each != folder for each in self._by_prefix)
            if is_for_all and len(self._by_folder) < _FOLDERS:
                self._by_folder[folder] = found
        return found

    def tell_idle(self, bookmark: Bookmark) -> None:
        for watcher in self._everybody():
            if watcher.is_idle and bookmark.revision >= watcher.since:
                watcher.put(bookmark, 1)

    def end(self, error: PykubeletError) -> None:
        for watcher in self._everybody():
            watcher.fail(Expired(str(error)) if isinstance(error, Expired) else Retry(str(error)))

    def _everybody(self) -> set[Watcher]:
        return set().union(*self._by_prefix.values())

    def _measure(self) -> None:
        self._lengths = tuple(sorted({len(prefix) for prefix in self._by_prefix}))
        self._by_folder.clear()
