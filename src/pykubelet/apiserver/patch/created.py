"""What somebody comes to own who creates an object: every field that the object has and an empty one has not.

The same follows from comparing the two (`typed.compared`), by way of a set with a path for each field. Objects are
created so often that it is found here in one go, as the tree that managedFields holds.
"""

from typing import Any, Final

from pykubelet.apiserver.patch.fields import Path
from pykubelet.apiserver.patch.typed import ABSENT, grouped, is_list, is_map
from pykubelet.apiserver.schema.schema import ANYTHING, Json, ListOf, Record, Schema, member, same

_OWNED: Final = "."
Node = dict[str, Any]


def created_fields(
    start: dict[str, Any], value: dict[str, Any], schema: Schema, excluded: tuple[Path, ...], unowned: frozenset[Path]
) -> Node:
    """As FieldsV1. `start` is an empty object of this type; `excluded` are out of reach with all that is in them,
    and `unowned` by themselves. Raises PatchRefused."""
    tree = _grown(start, value, schema)
    for path in excluded:
        parent = _at(tree, path[:-1])
        if parent is not None:
            parent.pop(path[-1], None)
    for path in unowned:
        node = _at(tree, path)
        if node is not None:
            node.pop(_OWNED, None)
    return _collapsed(tree) or {}


def _at(tree: Node, path: Path) -> Node | None:
    node: Node | None = tree
    for element in path:
        if node is None:
            return None
        node = node.get(element)
    return node


def _grown(one: Json, other: Json, schema: Schema) -> Node:
    """The fields in which two values differ, as far as the other has them."""
    if one is ABSENT:
        return _all_of(other, schema)
    if same(one, other):
        return {}
    if (is_map(one, schema) or is_map(other, schema)) and (one or other):
        node: Node = {}
        before = one if isinstance(one, dict) else {}
        for name, inner in other.items() if isinstance(other, dict) else ():
            if grown := _grown(before.get(name, ABSENT), inner, member(schema, name)):
                node[f"f:{name}"] = grown
        if not all(each is None or isinstance(each, dict) for each in (one, other)):
            node[_OWNED] = {}  # it changes its form
        return node
    if is_list(other, schema) and other:  # an empty object has nothing in its lists
        assert isinstance(schema, ListOf)
        return _items_of(other, schema)
    return {_OWNED: {}}


def _all_of(value: Json, schema: Schema) -> Node:
    node: Node = {_OWNED: {}}
    if isinstance(value, dict):
        if is_map(value, schema):
            known = schema.fields if isinstance(schema, Record) else None
            for name, inner in value.items():
                if not isinstance(inner, dict | list):
                    node[f"f:{name}"] = {_OWNED: {}}
                elif known is None:
                    node[f"f:{name}"] = _all_of(inner, member(schema, name))
                else:
                    field = known.get(name)
                    node[f"f:{name}"] = _all_of(inner, field.type if field else ANYTHING)
    elif value and is_list(value, schema):
        assert isinstance(schema, ListOf)
        node.update(_items_of(value, schema))
    return node


def _items_of(values: list[Any], schema: ListOf) -> Node:
    return {
        key: _all_of(items[0], schema.items) if len(items) == 1 else {_OWNED: {}}
        for key, items in grouped(values, schema).items()
    }


def _collapsed(node: Node) -> Node | None:
    """In the order of managedFields, where a leaf needs no mark; None when nothing is left of it."""
    is_owned = _OWNED in node
    if len(node) == is_owned:
        return {} if is_owned else None
    inner: Node = {}
    for key in sorted(node):  # fields, then items by key, then those by value: as their letters follow each other
        if key != _OWNED and (kept := _collapsed(node[key])) is not None:
            inner[key] = kept
    if is_owned:
        return {_OWNED: {}, **inner} if inner else inner
    return inner or None
