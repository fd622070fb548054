"""How full those volumes are that have to be asked: file systems from elsewhere, and those of storage drivers. One that
does not answer keeps nobody waiting but itself."""

import asyncio
import logging
import threading
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import TypeVar

from pykubelet.base.errors import PykubeletError, Retry
from pykubelet.host.stats.storage import file_system
from pykubelet.pod.stats.stats import Disk, VolumeHealth

log = logging.getLogger(__name__)

T = TypeVar("T")

Measured = tuple[Disk, VolumeHealth | None]
Ask = Callable[[], Awaitable[Measured | None]]


class AskedMeter:
    """Each is asked again when its last answer, or the last try, is `period` seconds old, and never while it still owes
    one. Belongs to one event loop; `close` it."""

    def __init__(self, *, period: float = 60.0) -> None:
        self._period = period
        self._known: dict[str, Measured] = {}
        self._asking: dict[str, asyncio.Task[None]] = {}
        self._due: dict[str, float] = {}

    async def refresh(self, asks: Mapping[str, Ask], *, patience: float) -> None:
        """See to it that these are asked. Waits at most `patience` seconds, and only for those that never were."""
        now = asyncio.get_running_loop().time()
        for gone in [place for place in self._due if place not in asks]:
            del self._due[gone]
            self._known.pop(gone, None)
            if (task := self._asking.pop(gone, None)) is not None:
                task.cancel()
        first = []
        for place, ask in asks.items():
            if place in self._asking or now < self._due.get(place, now):
                continue
            task = self._asking[place] = asyncio.create_task(self._ask(place, ask))
            if place not in self._due:
                first.append(task)
            self._due[place] = now + self._period
        if first:
            await asyncio.wait(first, timeout=patience)

    def known(self, place: str) -> Measured | None:
        """None while it has not answered."""
        return self._known.get(place)

    async def close(self) -> None:
        tasks = list(self._asking.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _ask(self, place: str, ask: Ask) -> None:
        found = None
        try:
            found = await ask()
        except PykubeletError as error:
            log.debug("%s does not say how full it is: %s", place, error)
        except Exception:  # one volume's trouble is no other's
            log.exception("%s cannot be asked how full it is", place)
        if self._asking.get(place) is not asyncio.current_task():
            return
        del self._asking[place]
        if found is None:
            self._known.pop(place, None)
        else:
            self._known[place] = found


async def mounted_usage(path: str) -> Measured | None:
    """In a thread of its own: of those that all work shares, a dead file system would take one after the other."""
    disk = await _in_own_thread(lambda: file_system(path, time.time_ns()))
    return (disk, None) if disk is not None else None


async def _in_own_thread(work: Callable[[], T]) -> T:
    """Who is cancelled leaves the thread to itself."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def tell(found: T) -> None:
        if not done.done():
            done.set_result(found)

    def run() -> None:
        found = work()
        with suppress(RuntimeError):  # nobody is left to hear of it
            loop.call_soon_threadsafe(tell, found)

    try:
        threading.Thread(target=run, name="volume", daemon=True).start()
    except RuntimeError as error:
        raise Retry(str(error)) from None
    return await done
