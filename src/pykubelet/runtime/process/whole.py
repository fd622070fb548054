"""Work that is done whole or not at all, whoever is tired of waiting for it."""

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any, TypeVar

log = logging.getLogger(__name__)
T = TypeVar("T")


class Whole:
    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Who is cancelled meanwhile does not leave half of it behind."""
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._over)
        return await asyncio.shield(task)

    async def close(self) -> None:
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _over(self, task: "asyncio.Task[Any]") -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            log.debug("a start or a sandbox failed: %s", task.exception())  # its caller has it, unless it was cancelled
