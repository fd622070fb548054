"""Objects that pods use, kept for a while: a node with a hundred pods must not ask for the same one a hundred times,
and pods that have them go on while the server does not answer."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final, Generic, Protocol, TypeVar

from pykubelet.base.errors import NotFound, PykubeletError, Retry

log = logging.getLogger(__name__)

_HOLDS: Final = 45.0
"""Less than the time between two syncs of a pod: each of them sees what has changed since the last."""
_FORGOTTEN: Final = 600.0


class MayBeImmutable(Protocol):
    @property
    def immutable(self) -> bool | None: ...


T = TypeVar("T", bound=MayBeImmutable)


class _Entry(Generic[T]):
    def __init__(self) -> None:
        self.value: T | None = None
        self.error: PykubeletError | None = None
        """What came of asking, when that was not the object."""
        self.until = 0.0
        self.used = 0.0
        self.asked = 0
        """The number of the newest question that was answered."""
        self.turn = asyncio.Lock()
        """Whoever holds it asks the server; it guards no state."""


class ObjectCache(Generic[T]):
    """`fetch` takes a namespace and a name. `what` names the kind, as upstream does when there is none."""

    def __init__(self, what: str, fetch: Callable[[str, str], Awaitable[T]]) -> None:
        self._what = what
        self._fetch = fetch
        self._entries: dict[tuple[str, str], _Entry[T]] = {}
        self._questions = 0

    async def get(self, namespace: str, name: str, *, fresh: bool = False) -> T:
        """`fresh`: as it is now. Otherwise what was had lately will do, and what can never change for good."""
        if not name:  # without one, the path would be that of all objects
            raise NotFound(f'{self._what} "" not found')
        now = asyncio.get_running_loop().time()
        entry = self._entry((namespace, name), now)
        if not fresh and entry.value is not None and (now < entry.until or entry.value.immutable):
            return entry.value
        question = self._next()
        async with entry.turn:
            if entry.asked < question:  # else somebody has asked after us, and that answer is good enough
                await self._ask(namespace, name, entry)
        if entry.error is not None:
            raise entry.error.with_traceback(None)
        assert entry.value is not None
        return entry.value

    async def _ask(self, namespace: str, name: str, entry: _Entry[T]) -> None:
        question = self._next()
        error: PykubeletError | None = None
        try:
            entry.value = await self._fetch(namespace, name)
            entry.until = asyncio.get_running_loop().time() + _HOLDS
        except NotFound:
            entry.value, error = None, NotFound(f'{self._what} "{name}" not found')
        except Retry as failure:
            entry.until = 0.0
            if entry.value is None:
                error = failure
            else:
                log.info("%s %s/%s is taken for what it was: %s", self._what, namespace, name, failure)
        except PykubeletError as failure:
            entry.until, error = 0.0, failure
        entry.error, entry.asked = error, question

    def _next(self) -> int:
        self._questions += 1
        return self._questions

    def _entry(self, key: tuple[str, str], now: float) -> _Entry[T]:
        entry = self._entries.get(key)
        if entry is None:
            old = [k for k, each in self._entries.items() if now - each.used > _FORGOTTEN and not each.turn.locked()]
            for each in old:
                del self._entries[each]
            entry = self._entries[key] = _Entry()
        entry.used = now
        return entry
