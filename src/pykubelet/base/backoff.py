"""How long to wait before the next try."""

from collections.abc import Callable

from pykubelet.base.chance import chance


class Backoff:
    """Exponential delays with jitter, which start over after a quiet time without failures.

    `now` is any clock that only goes forward, such as the event loop's. `jitter` is the
    most that is added, as a fraction of the delay, so that many agents do not knock on one door at the same moment;
    no delay is longer than `maximum`.
    """

    def __init__(
        self,
        initial: float,
        maximum: float,
        *,
        now: Callable[[], float],
        factor: float = 2.0,
        jitter: float = 1.0,
        reset_after: float | None = None,
    ) -> None:
        self._initial = initial
        self._maximum = maximum
        self._factor = factor
        self._jitter = jitter
        self._now = now
        self._reset_after = 2 * maximum if reset_after is None else reset_after
        self._delay = initial
        self._failed_at: float | None = None

    def next(self) -> float:
        """The delay after one more failure."""
        now = self._now()
        if self._failed_at is not None and now - self._failed_at > self._reset_after:
            self.reset()
        self._failed_at = now
        delay, self._delay = self._delay, min(self._delay * self._factor, self._maximum)
        low, high = min(delay, self._maximum / (1 + self._jitter)), min(delay * (1 + self._jitter), self._maximum)
        return chance().uniform(low, high)

    def reset(self) -> None:
        """Things are well again: the next failure waits the least."""
        self._delay = self._initial
        self._failed_at = None
