"""What a word of YAML without quotes means, as Kubernetes reads it."""

import re
from typing import Any, Final

_NULL: Final = frozenset(["", "~", "null", "Null", "NULL"])
_TRUE: Final = frozenset(["true", "True", "TRUE", "yes", "Yes", "YES", "y", "Y", "on", "On", "ON"])
_FALSE: Final = frozenset(["false", "False", "FALSE", "no", "No", "NO", "n", "N", "off", "Off", "OFF"])
_INT: Final = re.compile(r"[-+]?(?:0[bB]([01]+)|0[xX]([0-9a-fA-F]+)|0[oO]?([0-7]+)|(0|[1-9][0-9]*))")
_FLOAT: Final = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
LONGEST_NUMBER: Final = 400


def plain(text: str) -> Any:
    if text in _NULL:
        return None
    if text in _TRUE or text in _FALSE:
        return text in _TRUE
    if len(text) > LONGEST_NUMBER or text[0] not in "+-.0123456789":
        return text
    digits = text if text[0] == "." else text.replace("_", "")
    if match := _INT.fullmatch(digits):
        sign = -1 if text[0] == "-" else 1
        bases = zip(match.groups(), (2, 16, 8, 10), strict=True)
        return sign * next(int(number, base) for number, base in bases if number)
    if _FLOAT.fullmatch(digits):
        number = float(digits)
        if number in (float("inf"), float("-inf")):
            return text
        return int(number) if number.is_integer() and abs(number) < 2**53 else number
    return text
