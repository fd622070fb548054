"""A schema as patches and server-side apply have it: how lists and maps merge, and which parts are taken as a whole."""

from collections.abc import Mapping
from typing import Final, Literal

from pykubelet.apiserver.custom.declarations import Schema as Given
from pykubelet.apiserver.schema.catalogue import INT_OR_STRING, META, catalogue
from pykubelet.apiserver.schema.schema import ANYTHING, Field, ListOf, MapOf, Record, Scalar, Schema

_TEXT: Final = Scalar("string")
_SCALARS: Final = {
    "string": _TEXT,
    "integer": Scalar("integer"),
    "number": Scalar("number"),
    "boolean": Scalar("boolean"),
}
_RELATIONS: Final[Mapping[str, Literal["atomic", "set", "map"]]] = {"atomic": "atomic", "set": "set", "map": "map"}


def schema_tree(given: Given, name: str) -> Schema:
    """Of a whole object."""
    return Record(name, {**_fields(given), **_always()}, is_open=_is_open(given))


def _always() -> dict[str, Field]:
    return {
        "apiVersion": Field(_TEXT),
        "kind": Field(_TEXT),
        "metadata": Field(catalogue()[f"{META}.ObjectMeta"]),
    }


def _tree(given: Given) -> Schema:
    if given.get("x-kubernetes-int-or-string"):
        return INT_OR_STRING
    is_atomic = given.get("x-kubernetes-map-type") == "atomic"
    match given.get("type"):
        case "array":
            relation = _RELATIONS[given.get("x-kubernetes-list-type") or "atomic"]
            keys = tuple(given.get("x-kubernetes-list-map-keys") or ()) if relation == "map" else ()
            return ListOf(_tree(given.get("items") or {}), relation, keys)
        case "object":
            values = given.get("additionalProperties")
            if isinstance(values, Mapping):
                return MapOf(_tree(values), is_atomic)
            fields = _fields(given)
            if given.get("x-kubernetes-embedded-resource"):
                fields |= _always()
            if fields:
                return Record("", fields, is_atomic=is_atomic, is_open=_is_open(given))
            return MapOf(ANYTHING, is_atomic=True) if is_atomic else ANYTHING
        case kind:
            return _SCALARS.get(kind or "", ANYTHING)


def _is_open(given: Given) -> bool:
    return bool(given.get("x-kubernetes-preserve-unknown-fields"))


def _fields(given: Given) -> dict[str, Field]:
    return {name: Field(_tree(inner)) for name, inner in (given.get("properties") or {}).items()}
