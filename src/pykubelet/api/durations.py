"""Spans of time as Kubernetes writes them: `20s`, `1m30s`, `300ms`, `2h45m`, and ages as kubectl prints them."""

import re
from datetime import datetime
from typing import Any, Final

UNKNOWN: Final = "<unknown>"
_SECONDS: Final = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ns": 1e-9}
_PART: Final = re.compile(r"([0-9]{1,18}(?:\.[0-9]{0,18})?|\.[0-9]{1,18})(h|ms|m|s|us|µs|μs|ns)")
_LONGEST: Final = 2**63 / 1e9
"""As many nanoseconds as Kubernetes can count: 292 years."""


def parse_duration(text: str) -> float:
    """Seconds. Raises ValueError with a sentence for the person who wrote it."""
    unsigned = text[1:] if text[:1] in ("+", "-") else text
    if unsigned == "0":
        return 0.0
    parts = _PART.findall(unsigned)
    if not parts or "".join(number + unit for number, unit in parts) != unsigned:
        raise ValueError(f"{text[:40]!r} is not a duration: write a number and a unit, such as 20s, 1m30s or 300ms")
    seconds = sum(float(number) * _SECONDS[unit] for number, unit in parts)
    if seconds > _LONGEST:
        raise ValueError(f"the duration {text[:40]!r} is too long")
    return -seconds if text[0] == "-" else seconds


def ago(time: Any, now: datetime) -> str:
    """How long ago a time of the API was."""
    if not isinstance(time, str) or not time:
        return UNKNOWN
    try:
        return span((now - datetime.fromisoformat(time)).total_seconds())
    except (ValueError, TypeError):
        return UNKNOWN


def span(seconds: float) -> str:
    """A length of time with two units at most, and the finer the shorter it is: 90s, 5m30s, 3h20m, 2d4h, 40d, 2y30d."""
    whole = int(seconds)
    if whole < -1:
        return "<invalid>"
    if whole < 0:
        return "0s"
    if whole < 120:
        return f"{whole}s"
    minutes, hours = whole // 60, whole // 3600
    if minutes < 10:
        return _two(minutes, "m", whole % 60, "s")
    if minutes < 180:
        return f"{minutes}m"
    if hours < 8:
        return _two(hours, "h", minutes % 60, "m")
    if hours < 48:
        return f"{hours}h"
    days = hours // 24
    if days < 8:
        return _two(days, "d", hours % 24, "h")
    if days < 365 * 2:
        return f"{days}d"
    if days < 365 * 8:
        return _two(days // 365, "y", days % 365, "d")
    return f"{days // 365}y"


def _two(large: int, unit: str, small: int, fine: str) -> str:
    return f"{large}{unit}{small}{fine}" if small else f"{large}{unit}"


def format_duration(seconds: float) -> str:
    """As Go writes one: `1m30s`, `4h0m0s`, `100ms`."""
    left = abs(round(seconds * 1e9))
    sign = "-" if seconds < 0 and left else ""
    if left < 10**9:
        unit, size = next((each for each in (("ms", 10**6), ("µs", 10**3), ("ns", 1)) if left >= each[1]), ("s", 1))
        return f"{sign}{_decimal(left, size)}{unit}"
    minutes, rest = divmod(left, 60 * 10**9)
    hours, minutes = divmod(minutes, 60)
    text = f"{_decimal(rest, 10**9)}s"
    if hours or minutes:
        text = f"{minutes}m{text}"
    return f"{sign}{hours}h{text}" if hours else f"{sign}{text}"


def _decimal(amount: int, size: int) -> str:
    whole, rest = divmod(amount, size)
    if not rest:
        return str(whole)
    return f"{whole}.{str(rest + size)[1:].rstrip('0')}"
