"""What expressions see of an object with a schema: the types of its fields, and its values as those types have them."""

import base64
import binascii
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from pykubelet.apiserver.cel.names import escaped
from pykubelet.apiserver.cel.types import (
    BOOL,
    BYTES,
    DOUBLE,
    DURATION,
    DYN,
    INT,
    STRING,
    TIMESTAMP,
    ObjectType,
    Type,
    list_of,
    map_of,
)
from pykubelet.apiserver.cel.values import (
    CelError,
    MapList,
    ObjectValue,
    SetList,
    Value,
    parse_duration,
    parse_timestamp,
)

Schema: TypeAlias = Mapping[str, Any]
"""As it is written in a CustomResourceDefinition."""
Adapter: TypeAlias = Callable[[Any], Value]

_TEXTS: Final = {"byte": BYTES, "duration": DURATION, "date": TIMESTAMP, "date-time": TIMESTAMP}
_PLAIN: Final = {"boolean": BOOL, "integer": INT, "number": DOUBLE}
_ROOT: Final[Schema] = {
    "kind": {"type": "string"},
    "apiVersion": {"type": "string"},
    "metadata": {
        "type": "object",
        "properties": {"name": {"type": "string"}, "generateName": {"type": "string"}},
    },
}


def with_root_fields(schema: Schema) -> Schema:
    """The schema of a whole object, whose kind and name can always be looked at."""
    known = schema.get("properties", {})
    metadata = {**_ROOT["metadata"]["properties"], **known.get("metadata", {}).get("properties", {})}
    return {**schema, "properties": {**known, **_ROOT, "metadata": {"type": "object", "properties": metadata}}}


def declared(schema: Schema, name: str = "self", *, is_root: bool = False) -> Type | None:
    """The type of what fits a schema; None where it says too little to look at."""
    if schema.get("x-kubernetes-int-or-string"):
        return DYN
    if is_root or schema.get("x-kubernetes-embedded-resource"):
        schema = with_root_fields(schema)
    match schema.get("type"):
        case "array":
            items = schema.get("items")
            item = declared(items, f"{name}.@idx") if items is not None else None
            return None if item is None else list_of(item)
        case "object":
            return _declared_object(schema, name)
        case "string":
            return _TEXTS.get(schema.get("format", ""), STRING)
        case kind:
            return _PLAIN.get(kind or "")


def _declared_object(schema: Schema, name: str) -> Type | None:
    inner = schema.get("additionalProperties")
    if isinstance(inner, Mapping):
        value = declared(inner, f"{name}.@elem")
        return None if value is None else map_of(STRING, value)
    fields = {}
    for each, property_schema in schema.get("properties", {}).items():
        written, found = escaped(each), declared(property_schema, f"{name}.{each}")
        if written is not None and found is not None:
            fields[written] = found
    return ObjectType(name, fields=fields)


def adapter(schema: Schema, name: str = "self", *, is_root: bool = False) -> Adapter:
    """What makes a value for expressions of one that is JSON."""
    if schema.get("x-kubernetes-int-or-string"):
        return _int_or_text
    if is_root or schema.get("x-kubernetes-embedded-resource"):
        schema = with_root_fields(schema)
    match schema.get("type"):
        case "array":
            return _list_adapter(schema, name)
        case "object":
            return _map_adapter(schema, name)
        case "string":
            return _text_adapter(schema.get("format", ""))
        case "number":
            return lambda value: None if value is None else float(value)
    return _same


def _same(value: Any) -> Value:
    return value


def _int_or_text(value: Any) -> Value:
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise CelError("invalid data, expected XIntOrString value to be either a string or integer")
    return value


def _text_adapter(form: str) -> Adapter:
    def adapted(value: Any) -> Value:
        if value is None:
            return None
        try:
            match form:
                case "byte":
                    return base64.b64decode(value)
                case "duration":
                    return parse_duration(value)
                case "date":
                    return parse_timestamp(f"{value}T00:00:00Z")
                case _:
                    return parse_timestamp(value)
        except (ValueError, binascii.Error):
            raise CelError(f"invalid data, expected a {form}") from None

    return adapted if form in _TEXTS else _same


def _nullable(inner: Adapter, schema: Schema) -> Adapter:
    def adapted(value: Any) -> Value:
        if value is None:
            if schema.get("nullable"):
                return None
            raise CelError("invalid data, got null for schema with nullable=false")
        return inner(value)

    return adapted


def _list_adapter(schema: Schema, name: str) -> Adapter:
    items = schema.get("items", {})
    inner = _nullable(adapter(items, f"{name}.@idx"), items)
    relation, keys = schema.get("x-kubernetes-list-type"), tuple(schema.get("x-kubernetes-list-map-keys", ()))

    def adapted(value: Any) -> Value:
        if not isinstance(value, list):
            raise CelError("invalid data, expected an array for the provided schema with type=array")
        found = list(map(inner, value))
        if relation == "map":
            return MapList(found, keys)
        return SetList(found) if relation == "set" else found

    return adapted


def _map_adapter(schema: Schema, name: str) -> Adapter:
    inner = schema.get("additionalProperties")
    if isinstance(inner, Mapping):
        value_adapter = _nullable(adapter(inner, f"{name}.@elem"), inner)

        def adapted_map(value: Any) -> Value:
            return {key: value_adapter(each) for key, each in _checked(value).items()}

        return adapted_map
    fields = {each: adapter(part, f"{name}.{each}") for each, part in schema.get("properties", {}).items()}

    def adapted(value: Any) -> Value:
        found = {
            key: fields[key](each) if key in fields else each
            for key, each in _checked(value).items()
            if each is not None  # a field that is null is as good as absent
        }
        return ObjectValue(found, name)

    return adapted


def _checked(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise CelError("invalid data, expected a map for the provided schema with type=object")
    return value
