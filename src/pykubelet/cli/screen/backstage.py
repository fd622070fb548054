"""What is fetched while somebody looks on: a thread with a loop of its own, so that no key ever waits for an answer."""

import asyncio
import queue
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from msgspec import Struct

from pykubelet.base.errors import PykubeletError
from pykubelet.cli.screen.sources import Look, Source
from pykubelet.cli.screen.view import MOST_LINES, Open

_READ_AGAIN: Final = 2.0
_LOG_PACE: Final = 0.1
"""Seconds between two looks at a log that is written fast."""


class Seen(Struct, frozen=True):
    look: Look


class Silence(Struct, frozen=True):
    """Nobody answers."""

    why: str


class Lines(Struct, frozen=True):
    """Of what was asked for."""

    of: Open
    lines: tuple[str, ...]
    complaint: str = ""


News = Seen | Silence | Lines


class Backstage:
    """`news` is filled until `stop`."""

    def __init__(self, source: Callable[[], Source], interval: float) -> None:
        self._source = source
        self._interval = interval
        self.news: queue.SimpleQueue[News] = queue.SimpleQueue()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._wish: Open | None = None
        self._has_changed = asyncio.Event()
        self._is_over = asyncio.Event()
        self._began = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()), daemon=True)
        self._error: BaseException | None = None

    def start(self) -> None:
        self._thread.start()
        self._began.wait()

    def stop(self) -> None:
        self._tell(self._is_over.set)
        self._thread.join(timeout=2.0)

    def read(self, what: Open | None) -> None:
        """From now on; None: nothing more."""
        self._wish = what
        self._tell(self._has_changed.set)

    def _tell(self, what: Callable[[], object]) -> None:
        if self._loop is not None:
            with suppress(RuntimeError):  # it is over already
                self._loop.call_soon_threadsafe(what)

    async def _run(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._began.set()
        async with self._source() as source:
            parts = [asyncio.create_task(self._look(source)), asyncio.create_task(self._reading(source))]
            over = asyncio.create_task(self._is_over.wait())
            await asyncio.wait([over, *parts], return_when=asyncio.FIRST_COMPLETED)
            for part in parts:
                part.cancel()
            await asyncio.gather(*parts, return_exceptions=True)

    async def _look(self, source: Source) -> None:
        while True:
            try:
                self.news.put(Seen(await source.look()))
            except PykubeletError as error:
                self.news.put(Silence(str(error)))
            await asyncio.sleep(self._interval)

    async def _reading(self, source: Source) -> None:
        while True:
            self._has_changed.clear()
            what = self._wish
            reader = asyncio.create_task(self._read(source, what)) if what is not None else None
            await self._has_changed.wait()
            if reader is not None:
                reader.cancel()
                await asyncio.gather(reader, return_exceptions=True)

    async def _read(self, source: Source, what: Open) -> None:
        while True:
            try:
                if what.kind == "logs":
                    await self._follow(source, what)
                    return
                self.news.put(Lines(what, tuple(await source.lines(what))))
            except PykubeletError as error:
                self.news.put(Lines(what, (), str(error)))
            await asyncio.sleep(_READ_AGAIN)

    async def _follow(self, source: Source, what: Open) -> None:
        kept: deque[str] = deque(maxlen=MOST_LINES)
        told, loop = float("-inf"), asyncio.get_running_loop()
        waiting: asyncio.TimerHandle | None = None

        def tell() -> None:
            nonlocal told, waiting
            told, waiting = loop.time(), None
            self.news.put(Lines(what, tuple(kept), "" if kept else "nothing is written yet"))

        try:
            async for group in source.log(what):
                kept.extend(group)
                if waiting is None:
                    waiting = loop.call_later(max(0.0, told + _LOG_PACE - loop.time()), tell)
        finally:
            if waiting is not None:
                waiting.cancel()
        self.news.put(Lines(what, tuple(kept), "it has ended"))
