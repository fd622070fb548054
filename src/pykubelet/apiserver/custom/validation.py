"""Whether an object fits its schema, and what is wrong with it if not.

A schema is made into functions once, so that an object costs one look at each of its values. What an update leaves as
it was is not looked at again: schemas may become stricter while their objects are there.
"""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, TypeAlias

from pykubelet.api.field_errors import FieldError, duplicate, invalid, not_supported, required, too_long, too_many
from pykubelet.apiserver.cel.formats import FORMATS
from pykubelet.apiserver.cel.regex import matches
from pykubelet.apiserver.cel.values import TooExpensive, size_of
from pykubelet.apiserver.custom.declarations import Schema
from pykubelet.apiserver.custom.rules import item_key
from pykubelet.apiserver.schema.schema import same

_LOOKS: Final = 50_000
_LOOKS_FOR_EACH: Final = 15
"""Words of the schema that are asked of one object, and for each of its values: many alternatives inside others take
more. What is small is looked at in the loop."""
MOST_FAULTS: Final = 100
_SHOWN: Final = 100
"""Values of an enumeration that are told to whoever has used another."""
_NOTHING: Final = object()
_TYPES: Final[Mapping[str, Callable[[Any], bool]]] = {
    "string": lambda value: isinstance(value, str),
    "boolean": lambda value: isinstance(value, bool),
    "integer": lambda value: (
        (isinstance(value, int) and not isinstance(value, bool)) or (isinstance(value, float) and value.is_integer())
    ),
    "number": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
    "array": lambda value: isinstance(value, list),
    "object": lambda value: isinstance(value, dict),
}
_RANGES: Final = {
    "int32": (-(2**31), 2**31 - 1),
    "int64": (-(2**63), 2**63 - 1),
    "uint32": (0, 2**32 - 1),
    "uint64": (0, 2**64 - 1),
    "float": (-3.4028234663852886e38, 3.4028234663852886e38),
}


class Report:
    """What was found, and how much may still be looked at."""

    __slots__ = ("faults", "left")

    def __init__(self, left: int) -> None:
        self.faults: list[FieldError] = []
        self.left = left


Check: TypeAlias = Callable[[Any, Any, str, Report], None]
"""value, the one that it replaces or nothing, path, report"""
_One: TypeAlias = Callable[[Any, str], FieldError | None]


def checker(schema: Schema) -> Check:
    """What looks at values of a schema."""
    own = _own_checks(schema)
    kinds = _kinds(schema)
    nullable = bool(schema.get("nullable"))
    parts = _parts(schema)
    alternatives = _alternatives(schema)
    looks = 1 + len(own)

    def check(value: Any, old: Any, path: str, report: Report) -> None:
        report.left -= looks
        if report.left < 0 or len(report.faults) > MOST_FAULTS * 10:
            raise TooExpensive
        if value is None and nullable:
            return
        if old is not _NOTHING and same(value, old):
            return
        if kinds and not any(_TYPES[kind](value) for kind in kinds):
            report.faults.append(_type_fault(value, path, kinds))
            return
        for one in own:
            if (fault := one(value, path)) is not None:
                report.faults.append(fault)
        if parts is not None:
            parts(value, old, path, report)
        for other in alternatives:
            other(value, _NOTHING, path, report)

    return check


def faults(check: Check, obj: Any, old: Any = None) -> list[FieldError]:
    """What is wrong with an object that replaces another or, without one, is new."""
    before = _NOTHING if old is None else old
    found = _checked(check, obj, before, Report(_LOOKS))
    if found is None:
        found = _checked(check, obj, before, Report(_LOOKS + _LOOKS_FOR_EACH * size_of(obj)))
    if found is None:
        return [invalid("", "object", "it takes too many steps to see whether it fits its schema")]
    return found


def _checked(check: Check, obj: Any, old: Any, report: Report) -> list[FieldError] | None:
    """None: there is more to look at than may be."""
    try:
        check(obj, old, "", report)
    except TooExpensive:
        if report.left < 0 or not report.faults:
            return None
    return report.faults[:MOST_FAULTS]


def _kinds(schema: Schema) -> tuple[str, ...]:
    if schema.get("x-kubernetes-int-or-string"):
        return ("integer", "string")
    kind = schema.get("type") or ""
    return (kind,) if kind in _TYPES else ()


def _type_fault(value: Any, path: str, kinds: Sequence[str]) -> FieldError:
    found = next(
        (name for name in ("boolean", "integer", "number", "string", "array", "object") if _TYPES[name](value)), "null"
    )
    shown = value if isinstance(value, str | int | float | bool) else found
    return FieldError("FieldValueTypeInvalid", path, f'must be of type {",".join(kinds)}: "{found}"', shown)


