"""Bytes in JSON and YAML: base64 as Go reads it, with lines that break anywhere, in the one form that is kept."""

import base64
import binascii
import re
from typing import Any, Final

from pykubelet.api.codec import DecodeError

_LINE_BREAKS: Final = str.maketrans("", "", "\r\n")
_DIGITS: Final = re.compile(r"[A-Za-z0-9+/\r\n]*")


def with_canonical_bytes(obj: dict[str, Any], part: str) -> dict[str, Any]:
    """The object with each value of the map `part` in one line. Raises DecodeError, which names the key."""
    values = obj.get(part)
    if not isinstance(values, dict):
        return obj
    return {**obj, part: {key: canonical_bytes(value, f"{part}[{key}]") for key, value in values.items()}}


def canonical_bytes(value: Any, field: str) -> Any:
    """The value of one field in one line. Raises DecodeError."""
    if not isinstance(value, str):
        return value  # what else it is, its type says
    try:
        return base64.b64encode(base64.b64decode(value.translate(_LINE_BREAKS), validate=True)).decode()
    except (binascii.Error, ValueError):
        raise DecodeError(f"illegal base64 data at input byte {_fault(value)}", field) from None


def _fault(text: str) -> int:
    """Where it goes wrong: at the first sign that is no digit, or in the last group of four, which is not whole."""
    good = _DIGITS.match(text)
    end = good.end() if good else 0
    return end if end < len(text) else end - len(text.translate(_LINE_BREAKS)) % 4
