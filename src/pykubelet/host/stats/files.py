"""Reading the kernel's small files, fast: a scrape of a full node opens thousands of them."""

import os
from typing import Final

_ENOUGH: Final = 1 << 16
_ALL: Final = 3072
"""The kernel fills a page with as many lines as fit: what is so much less than a page is all there is."""
TICK: Final = 1_000_000_000 // (os.sysconf("SC_CLK_TCK") or 100)
"""Nanoseconds in the unit that the kernel counts processor time in."""
_READ: Final = os.O_RDONLY | os.O_CLOEXEC


def read(path: str) -> bytes | None:
    """None for a file that is not there or cannot be read: whoever it was about may have ended."""
    try:
        descriptor = os.open(path, _READ)
    except OSError:
        return None
    try:
        data = os.read(descriptor, _ENOUGH)
        if len(data) < _ALL:
            return data
        parts = [data]
        while data := os.read(descriptor, _ENOUGH):
            parts.append(data)
        return b"".join(parts)
    except OSError:
        return None
    finally:
        os.close(descriptor)


def number(path: str) -> int | None:
    """None also for `max` and for what is no number."""
    data = read(path)
    try:
        return int(data) if data else None
    except ValueError:
        return None


def counters(data: bytes | None) -> dict[bytes, int]:
    """Lines of a name and a number; those with more or other words are none of ours."""
    words = (data or b"").split()
    try:
        return dict(zip(words[::2], map(int, words[1::2]), strict=True))
    except ValueError:
        return _counters_by_line(data or b"")


def _counters_by_line(data: bytes) -> dict[bytes, int]:
    found = {}
    for line in data.splitlines():
        name, _, value = line.partition(b" ")
        if value.isdigit():
            found[name] = int(value)
    return found
