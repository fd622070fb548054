"""Comparing, merging and pruning objects along their schema: what server-side apply is made of.

Lists with keys are taken apart item by item, sets value by value; whatever is atomic counts as one field. A list whose
items repeat a key is possible in an object, never in what somebody applies.
"""

from collections import deque
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from pykubelet.apiserver.patch import fields as paths
from pykubelet.apiserver.patch.errors import INTERNAL, PatchRefused
from pykubelet.apiserver.patch.fields import Fields, Path
from pykubelet.apiserver.schema.schema import (
    ANYTHING,
    Json,
    ListOf,
    MapOf,
    Record,
    Scalar,
    Schema,
    copied,
    member,
    same,
)


class _Absent:
    """Not there at all, which is not the same as null."""

    def __bool__(self) -> bool:
        return False


ABSENT: Final = _Absent()


class Comparison(NamedTuple):
    removed: Fields
    modified: Fields
    added: Fields


# --- forms


def is_map(value: Json, schema: Schema) -> bool:
    """Whether a value is to be taken apart field by field."""
    if isinstance(schema, Record | MapOf) and schema.is_atomic:
        return False
    return isinstance(value, dict) and not isinstance(schema, Scalar | ListOf)


def is_list(value: Json, schema: Schema) -> bool:
    """Whether a value is to be taken apart item by item."""
    return isinstance(value, list) and isinstance(schema, ListOf) and schema.relation != "atomic"


def element(item: Json, schema: ListOf) -> str:
    """The path element of an item of a list with keys, or of a set."""
    if schema.relation == "set":
        if isinstance(item, dict | list) or item is None:
            raise PatchRefused("associative list without keys has an element that is not a plain value", INTERNAL)
        return paths.value(item)
    if not isinstance(item, dict):
        raise PatchRefused("associative list with keys may not have non-map elements", INTERNAL)
    found = {}
    for key in schema.keys:
        if key in item:
            found[key] = item[key]
        elif isinstance(schema.items, Record) and (known := schema.items.fields.get(key)) and known.default is not None:
            found[key] = known.default
    if not found:
        named = " ".join(f'"{key}"' for key in schema.keys)
        raise PatchRefused(
            f"associative list with keys has an element that omits all key fields [{named}] "
            "(and doesn't have default values for any key fields)",
            INTERNAL,
        )
    return paths.keys(found)


def grouped(items: list[Any], schema: ListOf) -> dict[str, list[Any]]:
    groups: dict[str, list[Any]] = {}
    for item in items:
        groups.setdefault(element(item, schema), []).append(item)
    return groups


# --- which fields an object has


def field_set(value: Json, schema: Schema) -> Fields:
    """Every field that an object gives a value to."""
    return frozenset(_leaves(value, schema, ()))


def _leaves(value: Json, schema: Schema, path: Path) -> Iterator[Path]:
    if is_map(value, schema):
        for name, inner in value.items():
            here = (*path, paths.field(name))
            yield from _leaves(inner, member(schema, name), here)
            is_named = isinstance(schema, Record) and name in schema.fields
            if inner is None or inner == {} or not is_named:
                yield here
    elif is_list(value, schema):
        assert isinstance(schema, ListOf)
        for key, items in grouped(value, schema).items():
            yield (*path, key)
            if len(items) == 1:
                yield from _leaves(items[0], schema.items, (*path, key))
    elif path and value is not None:
        yield path


def with_named_fields(fields: Fields, schema: Schema) -> Fields:
    """With the fields of structs that the given ones are in; those of maps and lists have to be owned themselves."""
    result = set(fields)
    for path in fields:
        known: Schema = schema
        for index, each in enumerate(path[:-1]):
            if each.startswith("f:"):
                name = each[2:]
                if isinstance(known, Record) and name in known.fields:
                    result.add(path[: index + 1])
                known = member(known, name)
            else:
                known = known.items if isinstance(known, ListOf) else ANYTHING
    return frozenset(result)


# --- comparing


