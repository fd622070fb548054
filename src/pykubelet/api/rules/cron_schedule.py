"""When a cron job is due: its schedule as five fields or a word such as `@daily`, by the clock of a time zone.

As upstream's, down to what becomes of an hour that a change of the clocks leaves out or repeats.
"""

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Final

from msgspec import Struct

from pykubelet.api.durations import parse_duration

_STAR: Final = 1 << 63
"""Set in a field that leaves it to the others."""
_MONTHS: Final = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS: Final = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_BOUNDS: Final[tuple[tuple[int, int, Mapping[str, int]], ...]] = (
    (0, 59, {}),
    (0, 23, {}),
    (1, 31, {}),
    (1, 12, {name: number for number, name in enumerate(_MONTHS, 1)}),
    (0, 6, {name: number for number, name in enumerate(_DAYS)}),
)
_WORDS: Final = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_NUMBER: Final = re.compile(r"[+-]?[0-9]+")
_YEARS: Final = 5
_HOUR: Final = 3600


class Schedule(Struct, frozen=True):
    """A bit for each minute, hour, day of the month, month and day of the week; or every so many seconds."""

    minute: int = 0
    hour: int = 0
    day: int = 0
    month: int = 0
    weekday: int = 0
    every: int = 0


def parsed(text: str) -> Schedule:
    """Raises ValueError."""
    if not text:
        raise ValueError("empty spec string")
    if text.startswith("@every "):
        return Schedule(every=max(1, int(_seconds(text))))
    if text.startswith("@") and text not in _WORDS:
        raise ValueError(f"unrecognized descriptor: {text}")
    fields = _WORDS.get(text, text).split()
    if len(fields) != len(_BOUNDS):
        raise ValueError(f"expected exactly {len(_BOUNDS)} fields, found {len(fields)}: [{' '.join(fields)}]")
    return Schedule(*(_field(field, *bounds) for field, bounds in zip(fields, _BOUNDS, strict=True)))


def following(schedule: Schedule, after: datetime, zone: tzinfo) -> datetime | None:
    """The next time it is due; None: not within five years."""
    now = int(after.timestamp())
    if schedule.every:
        return datetime.fromtimestamp(now + schedule.every, UTC)
    found = _next(schedule, now + 1, zone)
    return None if found is None else datetime.fromtimestamp(found, UTC)


# --- reading


def _field(text: str, least: int, most: int, names: Mapping[str, int]) -> int:
    bits = 0
    for each in filter(None, text.split(",")):
        bits |= _range(each, least, most, names)
    return bits


def _range(text: str, least: int, most: int, names: Mapping[str, int]) -> int:
    span, *steps = text.split("/")
    limits = span.split("-")
    star = 0
    if limits[0] in ("*", "?"):
        start, end, star = least, most, _STAR
    else:
        if len(limits) > 2:
            _number_or_name(limits[0], names)
            raise ValueError(f"too many hyphens: {text}")
        start = _number_or_name(limits[0], names)
        end = _number_or_name(limits[1], names) if len(limits) == 2 else start
    if len(steps) > 1:
        raise ValueError(f"too many slashes: {text}")
    step = _number(steps[0]) if steps else 1
    if steps and len(limits) == 1:
        end = most  # N/step begins at N and has no end
    if start < least:
        raise ValueError(f"beginning of range ({start}) below minimum ({least}): {text}")
    if end > most:
        raise ValueError(f"end of range ({end}) above maximum ({most}): {text}")
    if start > end:
        raise ValueError(f"beginning of range ({start}) beyond end of range ({end}): {text}")
    if step == 0:
        raise ValueError(f"step of range should be a positive number: {text}")
    return sum(1 << each for each in range(start, end + 1, step)) | (star if step == 1 else 0)


def _number_or_name(text: str, names: Mapping[str, int]) -> int:
    return names[text.lower()] if text.lower() in names else _number(text)


def _number(text: str) -> int:
    if not _NUMBER.fullmatch(text):
        raise ValueError(f'failed to parse int from {text}: strconv.Atoi: parsing "{text}": invalid syntax')
    if len(text) > 19:
        raise ValueError(f'failed to parse int from {text}: strconv.Atoi: parsing "{text}": value out of range')
    if int(text) < 0:
        raise ValueError(f"negative number ({int(text)}) not allowed: {text}")
    return int(text)


def _seconds(text: str) -> float:
    try:
        return parse_duration(text.removeprefix("@every "))
    except (ValueError, IndexError) as error:
        raise ValueError(f"failed to parse duration {text}: {error}") from None


# --- looking ahead, in seconds since 1970


def _next(schedule: Schedule, start: int, zone: tzinfo) -> int | None:
    if not (schedule.minute and schedule.hour and schedule.month):
        return None
    now = _local(start, zone)
    last, second = now.year + _YEARS, start
    is_whole = False
    while True:
        now = _local(second, zone)
        if now.year > last:
            return None
        if not schedule.month >> now.month & 1:
            second, is_whole = _next_month(schedule, now, zone), True
        elif not _is_day(schedule, now):
            second, is_whole = _next_day(second, now, zone, is_whole=is_whole), True
        elif not schedule.hour >> now.hour & 1:
            begun = second if is_whole else _at(now.replace(minute=0, second=0), zone)
            second, is_whole = begun + _HOUR, True
        elif not schedule.minute >> now.minute & 1 or now.second:
            second, is_whole = (second if is_whole else second - second % 60) + 60, True
        else:
            return second


def _next_month(schedule: Schedule, now: datetime, zone: tzinfo) -> int:
    year, month = (now.year + 1, 1) if now.month == 12 else (now.year, now.month + 1)
    return _at(datetime(year, month, 1), zone)


def _next_day(second: int, now: datetime, zone: tzinfo, *, is_whole: bool) -> int:
    """Midnight of the next day, or what there is instead of it."""
    begun = second if is_whole else _at(now.replace(hour=0, minute=0, second=0), zone)
    found = _at(_local(begun, zone) + timedelta(days=1), zone)
    hour = _local(found, zone).hour
    found += (24 - hour if hour > 12 else -hour) * _HOUR
    if found > second:
        return found
    return _at(now.replace(minute=0, second=0), zone) + _HOUR  # where clocks leave out midnight, it may never come


def _is_day(schedule: Schedule, now: datetime) -> bool:
    by_month, by_week = schedule.day >> now.day & 1, schedule.weekday >> now.isoweekday() % 7 & 1
    if schedule.day & _STAR or schedule.weekday & _STAR:
        return bool(by_month and by_week)
    return bool(by_month or by_week)


def _local(second: int, zone: tzinfo) -> datetime:
    """What clocks show, without saying where."""
    return datetime.fromtimestamp(second, zone).replace(tzinfo=None)


def _at(clock: datetime, zone: tzinfo) -> int:
    """When clocks show this: where it is twice or never, as Go's library has it."""
    shown = int(clock.replace(tzinfo=UTC, microsecond=0, fold=0).timestamp())
    offset = _offset(shown, zone)
    return shown - _offset(shown - offset, zone) if offset else shown


def _offset(second: int, zone: tzinfo) -> int:
    found = datetime.fromtimestamp(second, zone).utcoffset()
    return int(found.total_seconds()) if found else 0
