"""Keeps events from becoming noise: one that repeats is counted, many that are alike become one, and of too many about
one object some are left out."""

from collections import OrderedDict
from typing import Final, TypeVar

import msgspec

T = TypeVar("T")

_SIMILAR: Final = 10
_SIMILAR_FOR: Final = 600.0
_BURST: Final = 25
_REFILL: Final = 1 / 300
_KNOWN: Final = 4096
COMBINED: Final = "(combined from similar events): "

Group = tuple[str, ...]
"""What makes events similar: who tells, about what, of which type, and why."""


class Told(msgspec.Struct):
    """An event that is in the store."""

    name: str
    count: int
    first: str


class _Similar(msgspec.Struct):
    messages: set[str]
    at: float


class _Bucket(msgspec.Struct):
    tokens: float
    at: float


class Correlation(msgspec.Struct, frozen=True):
    """What becomes of an event: it has this message, and counts as this one, which may have been told before."""

    message: str
    key: Group
    told: Told | None


class EventCorrelator:
    """What is known of the last few thousand; of what was longer ago, each event is news."""

    def __init__(self) -> None:
        self._similar: OrderedDict[Group, _Similar] = OrderedDict()
        self._told: OrderedDict[Group, Told] = OrderedDict()
        self._buckets: OrderedDict[Group, _Bucket] = OrderedDict()

    def correlate(self, source: Group, group: Group, message: str, now: float) -> Correlation | None:
        """None: there were too many from this source already."""
        similar = self._similar.get(group)
        if similar is None or now - similar.at > _SIMILAR_FOR:
            similar = _Similar(set(), now)
        similar.messages.add(message)
        similar.at = now
        _keep(self._similar, group, similar)
        while next(iter(self._similar.values())).at < now - _SIMILAR_FOR:
            self._similar.popitem(last=False)
        key = (*group, message)
        if len(similar.messages) >= _SIMILAR:
            similar.messages.pop()
            key, message = group, f"{COMBINED}{message}"
        if not self._has_token(source, now):
            return None
        return Correlation(message, key, self._told.get(key))

    def tell(self, key: Group, told: Told) -> None:
        _keep(self._told, key, told)

    def _has_token(self, source: Group, now: float) -> bool:
        bucket = self._buckets.get(source) or _Bucket(_BURST, now)
        bucket.tokens = min(_BURST, bucket.tokens + (now - bucket.at) * _REFILL)
        bucket.at = now
        _keep(self._buckets, source, bucket)
        if bucket.tokens < 1:
            return False
        bucket.tokens -= 1
        return True


def _keep(known: OrderedDict[Group, T], key: Group, value: T) -> None:
    known[key] = value
    known.move_to_end(key)
    if len(known) > _KNOWN:
        known.popitem(last=False)
