"""The clocks that cron jobs go by: of a named place, or of the machine that the server runs on."""

import os
import re
from datetime import UTC, tzinfo
from functools import lru_cache
from pathlib import Path
from typing import Final

_PART: Final = re.compile(r"(?!\.{1,2}$|-)[A-Za-z._0-9+-]{1,14}")
_HERE: Final = Path("/etc/localtime")


def zone_fault(name: str) -> str:
    """Why a name is that of no time zone; empty: it is one."""
    if not name:
        return "timeZone must be nil or non-empty string"
    if name.lower() == "local":
        return "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones"
    if not all(_PART.fullmatch(part) for part in name.split("/")) or _zone(name) is None:
        return f"unknown time zone {name}"
    return ""


def zone(name: str | None) -> tzinfo | None:
    """By its name, or of this machine; None: there is no such zone."""
    if not name:
        return local_zone()
    return None if zone_fault(name) else _zone(name)


def local_zone() -> tzinfo:
    named = _zone(os.environ.get("TZ", "").removeprefix(":")) if os.environ.get("TZ") else None
    return named or _of_machine()


@lru_cache(maxsize=1)
def _of_machine() -> tzinfo:
    from zoneinfo import ZoneInfo  # few have cron jobs

    try:
        with _HERE.open("rb") as file:
            return ZoneInfo.from_file(file)
    except (OSError, ValueError):
        return UTC


@lru_cache(maxsize=256)
def _zone(name: str) -> tzinfo | None:
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return UTC if name == "UTC" else None
