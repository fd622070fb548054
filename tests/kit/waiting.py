"""Waiting for something to come true, with a deadline. Never for luck."""

import asyncio
from collections.abc import Callable


async def eventually(condition: Callable[[], object], *, seconds: float = 30.0) -> None:
    """Return once `condition()` is true. The deadline counts on the loop's clock, which in most tests is virtual."""
    pause = 0.01
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(pause)
            pause = min(pause * 1.2, 1.0)
