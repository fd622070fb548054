"""Whose start comes next: with few at a time the first pods of a burst are ready while the last ones still wait.

Only calls to the runtime take a turn. What waits for something else, such as a pull, a volume or a hook, keeps nobody
from starting, and whatever ends a container never waits.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from heapq import heappop, heappush
from itertools import count
from typing import Final

from pykubelet.api.pod import Pod
from pykubelet.api.rules.pod_kinds import is_critical
from pykubelet.pod.lifecycle.start_limit import StartLimit

_Rank = tuple[bool, int, bool, datetime, int]

_EVER: Final = datetime.min.replace(tzinfo=UTC)
_PATIENCE: Final = 5.0
"""A call that takes longer than that waits for something, and somebody else may use the time."""


class _Once:
    """A turn is given back by the end of its call or by impatience, whichever comes first."""

    def __init__(self, act: Callable[[], None]) -> None:
        self._act: Callable[[], None] | None = act

    def __call__(self) -> None:
        act, self._act = self._act, None
        if act is not None:
            act()


class StartQueue:
    """What the node depends on first; then the highest priority; then what was begun, so that it gets done; then the
    oldest."""

    def __init__(self) -> None:
        self._limit = StartLimit()
        self._running = 0
        self._waiting: list[tuple[_Rank, asyncio.Future[None]]] = []
        self._numbers = count()

    @asynccontextmanager
    async def turn(self, pod: Pod, kind: str, *, begun: bool) -> AsyncIterator[None]:
        """Run one call to the runtime when it is this pod's turn."""
        if self._running < int(self._limit.allowed):
            self._running += 1
        else:
            await self._wait(_rank(pod, begun, next(self._numbers)))
        running, loop = self._running, asyncio.get_running_loop()
        leave = _Once(self._leave)
        began, impatience = loop.time(), loop.call_later(_PATIENCE, leave)
        try:
            yield
            self._limit = self._limit.learned(kind, loop.time() - began, running)
        finally:
            impatience.cancel()
            leave()

    async def _wait(self, rank: _Rank) -> None:
        called: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heappush(self._waiting, (rank, called))
        try:
            await called
        except asyncio.CancelledError:
            if not called.cancelled():  # it had just been called: somebody else may go
                self._leave()
            raise

    def _leave(self) -> None:
        self._running -= 1
        while self._waiting and self._running < int(self._limit.allowed):
            _, called = heappop(self._waiting)
            if not called.done():
                self._running += 1
                called.set_result(None)


def _rank(pod: Pod, begun: bool, number: int) -> _Rank:
    return not is_critical(pod), -(pod.spec.priority or 0), not begun, pod.metadata.creation_timestamp or _EVER, number
