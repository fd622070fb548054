"""The last changes, held in memory: from which revision on they are all there, and which came after another one."""

from bisect import bisect_right
from collections.abc import Sequence
from operator import attrgetter
from typing import Final

from pykubelet.apiserver.store.port import Event

_OVERHEAD: Final = 500
"""Bytes that an event takes besides its values."""
_revision = attrgetter("revision")


class Window:
    """Forgets the oldest when there are more than `most` events, or more than `most_bytes` in them; 0: never."""

    def __init__(self, since: int, *, most: int = 0, most_bytes: int = 0) -> None:
        self.since = since
        """Every change after this revision is here."""
        self._most = most
        self._most_bytes = most_bytes
        self._events: list[Event] = []
        self._first = 0
        """Where in the list the window begins: what is before is dropped in bulk, since each drop moves the rest."""
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._events) - self._first

    def append(self, event: Event) -> None:
        """Events come in order. Several may have one revision, and then they leave together."""
        self._events.append(event)
        self._bytes += _size(event)
        while len(self) > 1 and self._is_full():
            self.forget(self._events[self._first].revision)

    def after(self, revision: int) -> Sequence[Event]:
        """The changes after a revision that is not before `since`."""
        return self._events[bisect_right(self._events, revision, self._first, key=_revision) :]

    def forget(self, revision: int) -> None:
        """Up to and with this revision."""
        end = bisect_right(self._events, revision, self._first, key=_revision)
        self._bytes -= sum(map(_size, self._events[self._first : end]))
        self._first = end
        self.since = max(self.since, revision)
        if self._first > 64 and self._first > len(self):
            del self._events[: self._first]
            self._first = 0

    def _is_full(self) -> bool:
        return bool((self._most and len(self) > self._most) or (self._most_bytes and self._bytes > self._most_bytes))


def _size(event: Event) -> int:
    return len(event.value) + len(event.previous or b"") + _OVERHEAD
