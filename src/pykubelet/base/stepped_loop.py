"""An event loop that does nothing by itself: somebody sets its clock, hands it what has come, and lets it run until
everybody waits. Given the same steps, the same tasks do the same in the same order: that is what a replay needs.

It knows timers, futures and tasks, and neither sockets nor threads. It may run inside of a callback of another loop.
"""

import asyncio
import itertools
import logging
import random
from collections import deque
from collections.abc import Callable, Coroutine
from contextvars import Context
from heapq import heapify, heappop, heappush
from typing import Any, Final, TypeVar

log = logging.getLogger(__name__)

T = TypeVar("T")

_MOST_CALLS: Final = 5_000_000
"""In one step. Whoever needs more will never come to rest."""
_FEW: Final = 100


class EndlessStep(RuntimeError):
    """Somebody does something again and again without waiting for anything."""


class _NumberedTask(asyncio.Task[T]):
    """Sets of tasks have the same order in each replay: a TaskGroup cancels its tasks in that of a set."""

    def __init__(self, number: int, coro: Coroutine[Any, Any, T], **options: Any) -> None:
        self._number = number
        super().__init__(coro, **options)

    def __hash__(self) -> int:
        return self._number


class SteppedLoop(asyncio.AbstractEventLoop):
    def __init__(self, *, seed: int, now: float = 0.0) -> None:
        self.chance = random.Random(seed)
        self.is_stepping = False
        self._now = now
        self._ready: deque[asyncio.Handle] = deque()
        self._timers: list[tuple[float, int, asyncio.TimerHandle]] = []
        """By their time; of the same time in the order in which they were set."""
        self._numbers = itertools.count()
        self._cancelled = 0
        self._calls = 0

    # --- for who drives it

    @property
    def due(self) -> float | None:
        """When it wants to be stepped again, if nothing comes before; None: never."""
        while self._timers and self._timers[0][2].cancelled():
            heappop(self._timers)
            self._cancelled -= 1
        return self._timers[0][0] if self._timers else None

    def begin(self, now: float) -> None:
        """A step begins: for as long as it takes, this is the time."""
        self._now = max(now, self._now)
        self._calls = 0

    def run(self, is_enough: Callable[[], bool] = lambda: False) -> bool:
        """Until everybody waits. -> False: it was interrupted, since it was enough, and there is more to do."""
        outer = asyncio._get_running_loop()
        asyncio._set_running_loop(self)
        self.is_stepping = True
        try:
            while self._ready or self._wake_timers():
                self._ready.popleft()._run()
                self._calls += 1
                if self._calls > _MOST_CALLS:
                    raise EndlessStep("a step does not come to an end")
                if is_enough():
                    return not self._ready
            return True
        finally:
            self.is_stepping = False
            asyncio._set_running_loop(outer)

    def _wake_timers(self) -> bool:
        while (due := self.due) is not None and due <= self._now:
            handle = heappop(self._timers)[2]
            handle._scheduled = False  # type: ignore[attr-defined]
            self._ready.append(handle)
        return bool(self._ready)

    # --- for who runs in it

    def time(self) -> float:
        return self._now

    def call_soon(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        handle = asyncio.Handle(callback, args, self, context)
        self._ready.append(handle)
        return handle

    def call_later(  # type: ignore[override]
        self, delay: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        return self.call_at(self._now + delay, callback, *args, context=context)

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        handle = asyncio.TimerHandle(when, callback, args, self, context)
        handle._scheduled = True  # type: ignore[attr-defined]
        heappush(self._timers, (when, next(self._numbers), handle))
        return handle

    def create_future(self) -> "asyncio.Future[Any]":
        return asyncio.Future(loop=self)

    def create_task(self, coro: Coroutine[Any, Any, T], **options: Any) -> "asyncio.Task[T]":  # type: ignore[override]
        return _NumberedTask(next(self._numbers), coro, loop=self, **options)

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return self.is_stepping

    def is_closed(self) -> bool:
        return False

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        log.error("%s", context.get("message"), exc_info=context.get("exception"))

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """Most timers are cancelled long before they are due: they must not pile up."""
        self._cancelled += 1
        if self._cancelled > _FEW and self._cancelled * 2 > len(self._timers):
            self._timers = [each for each in self._timers if not each[2].cancelled()]
            heapify(self._timers)
            self._cancelled = 0


def stepped_loop(*, seed: int, now: float = 0.0) -> SteppedLoop:
    return SteppedLoop(seed=seed, now=now)  # type: ignore[abstract]  # of all that loops may have, it has what is used
