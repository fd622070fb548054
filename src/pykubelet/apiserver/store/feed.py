"""How a store inside this process tells its watchers: what was written is published once, and each watcher goes on from
its own place, in memory or, when it is far behind, in what the store has kept. Nobody waits for a slow watcher."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from typing import Final

from pykubelet.apiserver.store.port import Event, Expired, Progress
from pykubelet.apiserver.store.window import Window
from pykubelet.base.errors import Retry

PROGRESS_EVERY: Final = 60.0
Older = Callable[[str, int, int], Awaitable[tuple[Sequence[Event], int]]]
"""(prefix, after, up to): some of the oldest of these changes, and the revision up to which they are all. Expired."""


class Feed:
    """The published history. Everything but `watch` is a plain function, called in the event loop."""

    def __init__(
        self,
        revision: int,
        *,
        older: Older | None = None,
        most: int = 0,
        most_bytes: int = 0,
        progress_every: float = PROGRESS_EVERY,
    ) -> None:
        self.revision = revision
        self._older = older
        self._progress_every = progress_every
        self._window = Window(revision if older else 0, most=most, most_bytes=most_bytes)
        self._places: set[_Place] = set()
        self._is_closed = False

    def publish(self, events: Sequence[Event], revision: int) -> None:
        """These changes, up to this revision, are there for good."""
        before, self.revision = self.revision, revision
        for event in events:
            self._window.append(event)
        for place in self._places:
            if place.waiting is None:
                continue  # it looks by itself when it has told what it has
            if any(event.revision > place.at and event.key.startswith(place.prefix) for event in events):
                place.wake()
            elif place.at == before:
                place.at = revision  # so that who is idle does not fall behind

    def forget(self, revision: int) -> None:
        """The store has been compacted."""
        self._window.forget(revision)

    def request_progress(self) -> None:
        for place in self._places:
            place.is_asked = True
            place.wake()

    def close(self) -> None:
        self._is_closed = True
        for place in self._places:
            place.wake()

    async def watch(self, prefix: str, since: int) -> AsyncGenerator[Event | Progress, None]:
        place = _Place(prefix, since)
        self._places.add(place)
        try:
            while True:
                if self._is_closed:
                    raise Retry("the store is closed")
                if place.at < self.revision:
                    for event in await self._next(place):
                        yield event
                elif place.is_asked:
                    place.is_asked = False
                    yield Progress(min(place.at, self.revision))
                else:
                    await place.wait(self._progress_every)
        finally:
            self._places.discard(place)

    async def _next(self, place: "_Place") -> Sequence[Event]:
        if place.at >= self._window.since:
            events = [event for event in self._window.after(place.at) if event.key.startswith(place.prefix)]
            place.at = self.revision
            return events
        if self._older is None:
            raise Expired(f"the changes after revision {place.at} are forgotten: list again")
        older, place.at = await self._older(place.prefix, place.at, self.revision)
        return older


class _Place:
    """How far one watcher has come."""

    def __init__(self, prefix: str, at: int) -> None:
        self.prefix = prefix
        self.at = at
        self.is_asked = False
        self.waiting: asyncio.Future[None] | None = None

    async def wait(self, seconds: float) -> None:
        """Until something is there for it, or it is time to tell its progress."""
        self.waiting = asyncio.get_running_loop().create_future()
        try:
            done, _ = await asyncio.wait([self.waiting], timeout=seconds)
            self.is_asked = self.is_asked or not done
        finally:
            self.waiting = None

    def wake(self) -> None:
        if self.waiting is not None and not self.waiting.done():
            self.waiting.set_result(None)
