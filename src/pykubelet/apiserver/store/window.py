"""The last changes, held in memory: what came after a revision, or that it is too old to be told (410)."""

from bisect import bisect_right
from collections.abc import Sequence
from operator import attrgetter
from typing import Final

from pykubelet.apiserver.store.port import Event, Expired

_OVERHEAD: Final = 500
"""Bytes that an event takes besides its values."""
_WARM: Final = 256
"""Events that keep what readers made of them: who follows is told of the last ones, and others make it again."""
_DROPPED: Final = 8
"""One place in so many may be that of an event which is forgotten: to drop each by itself would move all others."""
_revision = attrgetter("revision")


class Window:
    """Forgets the oldest when there are more than `most` events, or more than `most_bytes` in them."""

    def __init__(self, since: int, *, most: int, most_bytes: int) -> None:
        self.since = since
        """Every change after this revision is here."""
        self._most = most
        self._most_bytes = most_bytes
        self._events: list[Event] = []
        self._first = 0
        """Where in the list the window begins: what is before is dropped in bulk."""
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._events) - self._first

    def append(self, event: Event) -> None:
        """Events come in order. Several may have one revision, and then they leave together."""
        self._events.append(event)
        self._bytes += _size(event)
        if len(self._events) > _WARM:
            self._events[-_WARM - 1].cache.clear()
        while len(self) > 1 and (len(self) > self._most or self._bytes > self._most_bytes):
            self._forget(self._events[self._first].revision)

    def is_too_old(self, revision: int) -> bool:
        """Whether some change after this revision is forgotten: 410 Gone for who wants to go on from there."""
        return revision < self.since

    def after(self, revision: int) -> Sequence[Event]:
        """The changes after a revision. Expired when it is too old."""
        if self.is_too_old(revision):
            raise Expired(f"revision {revision} is too old: changes are known after {self.since}; list again")
        return self._events[bisect_right(self._events, revision, self._first, key=_revision) :]

    def age(self, revision: int, least: int) -> None:
        """Forget what came up to a revision, which was long ago, but for the last `least` of all."""
        end = min(bisect_right(self._events, revision, self._first, key=_revision), len(self._events) - least)
        if end > self._first:
            self._forget(self._events[end - 1].revision)

    def _forget(self, revision: int) -> None:
        end = bisect_right(self._events, revision, self._first, key=_revision)
        self._bytes -= sum(map(_size, self._events[self._first : end]))
        self._first = end
        self.since = revision
        if self._first > 64 and self._first * _DROPPED > len(self._events):
            del self._events[: self._first]
            self._first = 0


def _size(event: Event) -> int:
    return len(event.value) + len(event.previous or b"") + _OVERHEAD
