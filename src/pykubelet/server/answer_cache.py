"""Answers that hold for a while: bounded in number and in time, and one question at a time for all who ask the same."""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

V = TypeVar("V")


class AnswerCache(Generic[V]):
    """A cache of what somebody else said. Times are the event loop's; the answer used longest ago makes room.

    Failures are not kept, but everybody who was waiting for the answer gets them.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._known: OrderedDict[bytes, tuple[float, V]] = OrderedDict()
        self._asking: dict[bytes, _Question[V]] = {}

    def __len__(self) -> int:
        return len(self._known)

    async def get(self, key: bytes, ask: Callable[[], Awaitable[V]], holds: Callable[[V], float]) -> V:
        """The answer to a question. `holds` says for how many seconds one is good."""
        loop = asyncio.get_running_loop()
        if (known := self._known.get(key)) is not None:
            until, value = known
            if loop.time() < until:
                self._known.move_to_end(key)
                return value
            del self._known[key]
        question = self._asking.get(key)
        if question is None:
            question = self._asking[key] = _Question(asyncio.ensure_future(self._answer(key, ask, holds)))
        question.waiting += 1
        try:
            return await asyncio.shield(question.task)
        finally:
            question.waiting -= 1
            if not question.waiting:  # nobody wants to know any more
                question.task.cancel()
                if self._asking.get(key) is question:
                    del self._asking[key]

    async def _answer(self, key: bytes, ask: Callable[[], Awaitable[V]], holds: Callable[[V], float]) -> V:
        value = await ask()
        if (seconds := holds(value)) > 0:
            self._known[key] = asyncio.get_running_loop().time() + seconds, value
            self._known.move_to_end(key)
            while len(self._known) > self._size:
                self._known.popitem(last=False)
        return value


class _Question(Generic[V]):
    def __init__(self, task: asyncio.Future[V]) -> None:
        self.task = task
        self.waiting = 0
