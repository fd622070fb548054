"""Strategic merge patches: like JSON merge patches, but lists whose items have a key are merged item by item.

What the patch wants beyond that it says in directives: `$patch` replaces or deletes, `$setElementOrder/<list>` orders,
`$deleteFromPrimitiveList/<list>` takes plain values away, `$retainKeys` names the only fields that may stay.
"""

from typing import Any, Final

from pykubelet.apiserver.patch.errors import BAD_REQUEST, INTERNAL, UNPROCESSABLE, PatchRefused
from pykubelet.apiserver.patch.order import KeyOf, Places, ordered
from pykubelet.apiserver.schema.schema import Anything, Json, ListOf, Schema, copied, is_too_deep, item, member

_DIRECTIVE: Final = "$patch"
_RETAIN: Final = "$retainKeys"
_ORDER: Final = "$setElementOrder"
_DELETE_FROM: Final = "$deleteFromPrimitiveList"


def apply_strategic_merge_patch(original: Json, patch: Json, schema: Schema) -> Json:
    """-> a new object; neither argument is changed"""
    if isinstance(schema, Anything):
        raise PatchRefused("strategic merge patch format is not supported", BAD_REQUEST)
    if not isinstance(patch, dict):
        raise PatchRefused("invalid JSON document")
    if is_too_deep(patch):
        raise PatchRefused("the patch is nested too deeply")
    return _merged_map(copied(original), copied(patch), schema)


def _merged_map(original: dict[str, Any], patch: dict[str, Any], schema: Schema) -> dict[str, Any]:
    """Both arguments are ours to change."""
    if _DIRECTIVE in patch:
        return _directed(patch)
    _retain_keys(original, patch)
    for key in [key for key in patch if key.startswith(_ORDER)]:
        _set_element_order(original, patch, key, schema)
    for key, value in patch.items():
        if key.startswith(_DELETE_FROM):
            _delete_values(original, _listed(key, _DELETE_FROM), value)
        elif value is None:
            original.pop(key, None)
        else:
            _merge_member(original, key, value, schema)
    return original


def _directed(patch: dict[str, Any]) -> dict[str, Any]:
    directive = patch.pop(_DIRECTIVE)
    if directive == "replace":
        return patch
    if directive == "delete":
        return {}
    raise _unknown_directive(directive, patch)


def _retain_keys(original: dict[str, Any], patch: dict[str, Any]) -> None:
    if _RETAIN not in patch:
        return
    retained = patch.pop(_RETAIN)
    if not isinstance(retained, list):
        raise PatchRefused("invalid patch format of retainKeys")
    names = {each for each in retained if isinstance(each, str)}
    for key, value in patch.items():
        if value is not None and not key.startswith((_DELETE_FROM, _ORDER)) and key not in names:
            raise PatchRefused("invalid patch format of retainKeys")
    for key in [key for key in original if key not in names]:
        del original[key]


def _merge_member(original: dict[str, Any], key: str, value: Json, schema: Schema) -> None:
    current, known = original.get(key), member(schema, key)
    if isinstance(current, dict) and isinstance(value, dict):
        original[key] = _merged_map(current, value, known)
    elif isinstance(current, list) and isinstance(value, list):
        original[key] = _merged_list(current, value, known)
    else:
        value = _without_directives(_without_nulls(value))
        if value is None:
            original.pop(key, None)
        else:
            original[key] = value


def _without_nulls(value: Json) -> Json:
    if isinstance(value, dict):
        return {key: _without_nulls(inner) for key, inner in value.items() if inner is not None}
    if isinstance(value, list):
        return [_without_nulls(inner) for inner in value]
    return value


def _without_directives(value: Json) -> Json:
    """A value that is new to the object has nothing to be directed at; None when all of it was a directive."""
    if isinstance(value, dict):
        if _DIRECTIVE in value:
            return None
        inner = {key: _without_directives(each) for key, each in value.items()}
        return {key: each for key, each in inner.items() if each is not None or value[key] is None}
    if isinstance(value, list):
        return [_without_directives(each) for each in value if not _has_directive(each)]
    return value


# --- lists


