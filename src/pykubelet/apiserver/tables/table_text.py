"""The words that the cells of tables are made of: ages, and labels."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

NONE: Final = "<none>"
UNKNOWN: Final = "<unknown>"


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


def labels_text(labels: Mapping[str, str] | None) -> str:
    return ",".join(f"{key}={value}" for key, value in sorted((labels or {}).items())) or NONE
