"""How long something took, and how it failed, as a moment in the journal."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from pykubelet.base.journal import About, Journal, M

CANCELLED: Final = "cancelled"
"""How something failed that somebody wanted to end."""


@contextmanager
def timed(journal: Journal[M], moment: Callable[[float, str], M], about: About | None = None) -> Iterator[None]:
    """Note when the block is over: the moment is made from the seconds that it took and from how it failed, empty when
    it did not."""
    clock, error = asyncio.get_running_loop().time, ""
    began = clock()
    try:
        yield
    except asyncio.CancelledError:
        error = CANCELLED
        raise
    except Exception as failure:
        error = str(failure) or type(failure).__name__
        raise
    finally:
        journal.note(moment(clock() - began, error), about)
