"""What is kept of an object, and what is put into it, by a schema: fields that it does not know go, defaults come."""

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

import msgspec

from pykubelet.apiserver.custom.declarations import Schema
from pykubelet.apiserver.schema.schema import copied

MOST_PUT: Final = 4 << 20
"""Bytes of defaults in one object: a list of many empty items has as many copies."""


class TooMuch(ValueError):
    """The defaults of an object are more than an object may be."""


class Room:
    """For defaults, in one object."""

    __slots__ = ("left",)

    def __init__(self) -> None:
        self.left = MOST_PUT

    def take(self, size: int) -> None:
        self.left -= size
        if self.left < 0:
            raise TooMuch(f"its defaults take more than {MOST_PUT} bytes")


Default: TypeAlias = Callable[[Any, Room], None]
"""Changes a value. Raises TooMuch."""
ALWAYS: Final = ("apiVersion", "kind", "metadata")
"""What every object has, also one inside another."""
_KEEPS: Final = "x-kubernetes-preserve-unknown-fields"
_EMBEDDED: Final = "x-kubernetes-embedded-resource"


def pruned(obj: dict[str, Any], schema: Schema, unknown: list[str] | None = None) -> dict[str, Any]:
    """The object with the fields that its schema knows; the paths of the others are entered in `unknown`."""
    told: list[str] = [] if unknown is None else unknown
    rest = {name: value for name, value in obj.items() if name not in ALWAYS}
    result: dict[str, Any] = {name: obj[name] for name in ALWAYS if name in obj}
    result.update(_pruned(rest, schema, "", told))
    return result


def _pruned(value: Any, schema: Schema | None, path: str, told: list[str]) -> Any:
    if isinstance(value, list):
        items = schema.get("items") if schema else None
        if items is None and schema and schema.get(_KEEPS):
            return value
        return [_pruned(each, items, f"{path}[{index}]", told) for index, each in enumerate(value)]
    if not isinstance(value, dict):
        return value
    schema = schema or {}
    properties, values = schema.get("properties") or {}, schema.get("additionalProperties")
    keeps, is_embedded = schema.get(_KEEPS), schema.get(_EMBEDDED)
    result = {}
    for name, inner in value.items():
        if is_embedded and name in ALWAYS:
            result[name] = inner
        elif name in properties:
            if inner is None and _is_never_null(properties[name]):
                continue
            result[name] = _inner(inner, properties[name], f"{path}.{name}", told)
        elif values:
            if inner is None and isinstance(values, Mapping) and _is_never_null(values):
                continue
            result[name] = _inner(inner, values if isinstance(values, Mapping) else None, f"{path}.{name}", told)
        elif keeps:
            result[name] = inner
        else:
            told.append(f"{path}.{name}".lstrip("."))
    return result


def _is_never_null(schema: Schema) -> bool:
    """Then a null says nothing. Where there is a default, that is put in its place."""
    return not schema.get("nullable") and schema.get("default") is None


def _inner(value: Any, schema: Schema | None, path: str, told: list[str]) -> Any:
    return _pruned(value, schema, path, told) if isinstance(value, dict | list) else value


def defaulter(schema: Schema) -> Default | None:
    """What puts in what was left out and has a default, here and in all that is inside; None: there is nothing."""
    properties = schema.get("properties") or {}
    own = [
        (name, inner["default"], bool(inner.get("nullable")), _size(inner["default"]))
        for name, inner in properties.items()
        if inner.get("default") is not None
    ]
    inside = [(name, found) for name, inner in properties.items() if (found := defaulter(inner)) is not None]
    values, items = schema.get("additionalProperties"), schema.get("items")
    each_value = _each(values) if isinstance(values, Mapping) else None
    each_item = _each(items) if isinstance(items, Mapping) else None
    if not (own or inside or each_value or each_item):
        return None

    def put(value: Any, room: Room) -> None:
        if isinstance(value, dict):
            for name, default, is_nullable, size in own:
                if name not in value or (value[name] is None and not is_nullable):
                    room.take(size)
                    value[name] = copied(default)
            for name, put_inside in inside:
                if isinstance(value.get(name), dict | list):
                    put_inside(value[name], room)
            if each_value is not None:
                for name in value:
                    each_value(value, name, room)
        elif isinstance(value, list) and each_item is not None:
            for index in range(len(value)):
                each_item(value, index, room)

    return put


def _size(value: Any) -> int:
    return len(msgspec.json.encode(value))


def _each(schema: Schema) -> Callable[[Any, Any, Room], None] | None:
    """The same for every value of a map or item of a list."""
    default, put_inside = schema.get("default"), defaulter(schema)
    if default is None and put_inside is None:
        return None

    size = _size(default)

    def put(value: Any, place: Any, room: Room) -> None:
        if value[place] is None and default is not None and not schema.get("nullable"):
            room.take(size)
            value[place] = copied(default)
        if put_inside is not None and isinstance(value[place], dict | list):
            put_inside(value[place], room)

    return put
