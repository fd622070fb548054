"""Objects as protobuf, for clients that take nothing else: by the same facts as `protobuf`, which reads it."""

import base64
import struct
from datetime import datetime
from typing import Any, Final

import msgspec

from pykubelet.apiserver.schema.catalogue import META, catalogue, record_of
from pykubelet.apiserver.schema.protobuf import EITHER, MAGIC, SCHEMA_PROPS, Numbers, numbers_of
from pykubelet.apiserver.schema.schema import Anything, Json, ListOf, MapOf, Record, Scalar, Schema
from pykubelet.base.errors import Invalid
from pykubelet.base.varint import varint

_DELIMITED: Final = 2
_FIXED64: Final = 1
_MOST: Final = (1 << 64) - 1
_PARTIAL: Final = "PartialObjectMetadata"


def to_protobuf(obj: dict[str, Any]) -> bytes:
    """An object or a list of them, in the envelope that the API uses. Raises Invalid for what has no such form."""
    api_version, kind = obj.get("apiVersion", ""), obj.get("kind", "")
    head = _text(1, api_version) + _text(2, kind)
    return MAGIC + _delimited(1, head) + _delimited(2, _content(obj, api_version, kind)) + _text(3, "") + _text(4, "")


def watch_frame(kind: str, obj: bytes) -> bytes:
    """One change of a watch, with an object as `to_protobuf` makes it. Its length comes first."""
    event = _text(1, kind) + _delimited(2, _delimited(1, obj))
    return len(event).to_bytes(4, "big") + event


def _content(obj: dict[str, Any], api_version: str, kind: str) -> bytes:
    if kind == "Status" and api_version == "v1":
        return _message(obj, catalogue()[f"{META}.Status"])
    if kind.removesuffix("List") == _PARTIAL:
        return _listed(obj, None) if kind.endswith("List") else _partial(obj)
    record = record_of(api_version, kind)
    if record is not None:
        return _message(obj, record)
    record = record_of(api_version, kind.removesuffix("List"))
    if record is None or "items" not in obj:
        raise Invalid(f"{kind} of {api_version} has no form in protobuf: ask for JSON")
    return _listed(obj, record)


def _listed(obj: dict[str, Any], record: Record | None) -> bytes:
    items = (_partial(each) if record is None else _message(each, record) for each in obj.get("items") or ())
    metadata = _message(obj.get("metadata") or {}, catalogue()[f"{META}.ListMeta"])
    return _delimited(1, metadata) + b"".join(_delimited(2, each) for each in items)


def _partial(obj: dict[str, Any]) -> bytes:
    return _delimited(1, _message(obj.get("metadata") or {}, catalogue()[f"{META}.ObjectMeta"]))


def _message(value: dict[str, Any], record: Record) -> bytes:
    return _members(value, record, numbers_of(record.name))


def _members(value: dict[str, Any], record: Record, numbers: Numbers) -> bytes:
    parts = []
    for number, name in numbers.items():
        if isinstance(name, dict):
            if inner := _members(value, record, name):
                parts.append(_delimited(number, inner))
        elif (given := value.get(name)) is not None:
            parts.append(_field(number, given, record.fields[name].type))
    return b"".join(parts)


def _field(number: int, value: Json, schema: Schema) -> bytes:
    if isinstance(schema, ListOf):
        return b"".join(_one(number, each, schema.items) for each in value)
    if isinstance(schema, MapOf):
        entries = (_text(1, key) + _map_value(inner, schema.items) for key, inner in value.items())
        return b"".join(_delimited(number, entry) for entry in entries)
    return _one(number, value, schema)


def _map_value(value: Json, schema: Schema) -> bytes:
    if isinstance(schema, ListOf):  # a message of its own, for maps cannot hold lists
        return _delimited(2, _field(1, value or [], schema))
    return _one(2, value, schema) if value is not None else b""


def _one(number: int, value: Json, schema: Schema) -> bytes:
    if isinstance(schema, Record):
        return _delimited(number, _message(value, schema))
    if isinstance(schema, Scalar):
        return _scalar(number, value, schema)
    assert isinstance(schema, Anything)
    return _delimited(number, _free(value, schema))


def _free(value: Json, schema: Anything) -> bytes:
    forms = EITHER.get(schema.name.rpartition(".")[2])
    if forms is None:
        return _delimited(1, msgspec.json.encode(value))
    record = catalogue()[SCHEMA_PROPS]
    if isinstance(value, dict):
        flag = _number(forms.other, 1) if forms.is_flag else b""
        return flag + _one(forms.schema, value, record)
    if forms.is_flag:
        return _number(forms.other, int(value))
    return b"".join(_text(forms.other, each) if forms.is_text else _one(forms.other, each, record) for each in value)


def _scalar(number: int, value: Json, schema: Scalar) -> bytes:
    match schema.format:
        case "quantity":
            return _delimited(number, _text(1, str(value)))
        case "int-or-string":
            is_text = isinstance(value, str)
            parts = _number(1, 1) + _number(2, 0) + _text(3, value) if is_text else _number(1, 0) + _number(2, value)
            return _delimited(number, parts if is_text else parts + _text(3, ""))
        case "date-time":
            return _delimited(number, _time(value))
        case "byte":
            return _delimited(number, base64.b64decode(value))
    match schema.kind:
        case "string":
            return _text(number, value)
        case "number":
            return varint(number << 3 | _FIXED64) + struct.pack("<d", value)
        case _:
            return _number(number, int(value))


def _time(text: str) -> bytes:
    moment = datetime.fromisoformat(text)
    seconds, micros = int(moment.replace(microsecond=0).timestamp()), moment.microsecond
    return _number(1, seconds) + _number(2, micros * 1000)


# --- the wire


def _text(number: int, value: str) -> bytes:
    return _delimited(number, value.encode())


def _delimited(number: int, data: bytes) -> bytes:
    return varint(number << 3 | _DELIMITED) + varint(len(data)) + data


def _number(number: int, value: int) -> bytes:
    return varint(number << 3) + varint(value & _MOST)
