"""Waiting for something to come true, with a deadline. Never for luck."""

import asyncio
import time
from collections.abc import Callable


async def eventually(condition: Callable[[], object], *, seconds: float = 30.0) -> None:
    """Return once `condition()` is true. The deadline counts on the loop's clock, which in most tests is virtual."""
    pause = 0.01
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(pause)
            pause = min(pause * 1.2, 1.0)


def wait_for(
    condition: Callable[[], object], *, seconds: float = 60.0, otherwise: Callable[[], object] = lambda: ""
) -> None:
    """The same without a loop, on the real clock. `otherwise` has something to say when it does not come true."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"it has not come true within {seconds:g} s {otherwise()}")
        time.sleep(0.03)
