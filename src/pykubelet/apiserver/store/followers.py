"""Who follows a store inside this process: every change is handed on as it is written, and none is kept here.

What came before is read from the store's own log; the last changes are for the watch cache to remember.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from typing import Final

from pykubelet.apiserver.store.port import Bookmark, Event, TooSlow
from pykubelet.apiserver.store.watchers import Watcher
from pykubelet.base.errors import Retry

_MOST: Final = 4_096
"""Changes that may wait for one follower. Who has more goes on from the log."""
Older = Callable[[str, int, int], Awaitable[tuple[Sequence[Event], int]]]
"""(prefix, after, up to): some of the oldest of these changes, and the revision up to which they are all. Expired."""


class Followers:
    """Everything but `follow` is a plain function, called in the event loop."""

    def __init__(self, revision: int, older: Older) -> None:
        self.revision = revision
        self._older = older
        self._followers: set[Watcher] = set()
        self._is_closed = False

    def publish(self, events: Sequence[Event]) -> None:
        """These changes, in order, are there for good."""
        self.revision = events[-1].revision
        for follower in self._followers:
            at = follower.since
            for event in events:
                if event.revision > follower.since and event.key.startswith(follower.prefixes):
                    follower.put(event, _MOST)
                    at = event.revision
            if at < self.revision:
                follower.put(Bookmark(self.revision), _MOST)

    def close(self) -> None:
        self._is_closed = True
        for follower in self._followers:
            follower.fail(Retry("the store is closed"))

    async def follow(self, prefix: str, since: int) -> AsyncGenerator[Event | Bookmark, None]:
        """As `Store.watch`. Bookmark is told with each change that is somewhere else."""
        at = since
        while not self._is_closed:
            now = self.revision
            follower = Watcher(prefix, max(at, now))
            self._followers.add(follower)
            try:
                while at < now:
                    older, at = await self._older(prefix, at, now)
                    for event in older:
                        yield event
                    yield Bookmark(at)
                while True:
                    for told in await follower.next():
                        at = told.revision
                        yield told
            except TooSlow:
                pass  # the log has what it missed
            finally:
                self._followers.discard(follower)
        raise Retry("the store is closed")
