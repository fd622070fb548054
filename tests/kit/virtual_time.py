"""An event loop whose clock jumps to the next timer when nothing else can run: five minutes of back-off take no time.

Sockets, files and inotify are real. Work for threads runs at once, on the spot, so that no time passes behind its back.
"""

import asyncio
import functools
import selectors
import threading
from collections.abc import Callable, Coroutine
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

_GRACE = 0.001  # real seconds in which a socket's other end may still answer, before the clock jumps


class _JumpingSelector(selectors.DefaultSelector):
    loop: "VirtualTimeLoop"

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if ready or (timeout is not None and timeout <= 0):
            return ready
        if self.loop.may_hear_from_outside():
            ready = super().select(_GRACE)
            if ready:
                return ready
        if timeout is None:
            raise RuntimeError("deadlock: every task waits, and no timer is set")
        self.loop.virtual_now += timeout
        return []


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        selector = _JumpingSelector()
        selector.loop = self
        self.virtual_now = 0.0
        super().__init__(selector)
        self._selector = selector
        self._own = len(selector.get_map()), threading.active_count()

    def may_hear_from_outside(self) -> bool:
        """Whether there is a socket or a thread besides those that were there before anything ran."""
        return (len(self._selector.get_map()), threading.active_count()) != self._own

    def time(self) -> float:
        return self.virtual_now

    def run_in_executor(self, executor: Any, func: Callable[..., T], *args: Any) -> "asyncio.Future[T]":  # type: ignore[override]
        future: asyncio.Future[T] = self.create_future()
        try:
            future.set_result(func(*args))
        except BaseException as error:
            future.set_exception(error)
        return future


def virtual_time(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """Run an async test on virtual time."""

    @functools.wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
            runner.run(test(*args, **kwargs))

    return run
