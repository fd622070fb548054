"""How many starts the runtime really does in parallel, learned from how long they take.

As long as a call takes no longer than the quickest of its kind did, one more at a time costs nothing; once they slow
each other down, more of them at a time only means that all of them end late.
"""

from collections.abc import Mapping
from math import sqrt
from typing import Final, Self

from msgspec import Struct

LEAST: Final = 2.0
MOST: Final = 64.0
_SMOOTHING: Final = 0.2
_STEEPEST: Final = 0.5
_FORGETTING: Final = 1.002
"""The quickest call ever was perhaps made on an empty machine: each later one makes it count a little less."""
_AT_ONCE: Final = 0.001
"""Differences below that many seconds say nothing."""


class StartLimit(Struct, frozen=True, kw_only=True):
    allowed: float = 4.0
    quickest: Mapping[str, float] = {}
    """Seconds, by the kind of call."""

    def learned(self, kind: str, seconds: float, running: int) -> Self:
        """After a call that took so long, with so many running. A runtime that has little to do says nothing about how
        much it could do."""
        seconds = max(seconds, _AT_ONCE)
        quickest = min(seconds, self.quickest.get(kind, seconds) * _FORGETTING)
        allowed = self.allowed
        if running >= int(allowed):
            slope = max(_STEEPEST, quickest / seconds)
            wanted = allowed * slope + sqrt(allowed)
            allowed = min(MOST, max(LEAST, allowed + _SMOOTHING * (wanted - allowed)))
        return type(self)(allowed=allowed, quickest={**self.quickest, kind: quickest})
