"""Objects as they are stored and sent: plain JSON, with a head that is always the same.

A stored object begins with its apiVersion, kind and metadata, so that its resourceVersion, which only the store knows,
is put in by cutting and joining bytes: nothing is decoded to answer a get, a list or a watch. Whatever else is found in
the store, because another server wrote it, is read as well: JSON in another order, and protobuf.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from pykubelet.api.quantity import parse as parse_quantity
from pykubelet.apiserver.protobuf import MAGIC, from_protobuf
from pykubelet.apiserver.schema import Json, ListOf, MapOf, Record, Scalar, Schema, item, member
from pykubelet.apiserver.store.port import Entry

Object = dict[str, Any]

_encode: Final = msgspec.json.Encoder().encode
_decode: Final = msgspec.json.Decoder().decode


def encode(value: object) -> bytes:
    return _encode(value)


def head(api_version: str, kind: str) -> bytes:
    """What the stored form of every object of a kind begins with."""
    return b'{"apiVersion":%s,"kind":%s,"metadata":{' % (_encode(api_version), _encode(kind))


def stored(obj: Object) -> bytes:
    """The bytes for the store. The resourceVersion is not among them: it is the revision of the write."""
    metadata = {key: value for key, value in obj["metadata"].items() if key not in ("resourceVersion", "selfLink")}
    ordered = {"apiVersion": obj["apiVersion"], "kind": obj["kind"], "metadata": metadata}
    return _encode({**ordered, **{key: value for key, value in obj.items() if key not in ordered}})


def loaded(value: bytes, revision: int) -> Object:
    obj: Object = from_protobuf(value) if value.startswith(MAGIC) else _decode(value)
    obj.setdefault("metadata", {})["resourceVersion"] = str(revision)
    return obj


def of_entry(entry: Entry) -> Object:
    return loaded(entry.value, entry.revision)


def sent(value: bytes, revision: int, start: bytes) -> bytes:
    """A stored object as a client gets it."""
    if value.startswith(start):
        return b'%s"resourceVersion":"%d",%s' % (start, revision, value[len(start) :])
    return _encode(loaded(value, revision))


def listed(value: bytes, revision: int, start: bytes) -> bytes:
    """A stored object as the item of a list, which does not repeat apiVersion and kind."""
    if value.startswith(start):
        return b'{"metadata":{"resourceVersion":"%d",%s' % (revision, value[len(start) :])
    obj = loaded(value, revision)
    return _encode({key: inner for key, inner in obj.items() if key not in ("apiVersion", "kind")})


def meta(obj: Object) -> dict[str, Any]:
    found: dict[str, Any] = obj.setdefault("metadata", {})
    return found


def name_of(obj: Object) -> str:
    return str(obj.get("metadata", {}).get("name") or "")


def at(obj: Any, path: str, default: Any = None) -> Any:
    """What stands at a dotted path, or the default when there is nothing on the way."""
    for part in path.split("."):
        if not isinstance(obj, dict) or obj.get(part) is None:
            return default
        obj = obj[part]
    return obj


def clean(value: Json, schema: Schema) -> Json:
    """What an API server keeps of a value: no fields that its type does not have, no nulls, no empty lists and maps."""
    if isinstance(value, dict):
        if isinstance(schema, Record):
            return {
                name: kept
                for name, inner in value.items()
                if name in schema.fields
                and not _is_nothing(kept := clean(inner, schema.fields[name].type), schema.fields[name].type)
            }
        return {name: clean(inner, member(schema, name)) for name, inner in value.items()}
    if isinstance(value, list) and isinstance(schema, ListOf):
        return [clean(inner, item(schema)) for inner in value]
    if isinstance(schema, Scalar) and schema.format == "quantity" and value is not None:
        return str(parse_quantity(str(value)))  # 1000m and 1 are one amount, and are written as one
    return value


def _is_nothing(value: Json, schema: Schema) -> bool:
    return value is None or (value in ([], {}) and isinstance(schema, ListOf | MapOf))


def overlay(raw: Json, known: Json) -> Json:
    """`known`, which is what a typed view made of `raw`, with what that view does not know left as it was."""
    if isinstance(raw, dict) and isinstance(known, dict):
        result = dict(raw)
        for key, value in known.items():
            result[key] = overlay(raw[key], value) if key in raw else value
        return result
    if isinstance(raw, list) and isinstance(known, list) and len(raw) == len(known):
        return [overlay(one, other) for one, other in zip(raw, known, strict=True)]
    return known


def without(mapping: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    left_out = set(names)
    return {key: value for key, value in mapping.items() if key not in left_out}
