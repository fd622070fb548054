"""A quick yes for objects that are as their type says: one look by compiled code instead of a walk through every field.

It says no more than that. Whoever does not get a yes looks by himself for what is wrong, and may find nothing: a whole
number that is written `1.0` is none of the plain cases.
"""

import threading
import types
from datetime import datetime
from functools import lru_cache
from typing import Any, Final

import msgspec

from pykubelet.api.quantity import parse as parse_quantity
from pykubelet.apiserver.schema.schema import Json, ListOf, MapOf, Record, Scalar, Schema


class _Amount:
    """A quantity, in any form that is one."""


class _Time:
    """A moment, with its zone."""


class _Again:
    """A type within itself, which is none of the plain cases."""


_PLAIN: Final[dict[str, Any]] = {"string": str, "integer": int, "number": float, "boolean": bool}
_SPECIAL: Final[dict[str, Any]] = {"quantity": _Amount, "date-time": _Time, "int-or-string": int | str}
_lock: Final = threading.RLock()
_begun: Final[list[str]] = []
"""The types that are being made."""


def fits(value: Json, schema: Schema) -> bool:
    """Whether every field is one that its type has, and of the right form; nulls are of any."""
    try:
        msgspec.convert(value, _type(schema), dec_hook=_looked_at)
    except (msgspec.ValidationError, RecursionError):
        return False
    return True


def _type(schema: Schema) -> Any:
    """A type is made once, and goes with its schema."""
    if not isinstance(schema, Record):
        return _made(schema)
    found = schema.__dict__.get("shape")
    if found is None:
        with _lock:
            found = schema.__dict__.get("shape") or (_Again if schema.name in _begun else _record(schema))
    return found


def _record(schema: Record) -> Any:
    _begun.append(schema.name)
    try:
        names = {f"_{number}": name for number, name in enumerate(schema.fields)}  # for some are Python's own words
        members = [(own, _type(schema.fields[name].type) | None, None) for own, name in names.items()]
    finally:
        _begun.pop()
    shape = msgspec.defstruct("Shape", members, rename=names, forbid_unknown_fields=True, gc=False)
    schema.__dict__["shape"] = shape
    return shape


def _made(schema: Schema) -> Any:
    match schema:
        case Scalar():
            return _SPECIAL.get(schema.format) or _PLAIN[schema.kind]
        case ListOf():
            items = _type(schema.items)
            return types.GenericAlias(list, items if isinstance(schema.items, Record) else items | None)
        case MapOf():
            return types.GenericAlias(dict, (str, _type(schema.items) | None))
        case Record():
            return _type(schema)
    return Any


def _looked_at(kind: type[Any], value: object) -> object:
    """Raises ValueError, which makes it a no."""
    if kind is _Again or not (is_amount(value) if kind is _Amount else is_time(value)):
        raise ValueError
    return kind()


def is_amount(value: object) -> bool:
    return isinstance(value, str | int | float) and not isinstance(value, bool) and _is_quantity(str(value))


def is_time(value: object) -> bool:
    return isinstance(value, str) and _has_zone(value)


@lru_cache(maxsize=1024)
def _is_quantity(text: str) -> bool:
    try:
        parse_quantity(text)
    except ValueError:
        return False
    return True


@lru_cache(maxsize=1024)
def _has_zone(text: str) -> bool:
    try:
        return datetime.fromisoformat(text).tzinfo is not None
    except ValueError:
        return False
