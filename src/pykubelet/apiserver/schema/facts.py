"""The generated facts of upstream's API: `facts.txt`, which `tools/make_schema.py` writes.

The file is read when the first fact is asked for; what a type is made of is decoded when somebody asks for that type.
"""

from functools import cache
from pathlib import Path
from typing import Any, Final

import msgspec

_FILE: Final = Path(__file__).with_name("facts.txt")
_RESOURCE: Final = b"resource"


class Part(msgspec.Struct, frozen=True, array_like=True):
    """Of a resource: its name, kind and verbs, and where the kind is at home if that is elsewhere."""

    name: str
    kind: str
    verbs: tuple[str, ...]
    group: str = ""
    version: str = ""


class ResourceFact(msgspec.Struct, frozen=True):
    group: str
    version: str
    kind: str
    plural: str
    singular: str
    verbs: tuple[str, ...]
    namespaced: bool = False
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    parts: tuple[Part, ...] = ()
    hash: str = ""
    """Of the version that it is stored in; empty for what is not stored."""


class Extras(msgspec.Struct, frozen=True):
    list: str = ""
    keys: tuple[str, ...] = ()
    map: str = ""
    patch: str = ""
    merge: str = ""
    default: Any = None
    enum: tuple[str, ...] = ()


class FieldFact(msgspec.Struct, frozen=True, array_like=True):
    """Flags: `w` always written, `p` a pointer, `r` required. The number in protobuf may be a way through others."""

    name: str
    type: str
    flags: str
    number: int | tuple[int, ...]
    extras: Extras = Extras()


class TypeFact(msgspec.Struct, frozen=True, array_like=True):
    fields: tuple[FieldFact, ...]
    extras: Extras = Extras()


@cache
def _lines() -> tuple[tuple[bytes, ...], dict[str, bytes]]:
    resources: list[bytes] = []
    types: dict[str, bytes] = {}
    for line in _FILE.read_bytes().splitlines():
        name, _, facts = line.partition(b"\t")
        if name == _RESOURCE:
            resources.append(facts)
        else:
            types[name.decode()] = facts
    return tuple(resources), types


def resource_facts() -> tuple[ResourceFact, ...]:
    """In the order in which discovery tells them."""
    return tuple(msgspec.json.decode(line, type=ResourceFact) for line in _lines()[0])


def type_names() -> tuple[str, ...]:
    return tuple(_lines()[1])


def type_fact(name: str) -> TypeFact | None:
    """By the name that OpenAPI gives it; None when there is none."""
    line = _lines()[1].get(name)
    return None if line is None else msgspec.json.decode(line, type=TypeFact)
