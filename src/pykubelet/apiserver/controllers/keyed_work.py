"""Which owners have to be looked at again: each by one worker at a time, soon after something of it has changed.

Nothing is remembered of what has changed: whoever is looked at is decided upon from what is there. So it does no harm
when one is looked at too often, and what is told while a look lasts makes one more.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from typing import Final

from pykubelet.apiserver.controllers.client import ControllerClient, Kind
from pykubelet.apiserver.status import ApiError
from pykubelet.apiserver.store.port import Event
from pykubelet.base.backoff import Backoff
from pykubelet.base.errors import PykubeletError

log = logging.getLogger(__name__)

Key = tuple[str, str]
"""namespace, name"""
Look = Callable[[Key], Awaitable[float | None]]
"""Brings one owner up to date. -> after how many seconds it has to be looked at again in any case; None: not."""
KeysOf = Callable[[Event], Awaitable[Iterable[Key]]]

_AT_ONCE: Final = 5
_BURST: Final = 10
_INTERVAL: Final = 0.25
"""Seconds between two looks at one that was looked at ten times already: a hundred pods that become ready one after
the other are a few changes of their owner's status, not a hundred."""
_PACED: Final = 1_024
_OWNED: Final = b'"ownerReferences"'


class KeyedWork:
    def __init__(self, name: str, look: Look) -> None:
        self._name = name
        self._look = look
        self._ready: dict[Key, None] = {}
        self._busy: set[Key] = set()
        self._told_meanwhile: set[Key] = set()
        self._timers: dict[Key, asyncio.TimerHandle] = {}
        self._failures: dict[Key, tuple[Backoff, str]] = {}
        """How long each of them waits, and what was said of it last."""
        self._paces: dict[Key, float] = {}
        self._has_ready = asyncio.Event()

    def add(self, key: Key) -> None:
        """Look at it as soon as may be."""
        if key in self._busy:
            self._told_meanwhile.add(key)
        elif key not in self._ready:
            now = asyncio.get_running_loop().time()
            delay, timer = self._delay(key, now), self._timers.get(key)
            if timer is not None and timer.when() <= now + delay:
                return
            self._paces[key] = max(self._paces.get(key, now), now) + _INTERVAL
            if delay > 0:
                self.add_after(key, delay)
            else:
                self._make_ready(key)

    def add_after(self, key: Key, seconds: float) -> None:
        """Look at it then, if not before."""
        loop = asyncio.get_running_loop()
        timer = self._timers.get(key)
        if timer is not None:
            if timer.when() <= loop.time() + seconds:
                return
            timer.cancel()
        self._timers[key] = loop.call_later(seconds, self._make_ready, key)

    def hold(self, key: Key, seconds: float) -> None:
        """Do not look at it before that, whatever is told of it: it has had its share for now."""
        self._paces[key] = asyncio.get_running_loop().time() + seconds + (_BURST - 1) * _INTERVAL
        self._told_meanwhile.add(key)

    async def run(self, client: ControllerClient, kinds: tuple[Kind, ...], keys_of: KeysOf, owners: Kind) -> None:
        """Until cancelled: look at all owners there are, and then at those that `keys_of` finds behind a change."""
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._follow(client, kinds, keys_of, owners), name=f"{self._name}: changes")
                for number in range(_AT_ONCE):
                    group.create_task(self._work(), name=f"{self._name}: {number}")
        finally:
            for timer in self._timers.values():
                timer.cancel()
            self._timers.clear()
            self._ready.clear()
            self._busy.clear()
            self._told_meanwhile.clear()

    async def _follow(self, client: ControllerClient, kinds: tuple[Kind, ...], keys_of: KeysOf, owners: Kind) -> None:
        cache, prefixes = client.backend.cache, tuple(client.resource(kind).prefix for kind in kinds)
        own = client.resource(owners).prefix

        def matters(event: Event) -> bool:
            """Where there is no owner, what could be anybody's is nobody's; most clusters have none of most kinds."""
            return cache.has_any(own) or event.key.startswith(own) or _has_owner(event)

        backoff = Backoff(0.2, 10.0, now=asyncio.get_running_loop().time)
        while True:
            try:
                since = (await cache.list(prefixes[0], limit=1)).revision
                for entry in await client.entries(owners):
                    self.add(_key(entry.key, own))
                async for told in cache.watch(prefixes, since=since, wanted=matters):
                    if isinstance(told, Event):
                        with client.apart(told.key):
                            for key in await keys_of(told):
                                self.add(key)
            except PykubeletError as error:
                log.debug("the watch of %s begins anew: %s", self._name, error)
            await asyncio.sleep(backoff.next())

    async def _work(self) -> None:
        async for key in self._keys():
            try:
                again = await self._look(key)
                self._failures.pop(key, None)
            except Exception as error:  # the boundary: what is wrong with one stands in nobody else's way
                again = self._failed(key, error)
            finally:
                self._busy.discard(key)
            if key in self._told_meanwhile:
                self._told_meanwhile.discard(key)
                if key not in self._failures:
                    self.add(key)
            if again is not None:
                self.add_after(key, again)

    async def _keys(self) -> AsyncIterator[Key]:
        while True:
            while not self._ready:
                self._has_ready.clear()
                await self._has_ready.wait()
            key = next(iter(self._ready))
            del self._ready[key]
            self._busy.add(key)
            yield key

    def _failed(self, key: Key, error: Exception) -> float:
        where = "/".join(key)
        backoff, told = self._failures.get(key) or (Backoff(0.1, 60.0, now=asyncio.get_running_loop().time), "")
        if repr(error) != told:  # the same is not said again each minute
            if isinstance(error, ApiError | PykubeletError):
                log.info("%s %s is tried again: %s", self._name, where, error)
            else:
                log.error("%s %s failed", self._name, where, exc_info=error)
        self._failures[key] = backoff, repr(error)
        return backoff.next()

    def _make_ready(self, key: Key) -> None:
        if (timer := self._timers.pop(key, None)) is not None:
            timer.cancel()
        if key in self._busy:
            self._told_meanwhile.add(key)
            return
        self._ready[key] = None
        self._has_ready.set()

    def _delay(self, key: Key, now: float) -> float:
        """Seconds until it may be looked at again; not more than 0: it may be now."""
        if len(self._paces) > _PACED:
            self._paces = {each: at for each, at in self._paces.items() if at > now}
        return self._paces.get(key, now) - now - (_BURST - 1) * _INTERVAL


def _has_owner(event: Event) -> bool:
    """Looked for once: all who follow pods ask. `find`: for `in`, bytes first try whether that is a number."""
    found: bool | None = event.cache.get("has_owner")
    if found is None:
        found = event.value.find(_OWNED) >= 0 or (event.previous is not None and event.previous.find(_OWNED) >= 0)
        event.cache["has_owner"] = found
    return found


def _key(key: str, prefix: str) -> Key:
    namespace, _, name = key.removeprefix(prefix).partition("/")
    return namespace, name
