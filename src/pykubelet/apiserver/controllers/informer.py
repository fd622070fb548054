"""Tells a controller that something has changed, never what: a controller then looks at all there is.

So nothing is lost when a change is not told, and it does not matter when a controller was started.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress

from pykubelet.apiserver.store.port import Event
from pykubelet.apiserver.store.watch_cache import WatchCache
from pykubelet.base.backoff import Backoff
from pykubelet.base.errors import PykubeletError

log = logging.getLogger(__name__)

Wanted = Callable[[Event], bool]


class Informer:
    def __init__(self, cache: WatchCache, prefixes: tuple[str, ...], wanted: Wanted | None) -> None:
        self._cache = cache
        self._prefixes = prefixes
        self._wanted = wanted
        self._has_changed = asyncio.Event()
        self._has_changed.set()

    async def wait(self, most: float | None = None) -> None:
        """Until something has changed since the last time, or for `most` seconds. The first time there is no wait."""
        with suppress(TimeoutError):
            async with asyncio.timeout(most):
                await self._has_changed.wait()
        self._has_changed.clear()

    async def run(self) -> None:
        backoff = Backoff(0.2, 10.0, now=asyncio.get_running_loop().time)
        while True:
            try:
                since = (await self._cache.list(self._prefixes[0], limit=1)).revision
                self._has_changed.set()
                async for told in self._cache.watch(self._prefixes, since=since, wanted=self._wanted):
                    if isinstance(told, Event):
                        self._has_changed.set()
            except PykubeletError as error:
                log.debug("a controller's watch begins anew: %s", error)
            await asyncio.sleep(backoff.next())


@asynccontextmanager
async def informing(
    cache: WatchCache, prefixes: tuple[str, ...], wanted: Wanted | None
) -> AsyncGenerator[Informer, None]:
    informer = Informer(cache, prefixes, wanted)
    running = asyncio.create_task(informer.run(), name=f"informer of {prefixes}")
    try:
        yield informer
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
