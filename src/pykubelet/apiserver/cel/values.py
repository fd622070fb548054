"""The values of an expression that Python has no exact word for, and how values of any kind compare.

Whole numbers, doubles, texts, bytes, truths and null are Python's own; lists are lists, maps and objects dicts.
"""

import math
import re
from datetime import UTC, datetime, timedelta
from functools import total_ordering
from typing import Any, Final

import msgspec

Value = Any

INT_MAX: Final = 2**63 - 1
INT_MIN: Final = -(2**63)
UINT_MAX: Final = 2**64 - 1
NANOS: Final = 10**9
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST_SECOND: Final = -62135596800
_LAST_SECOND: Final = 253402300799
_TIME: Final = re.compile(r"(\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d)(?:\.(\d{1,9})\d*)?([Zz]|[+-]\d\d:\d\d)", re.ASCII)
_UNITS: Final = {
    "ns": 1, "us": 10**3, "µs": 10**3, "μs": 10**3, "ms": 10**6, "s": NANOS, "m": 60 * NANOS, "h": 3600 * NANOS
}  # fmt: skip
_DURATION: Final = re.compile(r"(\d{0,20})(?:\.(\d{0,20}))?(ns|us|µs|μs|ms|s|m|h)", re.ASCII)


class CelError(Exception):
    """What evaluating an expression comes to when it comes to no value."""


class TooExpensive(Exception):
    """The budget of an evaluation is used up. Nothing in the expression can make up for that."""


class Uint(int):
    """An unsigned whole number, which is another type than a signed one."""

    __slots__ = ()


class SetList(list[Value]):
    """A list whose order says nothing."""

    __slots__ = ()


class MapList(list[Value]):
    """A list whose items are told apart by some of their fields."""

    __slots__ = ("keys",)

    def __init__(self, items: list[Value], keys: tuple[str, ...]) -> None:
        super().__init__(items)
        self.keys = keys

    def key_of(self, item: Value) -> Any:
        return hashable([item.get(key) for key in self.keys])


class ObjectValue(dict[str, Value]):
    """An object of a declared type, which is not a map."""

    __slots__ = ("type_name",)

    def __init__(self, fields: dict[str, Value], type_name: str) -> None:
        super().__init__(fields)
        self.type_name = type_name


class TypeValue(msgspec.Struct, frozen=True):
    name: str


class Optional(msgspec.Struct, frozen=True, eq=False):
    """A value that may be missing: then it is NONE."""

    value: Value


NONE: Final = Optional(None)


@total_ordering
class Duration(msgspec.Struct, frozen=True):
    nanos: int

    def __lt__(self, other: "Duration") -> bool:
        return self.nanos < other.nanos

    def __str__(self) -> str:
        whole, rest = divmod(abs(self.nanos), NANOS)
        text = f"{whole}.{rest:09d}".rstrip("0").rstrip(".")
        return f"{'-' if self.nanos < 0 else ''}{text}s"