class _Compared:
    def __init__(self) -> None:
        self.removed: set[Path] = set()
        self.modified: set[Path] = set()
        self.added: set[Path] = set()

    def walk(self, one: Json, other: Json, schema: Schema, path: Path) -> None:
        if one is ABSENT:
            _all_of(other, schema, path, self.added)
            return
        if same(one, other):
            return
        if (is_map(one, schema) or is_map(other, schema)) and (one or other):
            self._maps(one, other, schema, path)
        elif (is_list(one, schema) or is_list(other, schema)) and (one or other):
            assert isinstance(schema, ListOf)
            self._lists(one, other, schema, path)
        else:
            self._note(self.removed if other is ABSENT else self.modified, path)
            return
        if other is ABSENT:
            self._note(self.removed, path)

    @staticmethod
    def _note(where: set[Path], path: Path) -> None:
        if path:  # nobody owns an object as a whole
            where.add(path)

    def _maps(self, one: Json, other: Json, schema: Schema, path: Path) -> None:
        for value in (one, other):
            if value is not ABSENT and value is not None and not isinstance(value, dict):
                self._note(self.modified, path)  # it changes its form
        before = one if isinstance(one, dict) else {}
        after = other if isinstance(other, dict) else {}
        for name in before.keys() | after.keys():
            here = (*path, paths.field(name))
            self.walk(before.get(name, ABSENT), after.get(name, ABSENT), member(schema, name), here)

    def _lists(self, one: Json, other: Json, schema: ListOf, path: Path) -> None:
        before = grouped(one if isinstance(one, list) else [], schema)
        after = grouped(other if isinstance(other, list) else [], schema)
        for key in before.keys() | after.keys():
            here = (*path, key)
            had, has = before.get(key, []), after.get(key, [])
            if len(had) <= 1 and len(has) <= 1:
                self.walk(had[0] if had else ABSENT, has[0] if has else ABSENT, schema.items, here)
            elif len(had) > 1 and len(has) > 1:
                if not same(had, has):
                    self.modified.add(here)
            elif len(had) > 1:
                if has:
                    self.walk(ABSENT, has[0], schema.items, here)
                self.removed.add(here)
            else:
                if had:
                    self.walk(had[0], ABSENT, schema.items, here)
                self.added.add(here)


def _all_of(value: Json, schema: Schema, path: Path, found: set[Path]) -> None:
    """Every field of a value, those that hold others among them: what somebody adds that adds the value."""
    if path:  # nobody owns an object as a whole
        found.add(path)
    if isinstance(value, dict):
        if not is_map(value, schema):
            return
        known = schema.fields if isinstance(schema, Record) else None
        for name, inner in value.items():
            here = (*path, f"f:{name}")
            if not isinstance(inner, dict | list):
                found.add(here)
            elif known is None:
                _all_of(inner, member(schema, name), here, found)
            else:
                field = known.get(name)
                _all_of(inner, field.type if field else ANYTHING, here, found)
    elif value and is_list(value, schema):
        assert isinstance(schema, ListOf)
        for key, items in grouped(value, schema).items():
            if len(items) == 1:
                _all_of(items[0], schema.items, (*path, key), found)
            else:
                found.add((*path, key))


def compared(one: Json, other: Json, schema: Schema) -> Comparison:
    """What has to be done to one object to make it the other."""
    walk = _Compared()
    walk.walk(one, other, schema, ())
    return Comparison(frozenset(walk.removed), frozenset(walk.modified), frozenset(walk.added))


# --- merging


def merged(live: Json, applied: Json, schema: Schema) -> Json:
    """The live object with all that is applied; nothing goes away."""
    if live is ABSENT or applied is ABSENT:
        return copied(applied if live is ABSENT else live)
    if applied is None and live and (is_map(live, schema) or is_list(live, schema)):
        return copied(live)  # null says nothing of what is in it
    if is_map(applied, schema) and isinstance(live, dict) and (live or applied):
        names = [*live, *(name for name in applied if name not in live)]
        return {name: merged(live.get(name, ABSENT), applied.get(name, ABSENT), member(schema, name)) for name in names}
    if is_list(applied, schema) and isinstance(live, list) and (live or applied):
        assert isinstance(schema, ListOf)
        return _merged_lists(live, applied, schema)
    return copied(applied)


