"""Where a value is not as its type says, in words for a person: maps that are no maps, numbers that are none."""

from collections.abc import Iterator
from typing import Final

from pykubelet.apiserver.schema.schema import Anything, Json, ListOf, Record, Scalar, Schema, member
from pykubelet.apiserver.schema.shapes import is_amount, is_time

_NAMES: Final = {str: "string", bool: "bool", int: "int64", float: "float64"}
"""What people look for who have seen upstream's message."""
_WANTED: Final = {
    "string": "text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "quantity": "an amount, such as 250m or 2Gi",
    "date-time": "a time, such as 2026-01-02T15:04:05Z",
    "int-or-string": "a number or text",
}


def misfits(value: Json, schema: Schema, path: str = "") -> Iterator[str]:
    """Fields that nobody knows are none of them."""
    if value is None or isinstance(schema, Anything):
        return
    place = path.lstrip(".") or "it"
    if isinstance(schema, Scalar):
        if not _fits(value, schema):
            yield f"{place}: has to be {_WANTED.get(schema.format) or _WANTED[schema.kind]}"
    elif isinstance(schema, ListOf):
        if not isinstance(value, list):
            yield f"{place}: has to be a list"
        else:
            yield from _misfit_items(value, schema, path)
    elif not isinstance(value, dict):
        yield f"{place}: has to be an object: cannot restore map from {_NAMES.get(type(value), 'slice')}"
    else:
        for name, inner in value.items():
            yield from misfits(inner, member(schema, name), f"{path}.{name}")


def _misfit_items(values: list[Json], schema: ListOf, path: str) -> Iterator[str]:
    for index, inner in enumerate(values):
        if inner is None and isinstance(schema.items, Record):
            yield f"{path.lstrip('.')}[{index}]: has to be an object"
        yield from misfits(inner, schema.items, f"{path}[{index}]")


def _fits(value: Json, schema: Scalar) -> bool:
    is_number = isinstance(value, int) and not isinstance(value, bool)
    match schema.kind:
        case "string" if schema.format == "quantity":
            return is_amount(value)
        case "string" if schema.format == "date-time":
            return is_time(value)
        case "string":
            return isinstance(value, str) or (schema.format == "int-or-string" and is_number)
        case "integer":
            return is_number or (isinstance(value, float) and value.is_integer())
        case "number":
            return is_number or isinstance(value, float)
        case "boolean":
            return isinstance(value, bool)
