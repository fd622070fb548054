"""A schema in the words of OpenAPI 2, which has fewer: what cannot be said is left open, so that nobody is misled."""

from collections.abc import Mapping
from typing import Any, Final

from pykubelet.apiserver.custom.declarations import Schema

_SAID: Final = (
    "type", "format", "description", "title", "default", "enum", "required", "pattern", "maximum", "minimum",
    "exclusiveMaximum", "exclusiveMinimum", "multipleOf", "maxLength", "minLength", "maxItems", "minItems",
    "maxProperties", "minProperties", "x-kubernetes-embedded-resource", "x-kubernetes-int-or-string",
    "x-kubernetes-list-map-keys", "x-kubernetes-list-type", "x-kubernetes-map-type",
    "x-kubernetes-preserve-unknown-fields",
)  # fmt: skip
_OPEN: Final = ("description", "title")


def for_v2(schema: Schema) -> dict[str, Any]:
    if schema.get("nullable"):  # or clients would refuse a null
        return {word: schema[word] for word in _OPEN if word in schema}
    made = {word: schema[word] for word in _SAID if word in schema}
    if schema.get("x-kubernetes-preserve-unknown-fields"):
        return made  # or clients would refuse what is not named
    if schema.get("properties"):
        made["properties"] = {name: for_v2(inner) for name, inner in schema["properties"].items()}
    for word in ("items", "additionalProperties"):
        if isinstance(schema.get(word), Mapping):
            made[word] = for_v2(schema[word])
    return made
