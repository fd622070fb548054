"""Moments, durations and optionals."""

from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from typing import Final

from pykubelet.apiserver.cel.functions import function, member
from pykubelet.apiserver.cel.library_standard import quotient
from pykubelet.apiserver.cel.values import (
    NANOS,
    NONE,
    CelError,
    Duration,
    Optional,
    Timestamp,
    Value,
    parse_duration,
    parse_timestamp,
    timestamp,
)


def _no_duration(text: Value) -> str:
    try:
        parse_duration(text)
    except ValueError:
        return "invalid duration argument"
    return ""


def _no_timestamp(value: Value) -> str:
    try:
        parse_timestamp(value) if isinstance(value, str) else timestamp(value * NANOS)
    except (ValueError, CelError):
        return "invalid timestamp argument"
    return ""


@function("duration(string): duration", literal=_no_duration)
def _text_to_duration(text: str) -> Duration:
    try:
        return parse_duration(text)
    except ValueError as error:
        raise CelError(str(error)) from None


@function("duration(int): duration")
def _int_to_duration(nanos: int) -> Duration:
    return Duration(nanos)


@function("timestamp(string): timestamp", literal=_no_timestamp)
def _text_to_timestamp(text: str) -> Timestamp:
    try:
        return parse_timestamp(text)
    except ValueError as error:
        raise CelError(str(error)) from None


@function("timestamp(int): timestamp", literal=_no_timestamp)
def _int_to_timestamp(seconds: int) -> Timestamp:
    return timestamp(seconds * NANOS)


# --- parts of times


def _local(moment: Timestamp, zone: str) -> datetime:
    if not zone or zone == "UTC":
        return moment.moment
    if zone[-3:-2] == ":" and zone[:1] in "+-0123456789":
        hours, minutes = int(zone[:-3]), int(zone[-2:])
        offset = timedelta(hours=abs(hours), minutes=minutes)
        return moment.moment.astimezone(timezone(-offset if zone[0] == "-" else offset))
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError  # which asks how this Python was built

    try:
        return moment.moment.astimezone(ZoneInfo(zone))
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise CelError(f"unknown time zone {zone}") from None


_PARTS: Final[dict[str, Callable[[datetime], int]]] = {
    "getFullYear": lambda moment: moment.year,
    "getMonth": lambda moment: moment.month - 1,
    "getDayOfYear": lambda moment: moment.timetuple().tm_yday - 1,
    "getDayOfMonth": lambda moment: moment.day - 1,
    "getDate": lambda moment: moment.day,
    "getDayOfWeek": lambda moment: moment.isoweekday() % 7,
    "getHours": lambda moment: moment.hour,
    "getMinutes": lambda moment: moment.minute,
    "getSeconds": lambda moment: moment.second,
}


def _enter_part(name: str, part: Callable[[datetime], int]) -> None:
    @member(f"timestamp.{name}(): int", f"timestamp.{name}(string): int")
    def _(moment: Timestamp, zone: str = "") -> int:
        return part(_local(moment, zone))


for _name, _part in _PARTS.items():
    _enter_part(_name, _part)


@member("timestamp.getMilliseconds(): int", "timestamp.getMilliseconds(string): int")
def _milliseconds(moment: Timestamp, zone: str = "") -> int:
    return moment.part // 10**6


def _enter_unit(name: str, nanos: int) -> None:
    @member(f"duration.{name}(): int")
    def _(value: Duration) -> int:
        return quotient(value.nanos, nanos)


for _name, _nanos in {
    "getHours": 3600 * NANOS, "getMinutes": 60 * NANOS, "getSeconds": NANOS, "getMilliseconds": 10**6
}.items():  # fmt: skip
    _enter_unit(_name, _nanos)


# --- optionals


@function("optional.of(A): optional_type<A>")
def _some(value: Value) -> Optional:
    return Optional(value)


@function("optional.none(): optional_type<A>")
def _none() -> Optional:
    return NONE


@function("optional.ofNonZeroValue(A): optional_type<A>")
def _some_unless_zero(value: Value) -> Optional:
    zero = not value if not isinstance(value, Timestamp | Duration) else value.nanos in (0, -62135596800 * NANOS)
    return NONE if zero else Optional(value)


@member("optional_type<A>.hasValue(): bool")
def _has_value(of: Optional) -> bool:
    return of is not NONE


@member("optional_type<A>.value(): A")
def _value(of: Optional) -> Value:
    if of is NONE:
        raise CelError("optional.none() dereference")
    return of.value
