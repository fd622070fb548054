"""Conditions in a status, where they are of the form that all newer kinds share."""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from pykubelet.api.field_errors import FieldError, duplicate, invalid, required, too_long
from pykubelet.api.validation import names
from pykubelet.api.validation.rules import not_negative, one_of, spelled

_STATUSES: Final = ("False", "True", "Unknown")
_REASON: Final = re.compile("[A-Za-z](?:[A-Za-z0-9_,:]*[A-Za-z0-9_])?")
_LONGEST: Final = {"reason": 1024, "message": 32_768}


def conditions_faults(
    conditions: Iterable[Mapping[str, Any]], field: str = "status.conditions"
) -> Iterator[FieldError]:
    seen = set()
    for index, each in enumerate(conditions):
        if (kind := each.get("type", "")) in seen:
            yield duplicate(f"{field}[{index}].type", kind)
        seen.add(kind)
        yield from condition_faults(each, f"{field}[{index}]")


def condition_faults(condition: Mapping[str, Any], field: str) -> Iterator[FieldError]:
    kind, reason = condition.get("type", ""), condition.get("reason") or ""
    yield from spelled(f"{field}.type", kind, names.qualified_name(kind))
    yield from one_of(f"{field}.status", condition.get("status", ""), _STATUSES)
    yield from not_negative(f"{field}.observedGeneration", condition.get("observedGeneration"))
    if not condition.get("lastTransitionTime"):
        yield required(f"{field}.lastTransitionTime", "")
    if not reason:
        yield required(f"{field}.reason", "")
    elif not _REASON.fullmatch(reason):
        yield invalid(f"{field}.reason", reason, "must be letters, digits, '_', ',' and ':', a letter first")
    for name, most in _LONGEST.items():
        if names.size(condition.get(name) or "") > most:
            yield too_long(f"{field}.{name}", most)
