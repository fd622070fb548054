"""Operators and conversions: what every expression may use, whoever evaluates it."""

import math
from collections.abc import Sequence
from typing import Final

from pykubelet.apiserver.cel.functions import function, member
from pykubelet.apiserver.cel.values import (
    INT_MAX,
    INT_MIN,
    NANOS,
    UINT_MAX,
    CelError,
    Duration,
    MapList,
    SetList,
    Timestamp,
    TypeValue,
    Uint,
    Value,
    double_text,
    duration,
    equal,
    hashable,
    size_of,
    timestamp,
    type_name,
)


def whole(value: int) -> int:
    if INT_MIN <= value <= INT_MAX:
        return value
    raise CelError("integer overflow")


def _unsigned(value: int) -> Uint:
    if 0 <= value <= UINT_MAX:
        return Uint(value)
    raise CelError("unsigned integer overflow")


def _everything(args: Sequence[Value]) -> int:
    return sum(map(size_of, args))


# --- equality and order


function("_==_(A, A): bool", cost=_everything)(equal)


@function("_!=_(A, A): bool", cost=_everything)
def _differ(one: Value, other: Value) -> bool:
    return not equal(one, other)


_ORDERED: Final = ("bool", "string", "bytes", "duration", "timestamp")
_NUMBERS: Final = ("int", "uint", "double")


def _comparisons(operator: str) -> list[str]:
    alike = [f"{operator}({kind}, {kind}): bool" for kind in _ORDERED]
    return alike + [f"{operator}({one}, {other}): bool" for one in _NUMBERS for other in _NUMBERS]


@function(*_comparisons("_<_"))
def _less(one: Value, other: Value) -> bool:
    return bool(one < other)


@function(*_comparisons("_<=_"))
def _at_most(one: Value, other: Value) -> bool:
    return bool(one <= other)


@function(*_comparisons("_>_"))
def _more(one: Value, other: Value) -> bool:
    return bool(one > other)


@function(*_comparisons("_>=_"))
def _at_least(one: Value, other: Value) -> bool:
    return bool(one >= other)


@function("@in(A, list<A>): bool", cost=lambda args: size_of(args[1]))
def _in_list(item: Value, items: list[Value]) -> bool:
    return any(equal(item, each) for each in items)


@function("@in(A, map<A, B>): bool", cost=lambda args: 1)
def _in_map(key: Value, of: dict[Value, Value]) -> bool:
    return not isinstance(key, list | dict) and key in of


# --- arithmetic


@function("_+_(int, int): int")
def _add(one: int, other: int) -> int:
    return whole(one + other)


@function("_+_(uint, uint): uint")
def _add_unsigned(one: int, other: int) -> Uint:
    return _unsigned(int(one) + int(other))


@function("_+_(double, double): double", "_+_(string, string): string", "_+_(bytes, bytes): bytes")
def _join(one: Value, other: Value) -> Value:
    return one + other


@function("_+_(list<A>, list<A>): list<A>")
def _concatenated(one: list[Value], other: list[Value]) -> list[Value]:
    """Items that are told apart by keys or by themselves are there once."""
    if isinstance(one, MapList):
        merged = {one.key_of(item): item for item in one}
        merged.update((one.key_of(item), item) for item in other)
        return MapList(list(merged.values()), one.keys)
    if isinstance(one, SetList):
        known = {hashable(item) for item in one}
        return SetList([*one, *(item for item in other if hashable(item) not in known)])
    return [*one, *other]


@function("_+_(duration, duration): duration")
def _add_durations(one: Duration, other: Duration) -> Duration:
    return duration(one.nanos + other.nanos)


@function("_+_(timestamp, duration): timestamp")
def _later(one: Timestamp, other: Duration) -> Timestamp:
    return timestamp(one.nanos + other.nanos)


@function("_+_(duration, timestamp): timestamp")
def _later_than(one: Duration, other: Timestamp) -> Timestamp:
    return timestamp(one.nanos + other.nanos)


@function("_-_(int, int): int")
def _subtract(one: int, other: int) -> int:
    return whole(one - other)


@function("_-_(uint, uint): uint")
def _subtract_unsigned(one: int, other: int) -> Uint:
    return _unsigned(int(one) - int(other))


@function("_-_(double, double): double")
def _subtract_doubles(one: float, other: float) -> float:
    return one - other


@function("_-_(duration, duration): duration", "_-_(timestamp, timestamp): duration")
def _between(one: Duration, other: Duration) -> Duration:
    return duration(one.nanos - other.nanos)


@function("_-_(timestamp, duration): timestamp")
def _earlier(one: Timestamp, other: Duration) -> Timestamp:
    return timestamp(one.nanos - other.nanos)


