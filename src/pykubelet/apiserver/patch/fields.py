"""Sets of fields, as `managedFields` records who owns what.

A field is a path, a tuple of elements as FieldsV1 spells them: `f:spec`, `k:{"name":"web"}` for the item of a list
that has these keys, `v:"x"` for the item that is this value. A set of fields is a plain set of paths: owning `spec.a`
does not mean owning `spec`.
"""

import heapq
import json
from collections.abc import Collection, Iterable, Iterator
from functools import lru_cache
from typing import Any, Final, TypeAlias

import msgspec

from pykubelet.apiserver.patch.errors import PatchRefused
from pykubelet.apiserver.schema.schema import Json, copied

Path: TypeAlias = tuple[str, ...]
Fields: TypeAlias = frozenset[Path]

NO_FIELDS: Final[Fields] = frozenset()

_SELF: Final = "."
_AT_ONCE: Final = 10_000
_REMEMBERED: Final = 1000
"""Fields of a set that is worth to be remembered: what is larger is rare, and would fill the memory."""
_RANK: Final = {"f": 0, "k": 1, "v": 2, "i": 3}
# As the JSON of Go has them inside of strings.
_ESCAPED: Final = {ord("<"): "\\u003c", ord(">"): "\\u003e", ord("&"): "\\u0026", 0x2028: "\\u2028", 0x2029: "\\u2029"}


def field(name: str) -> str:
    return f"f:{name}"


def keys(values: dict[str, Json]) -> str:
    if len(values) == 1:
        ((name, inner),) = values.items()
        if isinstance(inner, str):
            return _one_key(name, inner)
    return f"k:{_text(dict(sorted(values.items())))}"


@lru_cache(maxsize=4096)
def _one_key(name: str, inner: str) -> str:
    return f"k:{_text({name: inner})}"


def value(plain: Json) -> str:
    return f"v:{_text(plain)}"


def _text(plain: Json) -> str:
    return json.dumps(plain, ensure_ascii=False, separators=(",", ":")).translate(_ESCAPED)


def encoded(fields: Fields) -> dict[str, Any]:
    """As FieldsV1, a tree in which `.` marks a field that is owned beside some of its own fields."""
    if len(fields) > _REMEMBERED:
        return _collapsed(tree(fields))
    return dict(copied(_encoded(fields)))


def decoded(tree_: Json) -> Fields:
    text = msgspec.json.encode(tree_)
    return _decoded(text) if len(text) <= 100 * _REMEMBERED else frozenset(_paths(tree_, ()))


# Objects of one template have the same fields, and each is read and written many times.


@lru_cache(maxsize=512)
def _encoded(fields: Fields) -> dict[str, Any]:
    return _collapsed(tree(fields))


@lru_cache(maxsize=512)
def _decoded(text: bytes) -> Fields:
    return frozenset(_paths(msgspec.json.decode(text), ()))


def tree(fields: Iterable[Path]) -> dict[str, Any]:
    """Every field that is in the set has a `.`"""
    root: dict[str, Any] = {}
    for path in fields:
        node = root
        for element in path:
            node = node.setdefault(element, {})
        node[_SELF] = {}
    return root


def is_member(node: dict[str, Any]) -> bool:
    return _SELF in node


def has_inner(node: dict[str, Any]) -> bool:
    return len(node) > (_SELF in node)


def _collapsed(node: dict[str, Any]) -> dict[str, Any]:
    inner = {key: _collapsed(node[key]) for key in _sorted(node) if key != _SELF}
    return {_SELF: {}, **inner} if _SELF in node and inner else inner


def _sorted(elements: Collection[str]) -> Iterable[str]:
    """In pieces when there are many: one long step would keep everybody waiting."""
    if len(elements) <= _AT_ONCE:
        return sorted(elements, key=_place)
    every = list(elements)
    pieces = [sorted(every[start : start + _AT_ONCE], key=_place) for start in range(0, len(every), _AT_ONCE)]
    return heapq.merge(*pieces, key=_place)


def _place(element: str) -> tuple[int, str]:
    return _RANK.get(element[0], 4), element


def _paths(node: Json, path: Path) -> Iterator[Path]:
    if not isinstance(node, dict):
        raise PatchRefused("managedFields must be a tree of objects")
    if path and (not node or _SELF in node):
        yield path
    for element, inner in node.items():
        if element != _SELF:
            yield from _paths(inner, (*path, _canonical(element)))


def _canonical(element: str) -> str:
    """Equal elements are spelled alike, whoever wrote them."""
    kind, rest = element[:2], element[2:]
    try:
        if kind == "k:":
            return keys(dict(json.loads(rest)))
        if kind == "v:":
            return value(json.loads(rest))
    except (TypeError, ValueError):
        raise PatchRefused(f"{element!r} is no field: it needs JSON after the colon") from None
    if kind not in ("f:", "i:"):
        raise PatchRefused(f"{element!r} is no field: it must begin with f:, k:, v: or i:")
    return element


def in_order(fields: Fields) -> list[Path]:
    """Outer fields come before what is in them."""
    return sorted(fields, key=lambda path: (len(path), [_place(element) for element in path]))


def shown(path: Path) -> str:
    """For a person: `.spec.containers[name="web"].image`."""
    return "".join(map(_shown, path))


def _shown(element: str) -> str:
    kind, rest = element[0], element[2:]
    if kind == "f":
        return f".{rest}"
    if kind == "k":
        return (
            "["
            + ",".join(f"{name}={json.dumps(inner, ensure_ascii=False)}" for name, inner in json.loads(rest).items())
            + "]"
        )
    if kind == "v":
        return f"[={rest}]"
    return f"[{rest}]"
