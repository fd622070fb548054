"""What an API server said to an earlier agent, for one that cannot reach it: a machine that comes up without its
network runs the pods that it ran before, with what they had.

It is believed as soon as the server is known not to answer, or after a moment in which it has not said a word. A server
that has answered anything is waited for as always.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final, TypeVar

from pykubelet.api import codec
from pykubelet.api.codec import DecodeError
from pykubelet.base.errors import Retry
from pykubelet.pod.ports.machine import LastKind, LastKnown

log = logging.getLogger(__name__)

T = TypeVar("T")

_MOMENT: Final = 2.0


class Before:
    """`has_answered` tells whether the server ever has, since this agent has come."""

    def __init__(self, known: LastKnown | None = None, *, has_answered: Callable[[], bool] = lambda: True) -> None:
        self._known = known
        self._has_answered = has_answered
        self._deadline: float | None = None

    def recall(self, what: type[T], kind: LastKind, *key: str) -> T | None:
        content = self._known.recall(kind, *key) if self._known is not None else None
        with suppress(DecodeError):
            return codec.decode(what, content) if content is not None else None
        log.warning("what was kept of %s %s cannot be read", kind, "/".join(key))
        return None

    def save(self, kind: LastKind, *key: str, value: Callable[[], object]) -> None:
        if self._known is not None:
            self._known.save(kind, *key, content=lambda: codec.encode(value()))

    def drop(self, kind: LastKind, *key: str) -> None:
        if self._known is not None:
            self._known.drop(kind, *key)

    async def or_else(self, ask: Awaitable[T], known: T) -> T:
        """What the server says, or what is `known` while it says nothing. Raises what `ask` does but Retry."""
        try:
            async with asyncio.timeout_at(self._until()):
                return await ask
        except (Retry, TimeoutError) as error:
            log.debug("what was known before is believed: %s", error)
            return known

    def unkept(self, kind: LastKind) -> str:
        """Why there is nothing to believe, if that is so because nobody wants it kept."""
        if self._known is None or self._known.keeps(kind):
            return ""
        return "; it is not kept on this machine, --keep-secrets would have it kept"

    def _until(self) -> float | None:
        """On the loop's clock."""
        if self._has_answered():
            return None
        if self._deadline is None:
            self._deadline = asyncio.get_running_loop().time() + _MOMENT
        return self._deadline
