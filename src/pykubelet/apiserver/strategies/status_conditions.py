"""Conditions in a status, where they are of the form that all newer kinds share."""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from pykubelet.api.field_errors import FieldError, invalid, not_supported, required
from pykubelet.api.validation import names
from pykubelet.api.validation.rules import not_negative, spelled

_STATUSES: Final = ("False", "True", "Unknown")
_REASON: Final = re.compile("[A-Za-z](?:[A-Za-z0-9_,:]*[A-Za-z0-9_])?")
_LONGEST: Final = {"reason": 1024, "message": 32_768}


def condition_faults(conditions: Iterable[Mapping[str, Any]], field: str = "status.conditions") -> Iterator[FieldError]:
    for index, each in enumerate(conditions):
        place, kind, reason = f"{field}[{index}]", each.get("type", ""), each.get("reason", "")
        yield from spelled(f"{place}.type", kind, names.qualified_name(kind))
        if each.get("status", "") not in _STATUSES:
            yield not_supported(f"{place}.status", each.get("status", ""), _STATUSES)
        yield from not_negative(f"{place}.observedGeneration", each.get("observedGeneration"))
        if not each.get("lastTransitionTime"):
            yield required(f"{place}.lastTransitionTime", "")
        if not reason:
            yield required(f"{place}.reason", "")
        elif len(reason) <= _LONGEST["reason"] and not _REASON.fullmatch(reason):
            yield invalid(f"{place}.reason", reason, "must be letters, digits, '_', ',' and ':', a letter first")
        for name, most in _LONGEST.items():
            if len(each.get(name) or "") > most:
                yield FieldError("FieldValueTooLong", f"{place}.{name}", f"may not be longer than {most}")
