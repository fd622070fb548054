"""Where jitter comes from. Chance belongs to the event loop, as time does: a loop that brings its own can be run a
second time with the same outcome."""

import asyncio
import random
from typing import Final

_EVERYBODYS: Final = random.Random()


def chance() -> random.Random:
    """Of the loop that runs now, if it has one of its own."""
    found = getattr(asyncio._get_running_loop(), "chance", None)
    return found if isinstance(found, random.Random) else _EVERYBODYS
