"""Fields that a type does not have: decoding leaves them out, and whoever misspelled one has to hear of it."""

import typing
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import msgspec

from pykubelet.api.struct import Struct


class UnknownField(msgspec.Struct, frozen=True):
    owner: str
    """The path of what it is in, such as `spec.containers[0]`."""
    name: str
    nearest: str
    """What may have been meant; empty when nothing is like it."""

    def __str__(self) -> str:
        hint = f"; did you mean {self.nearest}?" if self.nearest else ""
        return f"{self.owner}{'.' if self.owner else ''}{self.name}: there is no such field{hint}"


def unknown_fields(kind: type[Struct], value: object) -> Iterator[UnknownField]:
    """In plain values of that type, in their order. What is of another type altogether is for the decoder to tell."""
    yield from _unknown(kind, value, "")


def _unknown(hint: Any, value: object, path: str) -> Iterator[UnknownField]:
    if isinstance(hint, type) and issubclass(hint, Struct):
        if isinstance(value, dict):
            yield from _members(_hints(hint), value, path)
        return
    arguments = typing.get_args(hint)
    origin = typing.get_origin(hint)
    if origin is tuple and isinstance(value, list):
        for index, item in enumerate(value):
            yield from _unknown(arguments[0], item, f"{path}[{index}]")
    elif origin is Mapping and isinstance(value, dict):
        for key, item in value.items():
            yield from _unknown(arguments[1], item, f"{path}[{key}]")


def _members(hints: Mapping[str, Any], value: Mapping[str, object], path: str) -> Iterator[UnknownField]:
    for name, member in value.items():
        if name in hints:
            yield from _unknown(hints[name], member, f"{path}.{name}" if path else name)
        else:
            from difflib import get_close_matches  # most manifests have no such field

            yield UnknownField(path, name, next(iter(get_close_matches(name, hints, 1)), ""))


@cache
def _hints(kind: type[Struct]) -> dict[str, Any]:
    """Type by JSON name."""
    hints = typing.get_type_hints(kind)
    return {field.encode_name: _without_none(hints[field.name]) for field in msgspec.structs.fields(kind)}


def _without_none(hint: Any) -> Any:
    kinds = [each for each in typing.get_args(hint) if each is not type(None)]
    return kinds[0] if type(None) in typing.get_args(hint) and len(kinds) == 1 else hint
