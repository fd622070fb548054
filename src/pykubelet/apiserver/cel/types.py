"""The types of expressions, and whether one fits another: the part of a checker that knows no expression."""

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec


class Type(msgspec.Struct, frozen=True):
    """`list<string>`, `map<string, int>`, or an object's type with its fields. A name with % is still free."""

    name: str
    args: "tuple[Type, ...]" = ()

    @property
    def is_free(self) -> bool:
        return self.name[0] == "%"

    def __str__(self) -> str:
        shown = _SHOWN.get(self.name, self.name)
        if self.is_free:
            return "_"
        return f"{shown}({', '.join(map(str, self.args))})" if self.args else shown


class ObjectType(Type, frozen=True):
    """Told apart by its name alone, which says where in a schema it stands."""

    fields: "Mapping[str, Type]" = {}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ObjectType) and self.name == other.name

    def __hash__(self) -> int:
        return hash(self.name)


_SHOWN: Final = {"null_type": "null", "google.protobuf.Duration": "duration", "google.protobuf.Timestamp": "timestamp"}

DYN: Final = Type("dyn")
BOOL: Final = Type("bool")
INT: Final = Type("int")
UINT: Final = Type("uint")
DOUBLE: Final = Type("double")
STRING: Final = Type("string")
BYTES: Final = Type("bytes")
NULL: Final = Type("null_type")
DURATION: Final = Type("google.protobuf.Duration")
TIMESTAMP: Final = Type("google.protobuf.Timestamp")
_NULLABLE: Final = ("null_type", "optional_type")
_ALIASES: Final = {"duration": DURATION.name, "timestamp": TIMESTAMP.name}


def list_of(item: Type) -> Type:
    return Type("list", (item,))


def map_of(key: Type, value: Type) -> Type:
    return Type("map", (key, value))


def optional_of(value: Type) -> Type:
    return Type("optional_type", (value,))


class Signature(msgspec.Struct, frozen=True):
    is_member: bool
    args: tuple[Type, ...]
    result: Type


def signature(text: str, *, is_member: bool) -> tuple[str, Signature]:
    """`string.split(string, int): list<string>` -> its name and types. One capital letter is any type, everywhere."""
    head, _, result = text.rpartition(":")
    name, _, inside = head.strip().removesuffix(")").partition("(")
    args = _split(inside)
    if is_member:
        receiver, _, name = name.rpartition(".")
        args = [receiver, *args]
    return name, Signature(is_member, tuple(map(type_of, args)), type_of(result.strip()))


def _split(text: str) -> list[str]:
    parts, depth, start = [], 0, 0
    for place, each in enumerate(text):
        depth += (each == "<") - (each == ">")
        if each == "," and not depth:
            parts.append(text[start:place].strip())
            start = place + 1
    last = text[start:].strip()
    return [*parts, last] if last else parts


def type_of(text: str) -> Type:
    name, _, inside = text.partition("<")
    if len(name) == 1 and name.isupper():
        return Type(f"%{name}")
    return Type(_ALIASES.get(name, name), tuple(map(type_of, _split(inside[:-1]))) if inside else ())


class Bindings:
    """What free types turned out to be."""

    def __init__(self) -> None:
        self._known: dict[str, Type] = {}
        self._count = 0

    def fresh(self) -> Type:
        self._count += 1
        return Type(f"%{self._count}")

    def copied(self) -> dict[str, Type]:
        return dict(self._known)

    def restore(self, known: dict[str, Type]) -> None:
        self._known = known

    def resolved(self, kind: Type) -> Type:
        while kind.is_free and kind.name in self._known:
            kind = self._known[kind.name]
        if not kind.args:
            return kind
        return Type(kind.name, tuple(map(self.resolved, kind.args)))

    def instance(self, types: Iterable[Type]) -> list[Type]:
        """The types of a signature with free types of their own."""
        names: dict[str, Type] = {}
        return [self._instance(each, names) for each in types]

    def _instance(self, kind: Type, names: dict[str, Type]) -> Type:
        if kind.is_free:
            if kind.name not in names:
                names[kind.name] = self.fresh()
            return names[kind.name]
        return Type(kind.name, tuple(self._instance(each, names) for each in kind.args)) if kind.args else kind

    def unify(self, one: Type, other: Type) -> bool:
        """Whether the two are or can be made the same; dyn is whatever is wanted."""
        one, other = self._head(one), self._head(other)
        if one.is_free or other.is_free:
            if one != other:
                free, known = (one, other) if one.is_free else (other, one)
                if self._occurs(free, known):
                    return False
                self._known[free.name] = known
            return True
        if one.name == "dyn" or other.name == "dyn":
            return True
        if "null_type" in (one.name, other.name):
            return _is_nullable(one) and _is_nullable(other)
        if isinstance(one, ObjectType) or isinstance(other, ObjectType):
            return one == other
        if one.name == "type" and other.name == "type":
            return True
        return (
            one.name == other.name
            and len(one.args) == len(other.args)
            and all(self.unify(a, b) for a, b in zip(one.args, other.args, strict=True))
        )

    def _head(self, kind: Type) -> Type:
        while kind.is_free and kind.name in self._known:
            kind = self._known[kind.name]
        return kind

    def _occurs(self, free: Type, kind: Type) -> bool:
        kind = self._head(kind)
        return kind == free or any(self._occurs(free, each) for each in kind.args)


def _is_nullable(kind: Type) -> bool:
    return isinstance(kind, ObjectType) or kind.name in _NULLABLE or "." in kind.name
