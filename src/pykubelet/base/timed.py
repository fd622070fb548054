"""How long something took, and how it failed, as a moment in the journal."""

import asyncio
from collections.abc import Callable
from typing import Final, Generic

from pykubelet.base.journal import About, Journal, M

CANCELLED: Final = "cancelled"
"""How something failed that somebody wanted to end."""


class timed(Generic[M]):
    """Note when the block is over: the moment is made from the seconds that it took and from how it failed, empty when
    it did not. (A class, for it is in the middle of hot paths: a generator costs twice as much.)"""

    __slots__ = ("_about", "_began", "_clock", "_journal", "_moment")

    def __init__(self, journal: Journal[M], moment: Callable[[float, str], M], about: About | None = None) -> None:
        self._journal = journal
        self._moment = moment
        self._about = about

    def __enter__(self) -> None:
        self._clock = asyncio.get_running_loop().time
        self._began = self._clock()

    def __exit__(self, _: object, failure: BaseException | None, __: object) -> None:
        error = ""
        if isinstance(failure, asyncio.CancelledError):
            error = CANCELLED
        elif isinstance(failure, Exception):
            error = str(failure) or type(failure).__name__
        self._journal.note(self._moment(self._clock() - self._began, error), self._about)
