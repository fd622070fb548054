"""Blocking work, done in a thread so that everybody else goes on."""

import asyncio
import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


async def in_thread(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run `work` in a thread. Who is cancelled meanwhile still waits for it to end, since no thread can be stopped:
    what comes next for the same pod must not meet work of before that is still going on."""
    thread = asyncio.get_running_loop().run_in_executor(None, functools.partial(work, *args, **kwargs))
    cancelled: asyncio.CancelledError | None = None
    while not thread.done():
        try:
            await asyncio.wait([thread])
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        thread.exception()  # nobody is left to hear of it
        raise cancelled
    return thread.result()
