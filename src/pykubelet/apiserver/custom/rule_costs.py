"""What a validation rule may cost at most, reckoned from the schema before any object is there, as upstream reckons it.

A list or text without a bound may be as long as the largest request. What comes out is an upper bound in the units of
`Budget`, about: a look at a value, ten characters, a turn of a loop. Rules that may cost more than upstream allows are
refused when the definition is written, so that a definition that is accepted here is accepted by any cluster.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from pykubelet.apiserver.cel.syntax import (
    Call,
    Choice,
    Ident,
    Index,
    ListForm,
    Literal,
    Logic,
    Macro,
    MapForm,
    Select,
    Tree,
)

Schema = Mapping[str, Any]

PER_RULE: Final = 10_000_000
PER_SCHEMA: Final = 100_000_000
_REQUEST: Final = (3 << 20) - 2
"""Bytes of the largest text that fits into a request."""
_UNKNOWN: Final = 1 << 62
_TEXT: Final = 0.1
_LIST: Final = 10
_MAP: Final = 30
_LEAST: Final = {"boolean": 4, "integer": 1, "number": 1, "array": 2, "object": 2, "string": 2}
_LEAST_TEXT: Final = {"duration": 3, "date": 12, "date-time": 21}
_HINT: Final = (
    "try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and strings are "
    "declared"
)


class Shape(msgspec.Struct, frozen=True):
    """What is known of a value: how large it may be, and what is in it."""

    size: int = 1
    schema: Schema | None = None
    item: "Shape | None" = None


_SCALAR: Final = Shape()
_ANY: Final = Shape(_UNKNOWN)
_KEY: Final = Shape(0)
"""Of a map: upstream does not reckon with its length."""
Scope = Mapping[str, Shape]


def most(schema: Schema) -> int:
    """The items of a list or map, or the bytes of a text."""
    kind = schema.get("type")
    if kind == "array":
        return int(schema.get("maxItems", _REQUEST // (_least(schema.get("items") or {}) + 1)))
    inner = schema.get("additionalProperties")
    if kind == "object" and isinstance(inner, Mapping):
        return int(schema.get("maxProperties", _REQUEST // (_least(inner) + 6)))
    if kind == "string" or schema.get("x-kubernetes-int-or-string"):
        longest = schema.get("maxLength")
        if longest is not None:
            return int(longest) if schema.get("format") == "byte" else int(longest) * 4
        texts = [each for each in schema.get("enum") or () if isinstance(each, str)]
        return max(map(len, texts)) if texts and not schema.get("format") else _REQUEST
    return 1


def _least(schema: Schema) -> int:
    """The fewest bytes that a value takes in a request."""
    kind = schema.get("type", "")
    if schema.get("x-kubernetes-int-or-string"):
        return 1
    if kind == "string":
        return _LEAST_TEXT.get(schema.get("format", ""), 2)
    total = _LEAST.get(kind, 1)
    if kind == "object":
        fields = schema.get("properties") or {}
        for name in schema.get("required") or ():
            if name in fields and fields[name].get("default") is None:
                total += len(name) + _least(fields[name]) + 4
    return total


def shape_of(schema: Schema | None) -> Shape:
    if schema is None:
        return _ANY
    inner = schema.get("items") if schema.get("type") == "array" else schema.get("additionalProperties")
    is_nested = isinstance(inner, Mapping) and schema.get("type") in ("array", "object")
    return Shape(most(schema), schema, shape_of(inner) if is_nested else None)


def cost(tree: Tree, schema: Schema) -> int:
    """Of a rule about a value of this schema."""
    own = shape_of(schema)
    return min(_cost(tree, {"self": own, "oldSelf": own})[0], _UNKNOWN)


def over(spent: int, allowed: int) -> str:
    """Why a cost is not allowed, in upstream's words for how much it is; empty: it is."""
    if spent <= allowed:
        return ""
    factor = spent / allowed
    shown = "more than 100x" if factor > 100 else f"{factor:f}x" if factor < 1.05 else f"{factor:.1f}x"
    return f"exceeds budget by factor of {shown} ({_HINT})"


def _cost(tree: Tree, scope: Scope) -> tuple[int, Shape]:
    match tree:
        case Literal():
            is_text = isinstance(tree.value, str | bytes)
            return 0, Shape(len(tree.value)) if is_text else _SCALAR
        case Ident():
            return 1, scope.get(tree.name, _ANY)
        case Select():
            spent, shape = _cost(tree.operand, scope)
            return spent + 1, _SCALAR if tree.is_test else _field(shape, tree.field)
        case Index():
            spent, shape = _cost(tree.operand, scope)
            return spent + _cost(tree.index, scope)[0] + 1, shape.item or _ANY
        case Logic():
            return sum(_cost(each, scope)[0] for each in tree.args), _SCALAR
        case Choice():
            asked, (yes, one), (no, other) = (
                _cost(tree.condition, scope)[0],
                _cost(tree.yes, scope),
                _cost(tree.no, scope),
            )
            return asked + max(yes, no), one if one.size >= other.size else other
        case ListForm():
            parts = [_cost(each, scope) for each in tree.items]
            largest = max((shape for _, shape in parts), key=lambda shape: shape.size, default=_SCALAR)
            return _LIST + sum(spent for spent, _ in parts), Shape(len(parts), item=largest)
        case MapForm():
            parts = [_cost(each, scope) for entry in tree.entries for each in entry]
            return _MAP + sum(spent for spent, _ in parts), Shape(len(tree.entries), item=_ANY)
        case Macro():
            return _macro(tree, scope)
        case Call():
            return _call(tree, scope)


