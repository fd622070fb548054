"""Spans of time as Kubernetes writes them: `20s`, `1m30s`, `300ms`, `2h45m`."""

import re
from typing import Final

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