def _merged_list(original: list[Any], patch: list[Any], schema: Schema) -> list[Any]:
    if not isinstance(schema, ListOf) or not schema.is_merged:
        return patch
    if not original and not patch:
        return original
    if not _holds_maps(original, patch):
        merged = list({KeyOf("")(value): value for value in [*original, *patch]}.values())
        return ordered(merged, patch, original, KeyOf(""))
    if not schema.merge_key:
        raise PatchRefused("cannot merge lists without merge key for struct", INTERNAL)
    original, patch = _special_items(original, patch, schema.merge_key)
    key_of = KeyOf(schema.merge_key)
    merged = list(original)
    places = Places(merged, key_of)
    for each in patch:
        index = places.of(key_of.required(each))
        if index < 0:
            places.note(key_of(each), len(merged))
            merged.append(each)
        else:
            merged[index] = _merged_map(merged[index], each, item(schema))
    return ordered(merged, patch, original, key_of)


def _special_items(original: list[Any], patch: list[Any], merge_key: str) -> tuple[list[Any], list[Any]]:
    """Items that are directives do what they say; the others remain to be merged."""
    plain: list[Any] = []
    deleted = set()
    is_replaced = False
    key_of = KeyOf(merge_key)
    for each in patch:
        directive = each.get(_DIRECTIVE)
        if _DIRECTIVE not in each:
            plain.append(each)
        elif directive == "delete":
            deleted.add(key_of.required(each))
        elif directive == "replace":
            is_replaced = True
        elif directive == "merge":
            raise PatchRefused("merging lists cannot yet be specified in the patch", INTERNAL)
        else:
            raise _unknown_directive(directive, each)
    if is_replaced:
        return plain, []
    return [each for each in original if merge_key not in each or key_of(each) not in deleted], plain


def _delete_values(original: dict[str, Any], key: str, unwanted: Json) -> None:
    current = original.get(key)
    if isinstance(current, list) and isinstance(unwanted, list) and (current or unwanted):
        if _holds_maps(current, unwanted):
            raise PatchRefused("invalid patch format of primitive list")
        key_of = KeyOf("")
        gone = set(map(key_of, unwanted))
        original[key] = [value for value in current if key_of(value) not in gone]


def _set_element_order(original: dict[str, Any], patch: dict[str, Any], directive: str, schema: Schema) -> None:
    """Merge one list that comes with its order, and take both out of the patch."""
    order, key = patch.pop(directive), _listed(directive, _ORDER)
    current, wanted = original.get(key), patch.get(key)
    for value in (order, current, wanted):
        if value is not None and not isinstance(value, list):
            raise PatchRefused("invalid patch format of setElementOrder list")
    if order is None:
        raise PatchRefused("invalid patch format of setElementOrder list")
    known = member(schema, key)
    key_of = KeyOf(known.merge_key if isinstance(known, ListOf) else "")
    _check_order(wanted or [], order, key_of)
    if key not in original and key not in patch:
        return
    if wanted is None:
        merged = current or []
    elif current is None:
        merged = _without_directives(wanted)
    else:
        merged = _merged_list(list(current), wanted, known)
    if not current and not wanted:
        raise PatchRefused("no elements in any of the given slices", INTERNAL)
    original[key] = ordered(merged, order, current or [], key_of)
    patch.pop(key, None)


def _check_order(wanted: list[Any], order: list[Any], key_of: KeyOf) -> None:
    """The items of a patch must be named in its order list, and in the same order; deletions need not be."""
    if not wanted or not order:
        return
    remaining = map(key_of.required, order)
    for each in wanted:
        if _has_directive(each):
            continue
        if key_of.required(each) not in remaining:
            raise PatchRefused(f"The order in patch list:\n{wanted}\n doesn't match {_ORDER} list:\n{order}", INTERNAL)


def _holds_maps(*lists: list[Any]) -> bool:
    """All items must be of one kind: all objects, or all plain values of one type."""
    kinds = {type(each) for values in lists for each in values}
    if list in kinds:
        raise PatchRefused("lists of lists are not supported", UNPROCESSABLE)
    if len(kinds) > 1:
        raise PatchRefused(f"list element types are not identical: {list(lists)}", INTERNAL)
    return dict in kinds


def _has_directive(value: Json) -> bool:
    return isinstance(value, dict) and _DIRECTIVE in value


def _listed(directive: str, prefix: str) -> str:
    """The list that a directive such as `$setElementOrder/containers` is about."""
    start, slash, key = directive.partition("/")
    if not slash or start != prefix:
        what = "primitive list" if prefix == _DELETE_FROM else "setElementOrder list"
        raise PatchRefused(f"invalid patch format of {what}")
    return key


def _unknown_directive(directive: Json, patch: dict[str, Any]) -> PatchRefused:
    return PatchRefused(f"unknown patch type: {directive} in map: {patch}", INTERNAL)