def _field(shape: Shape, name: str) -> Shape:
    properties = (shape.schema or {}).get("properties") or {}
    plain = name.removeprefix("__").removesuffix("__") if name not in properties else name
    if plain in properties:
        return shape_of(properties[plain])
    return shape.item or _ANY


def _macro(tree: Macro, scope: Scope) -> tuple[int, Shape]:
    spent, looped = _cost(tree.operand, scope)
    is_map = (looped.schema or {}).get("type") == "object"
    item = looped.item or _SCALAR
    if tree.name in ("optMap", "optFlatMap"):
        inner, shape = _cost(tree.parts[0], {**scope, tree.names[0]: looped})
        return spent + inner + 3, shape
    if looped == _SCALAR:  # nobody goes through one: it is a list of which nothing is known
        looped = _ANY
    if len(tree.names) == 2:
        names = {tree.names[0]: _KEY if is_map else _SCALAR, tree.names[1]: item}
    else:
        names = {tree.names[0]: _KEY if is_map else item}
    parts = [_cost(each, {**scope, **names}) for each in tree.parts]
    turn = sum(each for each, _ in parts)
    extra, result = _TURNS.get(tree.name, (12, 1))
    begins = 0 if tree.name in ("all", "exists", "existsOne") else _LIST
    shape = Shape(
        looped.size, item=parts[-1][1] if tree.name in ("map", "transformList") else next(iter(names.values()))
    )
    return spent + begins + looped.size * (turn + extra) + result, _SCALAR if not begins else shape


_TURNS: Final = {"all": (3, 1), "exists": (4, 1), "existsOne": (2, 2), "filter": (13, 1), "map": (12, 1)}
"""What each turn costs besides what is said, and what comes after the last."""


def _texts(*sizes: int) -> int:
    """To go over them once."""
    return math.ceil(sum(sizes) * _TEXT)


def _element(shape: Shape) -> int:
    item = shape.item
    return max(1, _texts(item.size)) if item is not None and item.size > 1 else 1


def _call(tree: Call, scope: Scope) -> tuple[int, Shape]:
    given = (*((tree.target,) if tree.target is not None else ()), *tree.args)
    parts = [_cost(each, scope) for each in given]
    spent, shapes = sum(each for each, _ in parts), [shape for _, shape in parts]
    rule = _FUNCTIONS.get(tree.function)
    if rule is None or not shapes:
        return spent + 1, _SCALAR
    own, shape = rule(shapes)
    return spent + own, shape


def _compared(shapes: list[Shape]) -> tuple[int, Shape]:
    return _texts(min(each.size for each in shapes[:2])), _SCALAR


def _joined(shapes: list[Shape]) -> tuple[int, Shape]:
    total = shapes[0].size * max(1, shapes[0].item.size if shapes[0].item else _UNKNOWN)
    return _texts(total), Shape(total)


def _added(shapes: list[Shape]) -> tuple[int, Shape]:
    one, other = shapes[:2]
    if one.item is not None or other.item is not None:
        return 1, Shape(one.size + other.size, item=one.item or other.item)
    is_text = max(one.size, other.size) > 1
    return (_texts(one.size, other.size), Shape(one.size + other.size)) if is_text else (1, _SCALAR)


def _traversed(shapes: list[Shape]) -> tuple[int, Shape]:
    return max(1, _texts(shapes[0].size)), Shape(shapes[0].size)


def _gone_through(shapes: list[Shape]) -> tuple[int, Shape]:
    """A list, item by item; or a text, in which another one is looked for."""
    first = shapes[0]
    if first.item is None:
        return _held_against(shapes)
    return first.size * _element(first), first.item


def _held_against(shapes: list[Shape]) -> tuple[int, Shape]:
    """A text at each place of another one."""
    return _texts(shapes[0].size) * _texts(shapes[-1].size), _SCALAR


_FUNCTIONS: Final[dict[str, Callable[[list[Shape]], tuple[int, Shape]]]] = {
    **dict.fromkeys(("_==_", "_!=_", "_<_", "_<=_", "_>_", "_>=_"), _compared),
    **dict.fromkeys(("lowerAscii", "upperAscii", "replace", "substring", "trim", "find"), _traversed),
    **dict.fromkeys(("string", "bytes"), _traversed),
    **dict.fromkeys(("isSorted", "sum", "max", "min", "indexOf", "lastIndexOf"), _gone_through),
    "@in": lambda shapes: (shapes[1].size if shapes[1].schema is None or _is_list(shapes[1]) else 1, _SCALAR),
    "_+_": _added,
    "contains": _held_against,
    "endsWith": lambda shapes: (_texts(shapes[1].size), _SCALAR),
    "findAll": lambda shapes: (
        _texts(shapes[0].size + 1) * math.ceil(shapes[1].size / 4),
        Shape(shapes[0].size, item=_KEY),
    ),
    "join": _joined,
    "matches": lambda shapes: (_texts(shapes[0].size + 1) * math.ceil(shapes[1].size / 4), _SCALAR),
    "split": lambda shapes: (2 * _texts(shapes[0].size), Shape(shapes[0].size, item=Shape(shapes[0].size))),
    "startsWith": lambda shapes: (_texts(shapes[1].size), _SCALAR),
    "url": lambda shapes: (_texts(shapes[0].size), _ANY),
    "isURL": lambda shapes: (_texts(shapes[0].size), _SCALAR),
}


def _is_list(shape: Shape) -> bool:
    return (shape.schema or {}).get("type") == "array"
