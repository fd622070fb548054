"""Memory that is free goes back to the machine: the C library keeps what a busy moment has left, for another one."""

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

_PERIOD: Final = 60.0
_WORTH: Final = 16 << 20
"""Bytes more than it ever had at least: what is less is not worth a look."""


def resident() -> int:
    """Bytes of memory that this process has."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def trim() -> None:
    """Where the C library is another one than GNU's, it has its own ways."""
    import ctypes  # by no means at every start

    library = ctypes.CDLL(None)
    if hasattr(library, "malloc_trim"):
        library.malloc_trim(0)


async def give_back(held: Callable[[], int] = resident, give: Callable[[], None] = trim) -> None:
    """Endless."""
    least = held()
    while True:
        await asyncio.sleep(_PERIOD)
        least = min(least, held())
        if held() - least > _WORTH:
            await asyncio.to_thread(give)
