"""That a pod has to go, and what is said of it."""

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

AT_ONCE: Final = 1
"""Seconds of grace for a pod that has taken what it was not given, or what the node cannot do without."""


class Eviction(Struct, frozen=True):
    """That a pod has to go."""

    signal: str
    """Which measure said so, as the metric of evictions names it."""
    message: str
    grace: int = AT_ONCE
    annotations: Mapping[str, str] = {}
    """What programs may read of the event."""
    is_disruption: bool = False
    """The node runs short: it is not the pod's own fault alone, and one that stops anyway has to hurry."""
    age: float | None = None
    """Seconds since that was measured which said so."""
