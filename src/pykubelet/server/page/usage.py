"""What the node and its pods have used in the last hour: a point every half a minute, bounded however many pods come
and go. While somebody looks on, the newest figures are those of the last seconds."""

import asyncio
import time
from array import array
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Final

from msgspec import Struct

from pykubelet.base.errors import PykubeletError
from pykubelet.pod.stats import stats

NODE: Final = ""
_KEEP: Final = 30.0
"""Seconds between two points that are kept."""
_WATCHED: Final = 5.0
"""Seconds between two looks while somebody looks on."""
_INTEREST: Final = 15.0
"""For how many seconds who has asked counts as somebody who looks on."""
_POINTS: Final = 120
_MOST: Final = 500
_WIDTH: Final = 3


class Usage(Struct, frozen=True, kw_only=True):
    cpu: float | None = None
    """Cores; none until there are two readings to compare."""
    memory: int | None = None
    """Bytes that cannot be taken back at once."""


class Series(Struct, frozen=True, kw_only=True):
    """Columns of the same length. What was not known at a time is none."""

    at: list[float]
    """Seconds since 1970."""
    cpu: list[float | None]
    memory: list[float | None]


class UsageHistory:
    """`run` looks on for as long as the agent runs. Everything else is plain functions."""

    def __init__(self, stats: stats.Stats | None, *, now: Callable[[], float] = time.time) -> None:
        self._stats = stats
        self._now = now
        self._series: OrderedDict[str, array[float]] = OrderedDict()
        """By uid, the longest silent first: time, cores, bytes, and again."""
        self._latest: Mapping[str, Usage] = {}
        self._kept = float("-inf")
        self._interest = float("-inf")
        self._asked = asyncio.Event()

    @property
    def latest(self) -> Mapping[str, Usage]:
        """By uid; the node's under the empty one. A new mapping whenever there is something new."""
        return self._latest

    def look_on(self) -> None:
        """Somebody wants to know the newest."""
        if not self._is_watched():
            self._asked.set()
        self._interest = asyncio.get_running_loop().time()

    def of(self, uid: str) -> Series:
        values = self._series.get(uid, array("d"))
        return Series(
            at=values[::_WIDTH].tolist(),
            cpu=[None if each < 0 else each for each in values[1::_WIDTH]],
            memory=[None if each < 0 else each for each in values[2::_WIDTH]],
        )

    async def run(self) -> None:
        while True:
            self._asked.clear()
            await self._look()
            try:
                async with asyncio.timeout(_WATCHED if self._is_watched() else _KEEP):
                    await self._asked.wait()
            except TimeoutError:
                pass

    async def _look(self) -> None:
        if self._stats is None:
            return
        try:
            reading = await self._stats.read(details=False)
        except PykubeletError:
            return  # the runtime is away, which is told elsewhere
        self._latest = {NODE: _usage(reading.node.usage), **{pod.uid: _usage(pod.usage) for pod in reading.pods}}
        now = self._now()
        if now - self._kept >= _KEEP - 1.0:
            self._kept = now
            self._keep(now)

    def _keep(self, now: float) -> None:
        for uid, usage in self._latest.items():
            values = self._series.setdefault(uid, array("d"))
            values.extend((round(now, 1), _or_none(usage.cpu), _or_none(usage.memory)))
            if len(values) > _POINTS * _WIDTH:
                del values[:_WIDTH]
            self._series.move_to_end(uid)
        while self._series:
            uid, values = next(iter(self._series.items()))
            if len(self._series) <= _MOST and values[-_WIDTH] > now - _POINTS * _KEEP:
                return
            del self._series[uid]

    def _is_watched(self) -> bool:
        return asyncio.get_running_loop().time() < self._interest + _INTEREST


def _or_none(value: float | None) -> float:
    return -1.0 if value is None else value


def _usage(of: stats.Usage) -> Usage:
    rate = of.cpu.rate if of.cpu else None
    return Usage(
        cpu=round(rate / 1e9, 4) if rate is not None else None,
        memory=of.memory.working_set if of.memory else None,
    )
