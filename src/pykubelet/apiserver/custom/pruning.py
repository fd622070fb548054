"""What is kept of an object, and what is put into it, by a schema: fields that it does not know go, defaults come."""

from collections.abc import Mapping
from typing import Any, Final

from pykubelet.apiserver.custom.declarations import Schema
from pykubelet.apiserver.schema.schema import copied

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


def has_defaults(schema: Schema) -> bool:
    """Whether there is anything to put in."""
    if schema.get("default") is not None:
        return True
    values, items = schema.get("additionalProperties"), schema.get("items")
    inner = [
        *(schema.get("properties") or {}).values(),
        *(each for each in (values, items) if isinstance(each, Mapping)),
    ]
    return any(map(has_defaults, inner))


def put_defaults(value: Any, schema: Schema) -> None:
    """Put in what was left out and has a default, here and in all that is inside."""
    if isinstance(value, dict):
        values = schema.get("additionalProperties")
        properties = schema.get("properties") or {}
        for name, inner in properties.items():
            if inner.get("default") is not None and _is_missing(value, name, inner):
                value[name] = copied(inner["default"])
            if isinstance(value.get(name), dict | list):
                put_defaults(value[name], inner)
        if isinstance(values, Mapping):
            for name in value:
                _put(value, name, values)
    elif isinstance(value, list) and isinstance(items := schema.get("items"), Mapping):
        for index in range(len(value)):
            _put(value, index, items)


def _is_missing(value: dict[str, Any], name: str, schema: Schema) -> bool:
    return name not in value or (value[name] is None and not schema.get("nullable"))


def _put(value: Any, place: Any, schema: Schema) -> None:
    if value[place] is None and schema.get("default") is not None and not schema.get("nullable"):
        value[place] = copied(schema["default"])
    if isinstance(value[place], dict | list):
        put_defaults(value[place], schema)
