"""Numbers that may be given as a part of another: `3`, or `25%`."""

import re
from typing import Final

_PERCENT: Final = re.compile("([0-9]+)%")


def scaled(value: int | str | None, total: int, *, up: bool) -> int:
    """How many of `total` that is, rounded up or down. What cannot be read is none."""
    if value is None:
        return 0
    if isinstance(value, int):
        return value
    found = _PERCENT.fullmatch(value)
    if found is None:
        return 0
    product = int(found[1]) * total
    return -(-product // 100) if up else product // 100
