"""How long a loop is held: by one step of its own, or by other threads that do not let it have its turn."""

import asyncio
import threading
import time
from asyncio import events
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

_BEAT: Final = 0.002


class LoopHold:
    """`step`: seconds that the longest step computed; `beside`: the most that other threads computed between two turns
    of the loop that should have come at once. Neither grows when the machine is busy with something else."""

    def __init__(self) -> None:
        self.step = 0.0
        self.beside = 0.0
        self.where = ""

    def forget(self) -> None:
        self.step = self.beside = 0.0
        self.where = ""

    async def _beat(self) -> None:
        while True:
            began = time.process_time() - time.thread_time()
            await asyncio.sleep(_BEAT)
            self.beside = max(self.beside, time.process_time() - time.thread_time() - began)


@contextmanager
def watched_loop() -> Iterator[LoopHold]:
    """The loop that runs now, in this thread, until the end of the block."""
    hold, own, run = LoopHold(), threading.get_ident(), events.Handle._run

    def timed(handle: Any) -> None:
        if threading.get_ident() != own:
            run(handle)
            return
        began = time.thread_time()
        run(handle)
        took = time.thread_time() - began
        if took > hold.step:
            hold.step, hold.where = took, repr(handle)[:200]

    beating = asyncio.ensure_future(hold._beat())
    events.Handle._run = timed  # type: ignore[assignment,method-assign]
    try:
        yield hold
    finally:
        events.Handle._run = run  # type: ignore[method-assign]
        beating.cancel()


def slowness() -> float:
    """Of this machine, now: 1 is one that does a million additions in 40 ms."""
    best = min(_counted() for _ in range(5))
    return max(1.0, best / 0.04)


def _counted() -> float:
    began, total = time.thread_time(), 0
    for each in range(1_000_000):
        total += each
    return time.thread_time() - began