@function("_*_(int, int): int")
def _multiply(one: int, other: int) -> int:
    return whole(one * other)


@function("_*_(uint, uint): uint")
def _multiply_unsigned(one: int, other: int) -> Uint:
    return _unsigned(int(one) * int(other))


@function("_*_(double, double): double")
def _multiply_doubles(one: float, other: float) -> float:
    return one * other


def quotient(one: int, other: int) -> int:
    """Towards zero, as everywhere but in Python."""
    if not other:
        raise CelError("division by zero")
    whole = abs(int(one)) // abs(int(other))
    return whole if (one < 0) == (other < 0) else -whole


@function("_/_(int, int): int")
def _divide(one: int, other: int) -> int:
    return whole(quotient(one, other))


@function("_/_(uint, uint): uint")
def _divide_unsigned(one: int, other: int) -> Uint:
    return Uint(quotient(one, other))


@function("_/_(double, double): double")
def _divide_doubles(one: float, other: float) -> float:
    if other:
        return one / other
    if not one or math.isnan(one):
        return math.nan
    return math.copysign(math.inf, one) * math.copysign(1, other)


@function("_%_(int, int): int")
def _remainder(one: int, other: int) -> int:
    if not other:
        raise CelError("modulus by zero")
    return one - other * quotient(one, other)


@function("_%_(uint, uint): uint")
def _remainder_unsigned(one: int, other: int) -> Uint:
    return Uint(_remainder(int(one), int(other)))


@function("-_(int): int")
def _negative(value: int) -> int:
    return whole(-value)


@function("-_(double): double")
def _negative_double(value: float) -> float:
    return -value


@function("!_(bool): bool")
def _not(value: bool) -> bool:
    return not value


# --- sizes and conversions


@function("size(string): int", "size(bytes): int", "size(list<A>): int", "size(map<A, B>): int")
@member("string.size(): int", "bytes.size(): int", "list<A>.size(): int", "map<A, B>.size(): int")
def _size(value: Value) -> int:
    return len(value)


@function("type(A): type")
def _type(value: Value) -> TypeValue:
    return TypeValue(type_name(value))


@function("dyn(A): dyn", "bool(bool): bool", "bytes(bytes): bytes", "double(double): double")
@function("int(int): int", "string(string): string", "uint(uint): uint")
@function("duration(duration): duration", "timestamp(timestamp): timestamp")
def _same(value: Value) -> Value:
    return value


@function("bool(string): bool")
def _to_bool(text: str) -> bool:
    if text in ("true", "True", "TRUE", "t", "1"):
        return True
    if text in ("false", "False", "FALSE", "f", "0"):
        return False
    raise CelError("type conversion error from 'string' to 'bool'")


@function("bytes(string): bytes")
def _to_bytes(text: str) -> bytes:
    return text.encode()


@function("double(int): double", "double(uint): double", "double(string): double")
def _to_double(value: int | str) -> float:
    try:
        return float(value)
    except ValueError:
        raise CelError("type conversion error from 'string' to 'double'") from None


def _number_in(text: str) -> int:
    if not text.lstrip("+-").isdecimal() or len(text) > 30:
        raise CelError("type conversion error from 'string' to 'int'")
    return int(text)


def _truncated(value: float) -> int:
    if math.isnan(value) or math.isinf(value):
        raise CelError("integer overflow")
    return int(value)


@function("int(double): int")
def _double_to_int(value: float) -> int:
    return whole(_truncated(value))


@function("int(uint): int")
def _uint_to_int(value: int) -> int:
    return whole(int(value))


@function("int(string): int")
def _text_to_int(text: str) -> int:
    return whole(_number_in(text))


@function("int(timestamp): int", "int(duration): int")
def _time_to_int(value: Timestamp) -> int:
    return quotient(value.nanos, NANOS)


@function("uint(int): uint")
def _int_to_uint(value: int) -> Uint:
    return _unsigned(value)


@function("uint(double): uint")
def _double_to_uint(value: float) -> Uint:
    return _unsigned(_truncated(value))


@function("uint(string): uint")
def _text_to_uint(text: str) -> Uint:
    return _unsigned(_number_in(text))


@function("string(int): string", "string(uint): string", "string(duration): string", "string(timestamp): string")
def _to_text(value: Value) -> str:
    return str(int(value)) if isinstance(value, int) else str(value)


@function("string(bool): string")
def _bool_to_text(value: bool) -> str:
    return "true" if value else "false"


@function("string(bytes): string")
def _bytes_to_text(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise CelError("invalid UTF-8 in bytes, cannot convert to string") from None


function("string(double): string")(double_text)
