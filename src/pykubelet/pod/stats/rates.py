"""How fast counters grow, and how busy it was of late: what follows from two readings and the time between them."""

import math

from pykubelet.pod.stats.stats import TaskStates


class Loads:
    """How many processes ran of late, and how many could not be interrupted: each look counts the more, the longer ago
    the one before it was."""

    def __init__(self, *, window: float = 10.0) -> None:
        self._window = window * 1e9
        self._known: dict[str, tuple[int, float, float]] = {}
        self._seen: set[str] = set()

    def of(self, key: str, at: int, states: TaskStates) -> tuple[int, int]:
        self._seen.add(key)
        then, *before = self._known.get(key, (at, 0.0, 0.0))
        kept = math.exp(-max(at - then, 0) / self._window)
        running, stuck = (
            old * kept + now * 1000 * (1 - kept)
            for old, now in zip(before, (states.running, states.uninterruptible), strict=True)
        )
        self._known[key] = (at, running, stuck)
        return round(running), round(stuck)

    def forget_others(self) -> None:
        """Those that nobody has asked about since the last call."""
        self._known = {key: known for key, known in self._known.items() if key in self._seen}
        self._seen = set()


class Rates:
    """How fast counters of processor time grow, each compared with its value of some seconds ago.

    The older value is kept until it is `window` seconds old: people who ask in quick succession see nearly the same
    rate, not the jitter of the last instant. Less than `least` seconds say nothing.
    """

    def __init__(self, *, window: float = 10.0, least: float = 0.5) -> None:
        self._window = round(window * 1e9)
        self._least = round(least * 1e9)
        self._base: dict[str, tuple[int, int]] = {}
        self._seen: set[str] = set()

    def of(self, key: str, at: int, counter: int) -> int | None:
        """Nanoseconds of processor time in each second; None when there is nothing to compare with."""
        self._seen.add(key)
        then, before = self._base.get(key, (at, counter))
        if counter < before or at < then:  # another one under the same name
            then, before = at, counter
        elapsed = at - then
        if elapsed >= self._window or elapsed == 0:
            self._base[key] = (at, counter)
        return (counter - before) * 1_000_000_000 // elapsed if elapsed >= self._least else None

    def forget_others(self) -> None:
        """Those that nobody has asked about since the last call."""
        self._base = {key: base for key, base in self._base.items() if key in self._seen}
        self._seen = set()