# --- one value


def _own_checks(schema: Schema) -> tuple[_One, ...]:
    """For each word of the schema that is about the value itself."""
    found: list[_One] = []
    if schema.get("enum") is not None:
        found.append(partial(_in_enum, schema["enum"], frozenset(map(_text, schema["enum"]))))
    if (pattern := schema.get("pattern")) is not None:
        found.append(partial(_matches, pattern))
    form = schema.get("format") or ""
    is_text = schema.get("type") == "string"
    if form in FORMATS and is_text:
        found.append(partial(_has_format, form))
    if form in _RANGES and schema.get("type") in ("integer", "number"):
        found.append(partial(_in_range, form))
    for word, look in _BOUNDS.items():
        if schema.get(word) is not None:
            found.append(partial(look, schema[word], schema))
    if schema.get("x-kubernetes-embedded-resource"):
        found += [partial(_is_said, name) for name in ("apiVersion", "kind")]
    return (*found, *(partial(_is_there, name) for name in schema.get("required") or ()))


def _text(value: Any) -> str:
    """Alike for values that are the same."""
    whole = int(value) if isinstance(value, float) and value.is_integer() else value
    return json.dumps(whole, sort_keys=True)


def _in_enum(allowed: Sequence[Any], texts: frozenset[str], value: Any, path: str) -> FieldError | None:
    if _text(value) in texts:
        return None
    allowed = allowed[:_SHOWN]
    return not_supported(path, value, tuple(each if isinstance(each, str) else json.dumps(each) for each in allowed))


def _matches(pattern: str, value: Any, path: str) -> FieldError | None:
    if not isinstance(value, str) or matches(pattern, value):
        return None
    return invalid(path, value, f"should match '{pattern}'")


def _has_format(form: str, value: Any, path: str) -> FieldError | None:
    if not isinstance(value, str) or FORMATS[form](value):
        return None
    return invalid(path, value, f"must be of type {form}: {json.dumps(value)}")


def _in_range(form: str, value: Any, path: str) -> FieldError | None:
    low, high = _RANGES[form]
    return None if low <= value <= high else invalid(path, value, f"must be a number that fits {form}")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _at_most(most: float, schema: Schema, value: Any, path: str) -> FieldError | None:
    is_open = bool(schema.get("exclusiveMaximum"))
    if not _is_number(value) or value < most or (value == most and not is_open):
        return None
    return invalid(path, value, f"should be less than {'' if is_open else 'or equal to '}{_number(most)}")


def _at_least(least: float, schema: Schema, value: Any, path: str) -> FieldError | None:
    is_open = bool(schema.get("exclusiveMinimum"))
    if not _is_number(value) or value > least or (value == least and not is_open):
        return None
    return invalid(path, value, f"should be greater than {'' if is_open else 'or equal to '}{_number(least)}")


def _multiple_of(factor: float, schema: Schema, value: Any, path: str) -> FieldError | None:
    if not _is_number(value):
        return None
    if isinstance(value, int) and float(factor).is_integer():
        is_multiple = value % int(factor) == 0
    else:
        times = value / factor
        is_multiple = math.isfinite(times) and math.isclose(times, round(times), rel_tol=1e-12, abs_tol=1e-12)
    return None if is_multiple else invalid(path, value, f"should be a multiple of {_number(factor)}")


def _number(value: float) -> str:
    return str(int(value)) if float(value).is_integer() else str(value)


def _longest(most: int, schema: Schema, value: Any, path: str) -> FieldError | None:
    return too_long(path, most) if isinstance(value, str) and len(value) > most else None


def _shortest(least: int, schema: Schema, value: Any, path: str) -> FieldError | None:
    if not isinstance(value, str) or len(value) >= least:
        return None
    return invalid(path, value, f"should be at least {least} chars long")


def _most_items(most: int, schema: Schema, value: Any, path: str) -> FieldError | None:
    return too_many(path, most, len(value)) if isinstance(value, list) and len(value) > most else None


def _least_items(least: int, schema: Schema, value: Any, path: str) -> FieldError | None:
    if not isinstance(value, list) or len(value) >= least:
        return None
    return invalid(path, len(value), f"should have at least {least} items")


def _most_properties(most: int, schema: Schema, value: Any, path: str) -> FieldError | None:
    return too_many(path, most, len(value)) if isinstance(value, dict) and len(value) > most else None


def _least_properties(least: int, schema: Schema, value: Any, path: str) -> FieldError | None:
    if not isinstance(value, dict) or len(value) >= least:
        return None
    return invalid(path, len(value), f"should have at least {least} properties")


