"""JSON from outside, made into values within bounds: of how much there is to make of it, and how long one step takes.

The quick reader does all in one step. What makes that one long, numbers of many digits and far exponents, is read by
the patient one, which lets others have their turn between two numbers.
"""

import json
import re
from collections.abc import Callable
from typing import Any, Final

import msgspec

from pykubelet.apiserver.schema.schema import Json

MOST_NESTS: Final = 100_000
"""Lists and maps in one text. Each is some bytes of text, and hundreds of memory once it has its defaults."""
_LONGEST_NUMBER: Final = 400
_HARD_NUMBER: Final = re.compile(rb"[0-9][eE][-+]?[0-9]|[0-9]{18}|\.[0-9]{8}")
_MOST_HARD: Final = 500
_PIECE: Final = 64 << 10
_QUICK: Final = 4 << 10
"""Bytes that are read quickly, whatever they are."""
_SHORTEST: Final = 2 * MOST_NESTS

Pairs = Callable[[list[tuple[str, Any]]], Any]


def read_json(data: bytes) -> Json:
    """Raises ValueError, which msgspec's errors are, and RecursionError."""
    check_amount(data)
    return read_patiently(data) if is_hard(data) else msgspec.json.decode(data)


def read_patiently(data: bytes, pairs: Pairs | None = None) -> Json:
    """`pairs` makes the maps. Raises ValueError and RecursionError."""
    return json.loads(
        data, object_pairs_hook=pairs, parse_int=_whole, parse_float=_fraction, parse_constant=_no_constant
    )


def check_amount(data: bytes) -> None:
    """Raises ValueError for more than can be borne."""
    if len(data) < _SHORTEST or data.count(b"[") + data.count(b"{") <= MOST_NESTS:
        return
    outside = b"".join(data.replace(b"\\\\", b"").replace(b'\\"', b"").split(b'"')[::2])  # of texts
    if outside.count(b"[") + outside.count(b"{") > MOST_NESTS:
        raise ValueError(f"there are more than {MOST_NESTS:,} lists and maps in it")


def is_hard(data: bytes) -> bool:
    """Whether the quick reader would need long for its numbers."""
    found = 0
    for start in range(0, len(data) if len(data) > _QUICK else 0, _PIECE):
        found += len(_HARD_NUMBER.findall(data, start, start + _PIECE))
        if found > _MOST_HARD:
            return True
    return False


def _whole(text: str) -> int | float:
    if len(text) > _LONGEST_NUMBER:
        raise ValueError("there is a number in it that is too long")
    return int(text)


def _fraction(text: str) -> float:
    number = float(text)
    if number in (float("inf"), float("-inf")):
        raise ValueError("there is a number in it that is too large")
    return number


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no number of JSON")
