"""Long-running work that is owned by somebody: started in a TaskGroup, restarted when it breaks, ended with it."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from pykubelet.base.backoff import Backoff

log = logging.getLogger(__name__)

T = TypeVar("T")
Work = Callable[[], Awaitable[None]]
"""Something that has to run for as long as its owner does."""


async def supervise(name: str, work: Work) -> None:
    """Keep `work` going for ever: an error is logged with its traceback, and after a pause it starts again.

    Only who cancels this task ends it: a CancelledError that leaks out of the work itself is an error like any other.
    """
    task = asyncio.current_task()
    backoff = Backoff(1.0, 60.0, now=asyncio.get_running_loop().time)
    while True:
        try:
            await work()
            reason = "ended by itself"
        except (Exception, asyncio.CancelledError) as error:  # the boundary: one room's failure is not the agent's
            if isinstance(error, asyncio.CancelledError) and (task is None or task.cancelling()):
                raise
            log.exception("%s failed", name)
            reason = "failed"
        delay = backoff.next()
        log.warning("%s %s; starting it again in %.1f s", name, reason, delay)
        await asyncio.sleep(delay)


async def unless(told: Coroutine[Any, Any, object], work: Coroutine[Any, Any, T]) -> T | None:
    """What comes of the work; None when the other one is done first: then the work is cancelled."""
    tasks = telling, working = asyncio.create_task(told), asyncio.create_task(work)
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        return None if telling.done() else working.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def every(period: float) -> AsyncIterator[None]:
    """Yield now and then once every `period` seconds. A slow body delays the next turn; turns never pile up."""
    loop = asyncio.get_running_loop()
    due = loop.time()
    while True:
        yield
        due = max(due + period, loop.time())
        await asyncio.sleep(due - loop.time())