def _merged_lists(live: list[Any], applied: list[Any], schema: ListOf) -> list[Any]:
    """What is applied in its own order; what only the live list has, about where it was among the items of both."""
    before, wanted = grouped(live, schema), grouped(applied, schema)
    live_keys, keys = [element(each, schema) for each in live], list(wanted)
    shared = deque(key for key in keys if key in before)  # in the order in which they will come
    done: set[str] = set()
    result: list[Any] = []
    at = taken = 0
    while at < len(live) or taken < len(keys):
        if at < len(live):
            key = live_keys[at]
            is_next = taken < len(keys) and keys[taken] == key
            if key not in wanted:
                result.append(copied(live[at]))
                at += 1
                continue
            comes_later = taken < len(keys) and shared and shared[0] != key
            if is_next or comes_later or key in done:
                at += 1
                if comes_later and not is_next:
                    continue
        if taken < len(keys):
            key = keys[taken]
            had = before.get(key, [])
            result.append(merged(had[0] if len(had) == 1 else ABSENT, wanted[key][0], schema.items))
            done.add(key)
            taken += 1
            if shared and shared[0] == key:
                shared.popleft()
    return result


# --- pruning


def removed(value: Json, fields: Fields, schema: Schema) -> Json:
    """The object without the given fields. What this leaves empty stays, empty."""
    return _pruned(value, paths.tree(fields), schema)


def _pruned(value: Json, tree: dict[str, Any], schema: Schema) -> Json:
    if not paths.has_inner(tree):
        return copied(value)
    if is_map(value, schema):
        nodes = {name: tree.get(paths.field(name), {}) for name in value}
        return {
            name: _pruned(inner, nodes[name], member(schema, name))
            for name, inner in value.items()
            if not paths.is_member(nodes[name])
        }
    if is_list(value, schema):
        assert isinstance(schema, ListOf)
        found = [(each, tree.get(element(each, schema), {})) for each in value]
        return [_pruned(each, node, schema.items) for each, node in found if not paths.is_member(node)]
    return copied(value)


# --- validating


def check(value: Json, schema: Schema, path: str = "") -> None:
    """What somebody applies has to fit its type, and must not name an item of a list twice."""
    if value is None:
        return
    expected = "map" if isinstance(schema, Record | MapOf) else "list" if isinstance(schema, ListOf) else ""
    if (expected == "map" and not isinstance(value, dict)) or (expected == "list" and not isinstance(value, list)):
        raise PatchRefused(f"{path}: expected {expected}, got {_spelled(value)}", INTERNAL)
    if isinstance(schema, Scalar) and not _fits(value, schema):
        raise PatchRefused(f"{path}: expected {schema.kind}, got {_spelled(value)}", INTERNAL)
    if isinstance(value, dict):
        for name, inner in value.items():
            if isinstance(schema, Record) and name not in schema.fields and not schema.is_open:
                raise PatchRefused(f"{path}.{name}: field not declared in schema", INTERNAL)
            check(inner, member(schema, name), f"{path}.{name}")
    elif isinstance(value, list) and isinstance(schema, ListOf):
        _check_items(value, schema, path)


def _check_items(value: list[Any], schema: ListOf, path: str) -> None:
    seen: set[str] = set()
    for index, item in enumerate(value):
        here = f"{path}[{index}]"
        if schema.relation != "atomic":
            try:
                key = element(item, schema)
            except PatchRefused as error:
                raise PatchRefused(f"{path}: element {index}: {error}", error.code) from None
            if key in seen:
                raise PatchRefused(f"{path}: duplicate entries for key {paths.shown((key,))}", INTERNAL)
            seen.add(key)
            here = path + paths.shown((key,))
        check(item, schema.items, here)


def _fits(value: Json, schema: Scalar) -> bool:
    if schema.format in ("int-or-string", "quantity"):
        return isinstance(value, str | int | float) and not isinstance(value, bool)
    if schema.kind == "boolean":
        return isinstance(value, bool)
    if schema.kind == "string":
        return isinstance(value, str)
    return isinstance(value, int | float) and not isinstance(value, bool)


def _spelled(value: Json) -> str:
    return {dict: "a map", list: "a list", str: "a string", bool: "a boolean"}.get(type(value), "a number")
