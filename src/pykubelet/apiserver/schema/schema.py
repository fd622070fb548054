"""What the API server knows of a type: its fields, how its lists merge, and which parts are taken as a whole.

A schema is a tree of the values below. Objects themselves stay plain JSON, so that nothing is lost that no schema
knows: whatever is not described is `Anything`, and takes the form of what is found.
"""

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any, Final, Literal, TypeAlias

import msgspec

Json: TypeAlias = Any  # what a JSON decoder returns: dict, list, str, int, float, bool or None

_encode: Final = msgspec.json.Encoder().encode
_ZEROS: Final[dict[str, Json]] = {"date-time": None, "int-or-string": 0, "quantity": "0"}
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

    name: str = ""  # of the type, where it has one of its own


class Record(msgspec.Struct, frozen=True, dict=True):
    name: str  # as OpenAPI spells it: io.k8s.api.core.v1.PodSpec
    fields: Mapping[str, "Field"]
    description: str = ""
    is_atomic: bool = False
    is_open: bool = False
    """Whether it may have further fields, of which nothing is known."""

    @cached_property
    def always(self) -> Mapping[str, Json]:
        """The fields that are there even when nothing was said of them: defaults, zeros and empty objects."""
        defaults = {name: field.default for name, field in self.fields.items() if field.default is not None}
        return defaults | {name: _filled(field.type) for name, field in self.fields.items() if field.is_filled}

    @cached_property
    def blank(self) -> Mapping[str, Json]:
        """An object of which nothing has been said: only what is always written."""
        written = ((name, field) for name, field in self.fields.items() if field.is_written)
        return {name: empty(field.type) if field.is_filled else None for name, field in written}

    @cached_property
    def parts(self) -> tuple[str, ...]:
        """The records in it that are always written: a spec, a status."""
        fields = self.fields.items()
        return tuple(name for name, field in fields if field.is_written and isinstance(field.type, Record))


class Field(msgspec.Struct, frozen=True):
    type: "Schema"
    description: str = ""
    is_required: bool = False
    is_written: bool = False  # even when it is empty
    is_pointer: bool = False  # so that none is something else than zero
    omits_empty: bool = False  # an empty text, a zero or false means the same as none
    default: Json = None
    enum: tuple[str, ...] = ()  # the values there are
    patch_strategy: str = ""  # of what is no list
    number: tuple[int, ...] = ()  # in protobuf, by way of which others

    @property
    def is_filled(self) -> bool:
        if not self.is_written or self.is_pointer:
            return False
        kind = self.type
        return isinstance(kind, Record) or (isinstance(kind, Scalar) and kind.format != "date-time")


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
    """An object of this type of which nothing has been said."""
    if isinstance(schema, Record):
        return copied(schema.blank)
    return zero(schema) if isinstance(schema, Scalar) else None


def _filled(schema: Schema) -> Json:
    return dict(schema.always) if isinstance(schema, Record) else empty(schema)


def zero(schema: Scalar) -> Json:
    """The value of one of which nothing was said."""
    if schema.format in _ZEROS:
        return _ZEROS[schema.format]
    return {"string": "", "integer": 0, "number": 0, "boolean": False}[schema.kind]


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
