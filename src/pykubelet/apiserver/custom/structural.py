"""Which schemas may be used: those that say for each value where it belongs, so that it can be pruned and defaulted.

A schema has a spine, which gives every field a type, and may have words beside it (allOf, anyOf, oneOf, not) that say
more about values that the spine knows. Whatever is not checked is not accepted.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from pykubelet.api.field_errors import FieldError, forbidden, invalid, not_supported, required
from pykubelet.apiserver.cel.program import Budget, TooExpensive
from pykubelet.apiserver.cel.regex import BadPattern, compiled, weight
from pykubelet.apiserver.custom.declarations import Schema
from pykubelet.apiserver.custom.pruning import ALWAYS, pruned
from pykubelet.apiserver.custom.rules import rule_faults, rule_tree
from pykubelet.apiserver.custom.validation import checker, faults
from pykubelet.apiserver.schema.schema import copied

DEEPEST: Final = 60
"""Levels of a schema."""
_HEAVIEST_PATTERNS: Final = 400_000
"""Steps of all patterns of a definition together. The public ones have a few thousand."""
_DEFAULT_BUDGET: Final = 20_000
_TYPES: Final = ("array", "boolean", "integer", "number", "object", "string")
_UNSUPPORTED: Final = ("id", "additionalItems", "patternProperties", "definitions", "dependencies", "$ref")
_BESIDE: Final = ("allOf", "anyOf", "oneOf")
_SPINE_ONLY: Final = {
    "type": "must be empty to be structural",
    "additionalProperties": "must be undefined to be structural",
    "default": "must be undefined to be structural",
    "title": "must be empty to be structural",
    "description": "must be empty to be structural",
    "nullable": "must be false to be structural",
    "x-kubernetes-preserve-unknown-fields": "must be false to be structural",
    "x-kubernetes-embedded-resource": "must be false to be structural",
    "x-kubernetes-int-or-string": "must be false to be structural",
    "x-kubernetes-list-map-keys": "must be empty to be structural",
    "x-kubernetes-list-type": "must be undefined to be structural",
    "x-kubernetes-map-type": "must be undefined to be structural",
}
_INT_OR_STRING: Final = [{"type": "integer"}, {"type": "string"}]
_INT_OR_TEXT: Final = "x-kubernetes-int-or-string"
_EMBEDDED: Final = "x-kubernetes-embedded-resource"
_KEEPS: Final = "x-kubernetes-preserve-unknown-fields"
_EMPTY: Final = {
    "root": "must not be empty at the root",
    "item": "must not be empty for specified array items",
    "field": "must not be empty for specified object fields",
}


def structural_faults(schema: Schema, path: str) -> Iterator[FieldError]:
    """What keeps a schema from being structural, and what is in it that is not supported."""
    if _is_too_deep(schema):
        yield forbidden(path, f"is nested deeper than {DEEPEST} levels")
        return
    if schema.get("nullable"):
        yield forbidden(f"{path}.nullable", "nullable cannot be true at the root")
    yield from _spine(schema, path, "root")
    for part, place in _everywhere(schema, path):
        yield from _word_faults(part, place)
    yield from _meta_faults(schema, path, is_object=True)


def patterns_are_too_heavy(schemas: Iterable[Schema]) -> bool:
    """Whether it would take long to make all patterns of a definition ready, for which others would have to wait."""
    total = 0
    for schema in schemas:
        for part, _ in _everywhere(schema, ""):
            total += weight(part["pattern"]) if part.get("pattern") else 0
            if total > _HEAVIEST_PATTERNS:
                return True
    return False


def _meta_faults(schema: Schema, path: str, *, is_object: bool) -> Iterator[FieldError]:
    """About what is said of the metadata of objects inside others."""
    is_object = is_object or bool(schema.get(_EMBEDDED))
    for part, place in inside(schema, path):
        if is_object and place in [f"{path}.properties[{name}]" for name in ALWAYS]:
            for inner, where in _everywhere(part, place):
                if inner.get(_EMBEDDED):
                    yield forbidden(f"{where}.{_EMBEDDED}", "must not be used inside of resource meta")
                if inner.get("default") is not None and ".additionalProperties" in where.removeprefix(place):
                    what = "must not be set inside additionalProperties applying to object metadata"
                    yield forbidden(f"{where}.default", what)
        else:
            yield from _meta_faults(part, place, is_object=False)


def _is_too_deep(schema: Schema) -> bool:
    level = [schema]
    for _ in range(DEEPEST):
        level = [inner for outer in level for inner, _ in inside(outer, "")]
        if not level:
            return False
    return True


def inside(schema: Schema, path: str) -> Iterator[tuple[Schema, str]]:
    """All schemas that a schema is made of, with their paths."""
    for name, inner in (schema.get("properties") or {}).items():
        yield inner, f"{path}.properties[{name}]"
    for word in ("items", "additionalProperties", "not"):
        if isinstance(schema.get(word), Mapping):
            yield schema[word], f"{path}.{word}"
    for word in _BESIDE:
        for index, inner in enumerate(schema.get(word) or ()):
            yield inner, f"{path}.{word}[{index}]"


def _everywhere(schema: Schema, path: str) -> Iterator[tuple[Schema, str]]:
    waiting = [(schema, path)]
    while waiting:
        outer, place = waiting.pop()
        yield outer, place
        waiting += inside(outer, place)


# --- the spine


def _spine(schema: Schema, path: str, level: str) -> Iterator[FieldError]:
    kind, values = schema.get("type") or "", schema.get("additionalProperties")
    properties = schema.get("properties") or {}
    if kind == "array" and not isinstance(schema.get("items"), Mapping):
        yield required(f"{path}.items", "must be specified")
    yield from _type_faults(schema, kind, path, level)
    if values is not None and level == "root":
        yield forbidden(f"{path}.additionalProperties", "must not be used at the root")
    if level == "root" or schema.get(_EMBEDDED):
        yield from _object_faults(schema, properties, path, is_root=level == "root")
    for name, inner in properties.items():
        if not (level == "root" and name == "metadata"):
            yield from _spine(inner, f"{path}.properties[{name}]", "field")
    if isinstance(values, Mapping):
        yield from _spine(values, f"{path}.additionalProperties", "field")
    if isinstance(schema.get("items"), Mapping):
        yield from _spine(schema["items"], f"{path}.items", "item")
    yield from _beside(schema, path, is_first=True)


def _type_faults(schema: Schema, kind: str, path: str, level: str) -> Iterator[FieldError]:
    if schema.get(_EMBEDDED):
        said = "must be object if x-kubernetes-embedded-resource is true"
        if kind != "object":
            yield invalid(f"{path}.type", kind, said) if kind else required(f"{path}.type", said)
        if schema.get("additionalProperties") is not None:
            yield forbidden(f"{path}.additionalProperties", "must not be used if x-kubernetes-embedded-resource is set")
        if not schema.get(_KEEPS) and not schema.get("properties"):
            said = f"must not be empty if {_EMBEDDED} is true without {_KEEPS}"
            yield required(f"{path}.properties", said)
    elif not kind and not schema.get(_INT_OR_TEXT) and not schema.get(_KEEPS):
        yield required(f"{path}.type", _EMPTY[level])
    if level == "root" and kind and kind != "object":
        yield invalid(f"{path}.type", kind, "must be object at the root")
    if schema.get(_INT_OR_TEXT):
        for word in (_KEEPS, _EMBEDDED):
            if schema.get(word):
                yield invalid(f"{path}.{word}", True, "must be false if x-kubernetes-int-or-string is true")


def _object_faults(
    schema: Schema, properties: Mapping[str, Schema], path: str, *, is_root: bool
) -> Iterator[FieldError]:
    """About what every object has."""
    for name in ("kind", "apiVersion"):
        if name in properties and properties[name].get("type") != "string":
            yield invalid(f"{path}.properties[{name}].type", properties[name].get("type", ""), "must be string")
    metadata = properties.get("metadata")
    if metadata is None:
        return
    place = f"{path}.properties[metadata]"
    if metadata.get("type") != "object":
        yield invalid(f"{place}.type", metadata.get("type", ""), "must be object")
    if is_root:
        said = {word for word, value in metadata.items() if value not in (None, {}, [], "")}
        fields = set(metadata.get("properties") or {})
        if said - {"type", "properties", "description", "default"} or fields - {"name", "generateName"}:
            what = "must not specify anything other than name and generateName, but metadata is implicitly specified"
            yield forbidden(place, what)


# --- beside the spine


def _beside(schema: Schema, path: str, *, is_first: bool) -> Iterator[FieldError]:
    """`is_first`: the one pattern is allowed that older tools write for a number or text."""
    is_either = is_first and bool(schema.get(_INT_OR_TEXT))
    for word in _BESIDE:
        for index, inner in enumerate(schema.get(word) or ()):
            place = f"{path}.{word}[{index}]"
            if is_either and word == "anyOf" and list(schema["anyOf"]) == _INT_OR_STRING:
                continue
            skips = is_either and word == "allOf" and index == 0 and list(inner.get("anyOf") or ()) == _INT_OR_STRING
            yield from _nested({**inner, "anyOf": ()} if skips else inner, place)
    if isinstance(schema.get("not"), Mapping):
        yield from _nested(schema["not"], f"{path}.not")


def _nested(schema: Schema, path: str) -> Iterator[FieldError]:
    for word, said in _SPINE_ONLY.items():
        if schema.get(word) not in (None, "", False, [], ()):
            yield forbidden(f"{path}.{word}", said)
    if schema.get("x-kubernetes-validations"):
        yield forbidden(f"{path}.x-kubernetes-validations", "must be empty to be structural")
    for name, inner in (schema.get("properties") or {}).items():
        place = f"{path}.properties[{name}]"
        if name == "metadata":
            yield forbidden(place, "must not be specified in a nested context")
        yield from _nested(inner, place)
    if isinstance(schema.get("items"), Mapping):
        yield from _nested(schema["items"], f"{path}.items")
    yield from _beside(schema, path, is_first=False)


# --- words, wherever they are


def _word_faults(schema: Schema, path: str) -> Iterator[FieldError]:
    kind = schema.get("type") or ""
    if kind == "null":
        yield forbidden(f"{path}.type", "type cannot be set to null, use nullable as an alternative")
    elif kind and kind not in _TYPES:
        yield not_supported(f"{path}.type", kind, _TYPES)
    for word in _UNSUPPORTED:
        if schema.get(word) not in (None, "", {}, []):
            yield forbidden(f"{path}.{word}", f"{word} is not supported")
    if isinstance(schema.get("items"), list):
        yield forbidden(f"{path}.items", "items must be a schema object and not an array")
    if schema.get("uniqueItems"):
        yield forbidden(
            f"{path}.uniqueItems", "cannot be true, since the time that it takes grows with the square of the items"
        )
    if schema.get("properties") and schema.get("additionalProperties") not in (None, True):
        yield forbidden(f"{path}.additionalProperties", "additionalProperties and properties are mutual exclusive")
    if schema.get(_KEEPS) is False:
        yield invalid(f"{path}.{_KEEPS}", False, "must be true or undefined")
    if schema.get("pattern"):
        try:
            compiled(schema["pattern"])
        except BadPattern as error:
            said = f"must be a valid regular expression, but isn't: {error}"
            yield invalid(f"{path}.pattern", schema["pattern"], said)
    if isinstance(schema.get("multipleOf"), int | float) and schema["multipleOf"] <= 0:
        yield invalid(f"{path}.multipleOf", schema["multipleOf"], "must be greater than 0")
    yield from _merge_faults(schema, kind, path)


def _merge_faults(schema: Schema, kind: str, path: str) -> Iterator[FieldError]:
    map_type, list_type = schema.get("x-kubernetes-map-type"), schema.get("x-kubernetes-list-type")
    for word, given, wanted, allowed in (
        ("x-kubernetes-map-type", map_type, "object", ("atomic", "granular")),
        ("x-kubernetes-list-type", list_type, "array", ("atomic", "set", "map")),
    ):
        if given is not None and kind != wanted:
            said = f"must be {wanted} if {word} is specified"
            yield invalid(f"{path}.type", kind, said) if kind else required(f"{path}.type", said)
        if given is not None and given not in allowed:
            yield not_supported(f"{path}.{word}", given, allowed)
    items = schema.get("items") if isinstance(schema.get("items"), Mapping) else None
    keys = schema.get("x-kubernetes-list-map-keys") or []
    if keys and list_type != "map":
        said = "must be map if x-kubernetes-list-map-keys is non-empty"
        place = f"{path}.x-kubernetes-list-type"
        yield invalid(place, list_type, said) if list_type else required(place, said)
    if list_type == "set" and items is not None:
        is_list = items.get("type") == "array"
        word = "x-kubernetes-list-type" if is_list else "x-kubernetes-map-type"
        default = "atomic" if is_list else "granular"
        if items.get("type") in ("array", "object") and (items.get(word) or default) != "atomic":
            said = "must be atomic as item of a list with x-kubernetes-list-type=set"
            yield invalid(f"{path}.items.{word}", items.get(word), said)
    if list_type in ("set", "map") and items is not None and items.get("nullable"):
        yield forbidden(f"{path}.items.nullable", f"cannot be nullable when x-kubernetes-list-type is {list_type}")
    if list_type == "map":
        yield from _key_faults(items, keys, path)


def _key_faults(items: Schema | None, keys: list[str], path: str) -> Iterator[FieldError]:
    place = f"{path}.x-kubernetes-list-map-keys"
    if not keys:
        yield required(place, "must not be empty if x-kubernetes-list-type is map")
    if items is None:
        yield required(f"{path}.items", "must have a schema if x-kubernetes-list-type is map")
        return
    if items.get("type") != "object":
        said = "must be object if parent array's x-kubernetes-list-type is map"
        yield invalid(f"{path}.items.type", items.get("type", ""), said)
        return
    properties = items.get("properties") or {}
    if len(set(keys)) < len(keys):
        yield invalid(place, keys, "must not contain duplicate entries")
    for key in keys:
        inner, where = properties.get(key), f"{path}.items.properties[{key}]"
        if inner is None:
            yield invalid(place, keys, "entries must all be names of item properties")
            continue
        if inner.get("type") in ("array", "object"):
            said = "must be a scalar type if parent array's x-kubernetes-list-type is map"
            yield invalid(f"{where}.type", inner["type"], said)
        if key not in (items.get("required") or ()) and inner.get("default") is None:
            said = "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property"
            yield required(f"{where}.default", said)
        if inner.get("nullable"):
            yield forbidden(
                f"{where}.nullable", "this property is in x-kubernetes-list-map-keys, so it cannot be nullable"
            )


# --- defaults


def default_faults(schema: Schema, path: str) -> Iterator[FieldError]:
    """Defaults that their own schema would not accept, or that would be pruned."""
    for part, place in _everywhere(schema, path):
        if part.get("default") is None:
            continue
        top = place.removeprefix(path)
        for name in ALWAYS:
            if top == f".properties[{name}]" or top.startswith(f".properties[{name}]."):
                yield forbidden(f"{place}.default", f"must not be set in top-level {name}")
        default = copied(part["default"])
        if isinstance(default, dict):
            unknown: list[str] = []
            pruned({"value": default}, {"properties": {"value": part}}, unknown)
            if unknown:
                yield invalid(f"{place}.default", part["default"], "must not have unknown fields")
        found = faults(checker(part), default)
        yield from _moved(found or _rule_faults(part, default), f"{place}.default")


def _rule_faults(schema: Schema, default: Any) -> list[FieldError]:
    rules = rule_tree(schema, is_root=False)
    try:
        return rule_faults(rules, default, None, Budget(_DEFAULT_BUDGET)) if rules else []
    except TooExpensive:
        return [invalid("", "default", "it takes too long to see whether the rules hold for it")]


def _moved(found: list[FieldError], place: str) -> Iterator[FieldError]:
    for each in found:
        inner = each.field if each.field.startswith("[") else f".{each.field}" if each.field else ""
        yield FieldError(each.type, f"{place}{inner}", each.detail, each.value)
