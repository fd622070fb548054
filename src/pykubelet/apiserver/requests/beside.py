"""Work that takes long, done beside the loop: whoever sends a large object waits for it, and nobody else does.

There is one thread for it. Python switches between it and the loop every few milliseconds, so that a second one would
only make everybody slower. Who waits for it is served in turn: a thousand large objects of one user are one of two in
the queue when another comes.
"""

import asyncio
import gc
import inspect
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Any, Final, TypeVar

T = TypeVar("T")

_PATIENCE: Final = 60.0
"""Seconds for which the thread waits for the loop: it only has to, when the program is about to end."""


class Turns:
    """One at a time, and those who wait one after the other, however often each of them has asked."""

    def __init__(self) -> None:
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}
        self._is_taken = False

    @asynccontextmanager
    async def turn(self, who: str) -> AsyncIterator[None]:
        if self._is_taken:
            mine = asyncio.get_running_loop().create_future()
            self._waiting.setdefault(who, deque()).append(mine)
            try:
                await mine
            except asyncio.CancelledError:
                if mine.done() and not mine.cancelled():
                    self._next()  # it was given the turn, and does not need it any more
                raise
        self._is_taken = True
        try:
            yield
        finally:
            self._next()

    def _next(self) -> None:
        while self._waiting:
            who = next(iter(self._waiting))
            queue = self._waiting.pop(who)
            first = queue.popleft()
            if queue:
                self._waiting[who] = queue  # behind all others
            if not first.done():
                first.set_result(None)
                return
        self._is_taken = False


class Beside:
    """The thread."""

    def __init__(self) -> None:
        self._turns = Turns()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="beside")

    async def run(self, who: str, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """What the coroutine returns that `work` makes: it runs in the thread, and may wait for nothing but what is
        `Across`."""
        async with self._turns.turn(who):
            return await asyncio.get_running_loop().run_in_executor(self._thread, _uncollected, work)


class Across:
    """What belongs to the loop, for use in the thread: its coroutines run in the loop while the thread waits."""

    def __init__(self, there: object, loop: asyncio.AbstractEventLoop) -> None:
        self._there = there
        self._loop = loop

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._there, name)
        if not inspect.iscoroutinefunction(found):
            return found

        async def across(*args: Any, **options: Any) -> Any:
            return asyncio.run_coroutine_threadsafe(found(*args, **options), self._loop).result(_PATIENCE)

        return across


def _uncollected(work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """A look for garbage among a million values takes long, and holds everybody; and there are no circles in JSON."""
    gc.disable()
    try:
        return _finished(work())
    finally:
        gc.enable()


def _finished(work: Coroutine[Any, Any, T]) -> T:
    """It never really waits: at most it lets others have a turn, which they have here anyway."""
    try:
        while work.send(None) is None:
            continue
    except StopIteration as over:
        result: T = over.value
        return result
    work.close()
    raise RuntimeError("what runs beside the loop may wait for nothing that belongs to it")
