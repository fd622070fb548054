"""Paths of fields in a schema, as `.spec.parts['a b'].size`: a small part of JSONPath that names one place."""

import re
from collections.abc import Mapping
from typing import Final

from pykubelet.apiserver.custom.declarations import Schema

_PARTS: Final = re.compile(r"\.([^.\[\]']+)|\[('(?:[^'\\]|\\.)*')\]|(.)", re.DOTALL)
_ESCAPES: Final = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "'": "'", "\\": "\\"}


class BadPath(ValueError):
    """The message says why."""


def field_path(text: str, schema: Schema) -> str:
    """The path in the form that faults have: `.spec.parts[a b].size`. Raises BadPath."""
    return "".join(f".{name}" if is_named else f"[{name}]" for name, is_named, _ in steps(text, schema))


def steps(text: str, schema: Schema, *, has_brackets: bool = True) -> list[tuple[str, bool, Schema]]:
    """The names on the way, whether each is one of a field or of an entry, and the schema there. Raises BadPath."""
    found: list[tuple[str, bool, Schema]] = []
    for part in _PARTS.finditer(text):
        if part[3] is not None:
            raise BadPath(f"expected [ or . but got: {text[part.start() :]}")
        if part[2] is not None and not has_brackets:
            raise BadPath("array notation is not allowed")
        name = part[1] if part[1] is not None else _unquoted(part[2])
        properties, values = schema.get("properties"), schema.get("additionalProperties")
        if properties:
            if name not in properties:
                raise BadPath("does not refer to a valid field")
            schema = properties[name]
        elif isinstance(values, Mapping):
            schema = values
        else:
            raise BadPath("does not refer to a valid field")
        found.append((name, bool(properties), schema))
    if not found:
        raise BadPath("it is empty")
    return found


def _unquoted(text: str) -> str:
    def plain(found: re.Match[str]) -> str:
        if found[1] not in _ESCAPES:
            raise BadPath(f"invalid string literal: invalid escape char {found[0]}")
        return _ESCAPES[found[1]]

    return re.sub(r"\\(.)", plain, text[1:-1], flags=re.DOTALL)
