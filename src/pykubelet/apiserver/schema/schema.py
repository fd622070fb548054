"""What the API server knows of a type: its fields, how its lists merge, and which parts are taken as a whole.

A schema is a tree of the values below. Objects themselves stay plain JSON, so that nothing is lost that no schema
knows: whatever is not described is `Anything`, and takes the form of what is found.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal, TypeAlias

import msgspec

Json: TypeAlias = Any  # what a JSON decoder returns: dict, list, str, int, float, bool or None

_encode: Final = msgspec.json.Encoder().encode
DEEPEST: Final = 200  # deeper than any object that means something, short of Python's own limit


class Scalar(msgspec.Struct, frozen=True):
    kind: Literal["string", "integer", "number", "boolean"]
    format: str = ""
    name: str = ""  # of the named type that it is an instance of: a quantity, a time


class ListOf(msgspec.Struct, frozen=True):
    items: "Schema"
    relation: Literal["atomic", "set", "map"] = "atomic"
    keys: tuple[str, ...] = ()  # what tells the items of a map apart
    is_merged: bool = False  # by a strategic merge patch
    merge_key: str = ""
    retains_keys: bool = False


class MapOf(msgspec.Struct, frozen=True):
    items: "Schema"
    is_atomic: bool = False


class Anything(msgspec.Struct, frozen=True):
    """No schema: maps merge key by key, lists are taken as a whole."""


class Record(msgspec.Struct, frozen=True):
    name: str  # as OpenAPI spells it: io.k8s.api.core.v1.PodSpec
    fields: Mapping[str, "Field"]
    description: str = ""
    is_atomic: bool = False


class Field(msgspec.Struct, frozen=True):
    type: "Schema"
    description: str = ""
    is_required: bool = False
    is_written: bool = False  # even when it is empty
    omits_empty: bool = False  # an empty text means the same as none
    default: Json = None
    enum: tuple[str, ...] = ()  # the values there are


Schema: TypeAlias = Scalar | ListOf | MapOf | Record | Anything

ANYTHING: Final = Anything()


def member(schema: Schema, name: str) -> Schema:
    """What is known of one member of an object."""
    if isinstance(schema, Record):
        field = schema.fields.get(name)
        return field.type if field else ANYTHING
    return schema.items if isinstance(schema, MapOf) else ANYTHING


def item(schema: Schema) -> Schema:
    """What is known of the items of a list."""
    return schema.items if isinstance(schema, ListOf) else ANYTHING


def empty(schema: Schema) -> Json:
    """An object of this type of which nothing has been said: only what is always written."""
    if isinstance(schema, Record):
        return {name: empty(field.type) for name, field in schema.fields.items() if field.is_written}
    if isinstance(schema, Scalar) and schema.format != "date-time":
        return {"string": "", "integer": 0, "number": 0, "boolean": False}[schema.kind]
    return None


def normal(value: Json, schema: Schema) -> Json:
    """An object as it is stored: without what says nothing, with what is always said.

    Nulls and empty lists, maps and texts are left out where their type makes no difference between these and nothing;
    parts such as `resources: {}` are put in. What no type knows stays as it is.
    """
    if isinstance(schema, ListOf | MapOf) and isinstance(value, list | dict):
        if isinstance(value, list):
            return [normal(inner, item(schema)) for inner in value]
        return {name: normal(inner, member(schema, name)) for name, inner in value.items()}
    if not isinstance(schema, Record) or not isinstance(value, dict):
        return value
    result = {}
    for name, inner in value.items():
        field = schema.fields.get(name)
        if field is None or not _says_nothing(inner, field):
            result[name] = normal(inner, field.type) if field else inner
    for name, field in schema.fields.items():
        if field.is_written and not field.is_required and name not in result:
            filled = normal({}, field.type) if isinstance(field.type, Record) else empty(field.type)
            if filled is not None:
                result[name] = filled
    return result


def _says_nothing(value: Json, field: Field) -> bool:
    if value is None:
        return True
    if isinstance(field.type, ListOf | MapOf):
        return not value and not field.is_written
    return value == "" and field.omits_empty


def unknown_fields(value: Json, schema: Schema, path: str = "") -> Iterator[str]:
    """The fields of an object that its type does not have, as `spec.containers[0].bogus`."""
    if isinstance(value, dict):
        for name, inner in value.items():
            if isinstance(schema, Record) and name not in schema.fields:
                yield f"{path}.{name}".lstrip(".")
            else:
                yield from unknown_fields(inner, member(schema, name), f"{path}.{name}")
    elif isinstance(value, list) and isinstance(schema, ListOf):
        for index, inner in enumerate(value):
            yield from unknown_fields(inner, schema.items, f"{path}[{index}]")


def same(one: Json, other: Json) -> bool:
    """Whether two JSON values are equal; unlike Python, JSON does not take true for 1."""
    if one is other:
        return True
    if one != other:
        return False  # what Python takes for different is; most of the work ends here, or with equal texts
    if isinstance(one, dict | list):
        return _encode(one) == _encode(other) or _is_same_inside(one, other)
    return isinstance(one, bool) == isinstance(other, bool)


def _is_same_inside(one: Json, other: Json) -> bool:
    if isinstance(one, dict):
        return all(same(value, other[key]) for key, value in one.items())
    return all(map(same, one, other))


def copied(value: Json) -> Json:
    """A copy that shares no list and no map with the original."""
    return msgspec.to_builtins(value)


def is_too_deep(value: Json) -> bool:
    """Whether a value is nested deeper than any object that means something."""
    level = [value]
    for _ in range(DEEPEST):
        level = [inner for outer in level for inner in _inside(outer)]
        if not level:
            return False
    return True


def _inside(value: Json) -> list[Json]:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [each for each in inner if isinstance(each, dict | list)]