def _is_there(name: str, value: Any, path: str) -> FieldError | None:
    if not isinstance(value, dict) or name in value:
        return None
    return required(f"{path}.{name}".lstrip("."), "")


def _is_said(name: str, value: Any, path: str) -> FieldError | None:
    found = value.get(name) if isinstance(value, dict) else None
    if isinstance(found, str) and found:
        return None
    return required(f"{path}.{name}", "") if not found else invalid(f"{path}.{name}", found, "must be a text")


_BOUNDS: Final[Mapping[str, Callable[[Any, Schema, Any, str], FieldError | None]]] = {
    "maximum": _at_most,
    "minimum": _at_least,
    "multipleOf": _multiple_of,
    "maxLength": _longest,
    "minLength": _shortest,
    "maxItems": _most_items,
    "minItems": _least_items,
    "maxProperties": _most_properties,
    "minProperties": _least_properties,
}


# --- what is inside


def _parts(schema: Schema) -> Check | None:
    properties = {name: checker(inner) for name, inner in (schema.get("properties") or {}).items()}
    values, items = schema.get("additionalProperties"), schema.get("items")
    each_value = checker(values) if isinstance(values, Mapping) else None
    each_item = checker(items) if isinstance(items, Mapping) else None
    is_closed = values is False
    relation, keys = schema.get("x-kubernetes-list-type"), tuple(schema.get("x-kubernetes-list-map-keys") or ())
    if not (properties or each_value or each_item or is_closed or relation in ("set", "map")):
        return None

    def check(value: Any, old: Any, path: str, report: Report) -> None:
        if isinstance(value, dict):
            olds = old if isinstance(old, dict) else {}
            for name, inner in value.items():
                look = properties.get(name)
                if look is not None:
                    look(inner, olds.get(name, _NOTHING), f"{path}.{name}" if path else name, report)
                elif each_value is not None:
                    each_value(inner, olds.get(name, _NOTHING), f"{path}.{name}" if path else name, report)
                elif is_closed:
                    report.faults.append(invalid(f"{path}.{name}".lstrip("."), "", "is a forbidden property"))
        elif isinstance(value, list):
            if each_item is not None:
                before = {item_key(item, keys): item for item in old} if keys and isinstance(old, list) else {}
                for index, inner in enumerate(value):
                    earlier = before.get(item_key(inner, keys), _NOTHING) if before else _NOTHING
                    each_item(inner, earlier, f"{path}[{index}]", report)
            if relation in ("set", "map"):
                report.faults += _repeated(value, keys if relation == "map" else (), path)

    return check


def _repeated(items: list[Any], keys: tuple[str, ...], path: str) -> list[FieldError]:
    """What is there twice in a list whose items are told apart by their keys or by themselves."""
    seen: set[str] = set()
    found = []
    for index, item in enumerate(items):
        told = {key: item[key] for key in keys if key in item} if keys and isinstance(item, dict) else item
        text = json.dumps(told, sort_keys=True)
        if text in seen:
            found.append(duplicate(f"{path}[{index}]", told))
        seen.add(text)
    return found


# --- alternatives


def _alternatives(schema: Schema) -> tuple[Check, ...]:
    found: list[Check] = [checker(each) for each in schema.get("allOf") or ()]
    if schema.get("anyOf"):
        found.append(partial(_some, [checker(each) for each in schema["anyOf"]], False))
    if schema.get("oneOf"):
        found.append(partial(_some, [checker(each) for each in schema["oneOf"]], True))
    if schema.get("not") is not None:
        found.append(partial(_none, checker(schema["not"])))
    return tuple(found)


def _passes(check: Check, value: Any, path: str, report: Report) -> bool:
    inner = Report(report.left)
    try:
        check(value, _NOTHING, path, inner)
    except TooExpensive:
        if not inner.faults or inner.left < 0:
            raise
    finally:
        report.left = inner.left
    return not inner.faults


def _some(checks: Sequence[Check], is_one: bool, value: Any, old: Any, path: str, report: Report) -> None:
    count = sum(_passes(check, value, path, report) for check in checks)
    if is_one and count != 1:
        found = f"Found {count} valid alternatives" if count else "Found none valid"
        report.faults.append(invalid(path, _shown(value), f"must validate one and only one schema (oneOf). {found}"))
    elif not is_one and not count:
        report.faults.append(invalid(path, _shown(value), "must validate at least one schema (anyOf)"))


def _none(check: Check, value: Any, old: Any, path: str, report: Report) -> None:
    if _passes(check, value, path, report):
        report.faults.append(invalid(path, _shown(value), "must not validate the schema (not)"))


def _shown(value: Any) -> Any:
    return value if isinstance(value, str | int | float | bool) else ""