@total_ordering
class Timestamp(msgspec.Struct, frozen=True, eq=False):
    nanos: int
    """Since 1970."""
    offset: int = 0
    """Minutes of the zone that it was written in, and is written in again."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Timestamp) and self.nanos == other.nanos

    def __hash__(self) -> int:
        return hash(self.nanos)

    def __lt__(self, other: "Timestamp") -> bool:
        return self.nanos < other.nanos

    @property
    def moment(self) -> datetime:
        return _EPOCH + timedelta(seconds=self.nanos // NANOS)

    @property
    def part(self) -> int:
        """Billionths of a second."""
        return self.nanos % NANOS

    def __str__(self) -> str:
        rest = f".{self.part:09d}".rstrip("0").rstrip(".")
        zone = (
            "Z"
            if not self.offset
            else f"{'-' if self.offset < 0 else '+'}{abs(self.offset) // 60:02d}:{abs(self.offset) % 60:02d}"
        )
        local = self.moment.replace(tzinfo=None) + timedelta(minutes=self.offset)
        return f"{local.isoformat(timespec='seconds')}{rest}{zone}"


def duration(nanos: int) -> Duration:
    if not INT_MIN <= nanos <= INT_MAX:
        raise CelError("integer overflow")
    return Duration(nanos)


def timestamp(nanos: int) -> Timestamp:
    if not _FIRST_SECOND <= nanos // NANOS <= _LAST_SECOND:
        raise CelError("timestamp overflow")
    return Timestamp(nanos)


def parse_duration(text: str) -> Duration:
    """As Go reads it. Raises ValueError."""
    rest = text[1:] if text[:1] in "+-" else text
    if rest == "0":
        return Duration(0)
    total, place = 0, 0
    while place < len(rest):
        found = _DURATION.match(rest, place)
        if found is None or not (found[1] or found[2]):
            raise ValueError(f'time: invalid duration "{text}"')
        unit, fraction = _UNITS[found[3]], found[2] or ""
        total += int(found[1] or "0") * unit + int(fraction or "0") * unit // 10 ** len(fraction)
        place = found.end()
    if not rest or total > INT_MAX:
        raise ValueError(f'time: invalid duration "{text}"')
    return Duration(-total if text[0] == "-" else total)


def parse_timestamp(text: str) -> Timestamp:
    """As RFC 3339 has it. Raises ValueError."""
    found = _TIME.fullmatch(text)
    if found is None:
        raise ValueError(f'cannot parse "{text}" as a time')
    zone = "+00:00" if found[3] in "Zz" else found[3]
    moment = datetime.fromisoformat(found[1].upper() + zone)
    seconds = (moment - _EPOCH) // timedelta(seconds=1)
    if not _FIRST_SECOND <= seconds <= _LAST_SECOND:
        raise ValueError(f'cannot parse "{text}" as a time')
    offset = (moment.utcoffset() or timedelta()) // timedelta(minutes=1)
    return Timestamp(seconds * NANOS + int((found[2] or "").ljust(9, "0")), offset)


def equal(one: Value, other: Value) -> bool:
    """Whether two values are the same; those of different types never are, but for numbers."""
    kind, else_kind = type(one), type(other)
    if kind is else_kind and kind in (str, int, bool, bytes):
        return bool(one == other)
    if isinstance(one, int | float) and isinstance(other, int | float):
        return isinstance(one, bool) == isinstance(other, bool) and one == other
    if isinstance(one, list):
        return isinstance(other, list) and _equal_lists(one, other)
    if isinstance(one, dict):
        if not isinstance(other, dict) or len(one) != len(other):
            return False
        return all(key in other and equal(value, other[key]) for key, value in one.items())
    if isinstance(one, Optional):
        if one is NONE or not isinstance(other, Optional) or other is NONE:
            return one is other
        return equal(one.value, other.value)
    return kind is else_kind and bool(one == other)


def _equal_lists(one: list[Value], other: list[Value]) -> bool:
    if len(one) != len(other):
        return False
    keyed = one if isinstance(one, MapList) else other if isinstance(other, MapList) else None
    if keyed is not None:
        others = {keyed.key_of(item): item for item in other}
        return all((key := keyed.key_of(item)) in others and equal(item, others[key]) for item in one)
    if isinstance(one, SetList) or isinstance(other, SetList):
        return {hashable(item) for item in one} == {hashable(item) for item in other}
    return all(map(equal, one, other))


def hashable(value: Value) -> Any:
    """Something to look the value up by: equal for equal values."""
    if isinstance(value, bool):
        return ("bool", value)
    if isinstance(value, list | tuple):
        return ("list", tuple(map(hashable, value)))
    if isinstance(value, dict):
        return ("map", frozenset((key, hashable(inner)) for key, inner in value.items()))
    return value


def size_of(value: Value) -> int:
    """What it costs to look at a value: about a unit for ten characters, and one for each item."""
    if isinstance(value, str | bytes):
        return len(value) // 10 + 1
    if not isinstance(value, list | dict):
        return 1
    total, left = 1, [value]
    while left:
        outer = left.pop()
        for inner in outer.values() if isinstance(outer, dict) else outer:
            total += len(inner) // 10 + 1 if isinstance(inner, str | bytes) else 1
            if isinstance(inner, list | dict):
                left.append(inner)
    return total


def type_name(value: Value) -> str:
    """Of what type() says."""
    if isinstance(value, ObjectValue):
        return value.type_name
    for kind, name in _NAMES:
        if isinstance(value, kind):
            return name
    return str(getattr(type(value), "cel_name", "dyn"))


_NAMES: Final[tuple[tuple[type, str], ...]] = (
    (bool, "bool"),
    (Uint, "uint"),
    (int, "int"),
    (float, "double"),
    (str, "string"),
    (bytes, "bytes"),
    (type(None), "null_type"),
    (list, "list"),
    (dict, "map"),
    (Duration, "google.protobuf.Duration"),
    (Timestamp, "google.protobuf.Timestamp"),
    (Optional, "optional_type"),
    (TypeValue, "type"),
)


def double_text(value: float) -> str:
    """A double as Go writes it in the shortest way."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    text = repr(value)
    if "e" in text:
        mantissa, _, exponent = text.partition("e")
        if -5 < int(exponent) < 21:
            text = f"{value:f}".rstrip("0").rstrip(".")
        else:
            sign = "-" if exponent.startswith("-") else "+"
            return f"{mantissa.removesuffix('.0')}e{sign}{exponent.lstrip('+-').zfill(2)}"
    return text.removesuffix(".0")
