"""Objects in protobuf, as Go clients like to send them, made into the plain JSON that the rest of the server knows.

What a field is and which number it has comes from the catalogue; so nothing is generated, and there is no second
description of any type. The other direction is `protobuf_writing`.
"""

import base64
import struct
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any, Final, NamedTuple

import msgspec

from pykubelet.api.struct import MicroTime, rfc3339
from pykubelet.apiserver.schema.catalogue import META, catalogue, record_of
from pykubelet.apiserver.schema.schema import Anything, Field, Json, ListOf, MapOf, Record, Scalar, Schema
from pykubelet.base.errors import Invalid

MAGIC: Final = b"k8s\x00"
_DEEPEST: Final = 100
_MOST_MEMBERS: Final = 100_000
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_VARINT: Final = 0
_FIXED64: Final = 1
_DELIMITED: Final = 2

SCHEMA_PROPS: Final = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps"
_TEXT: Final = Scalar("string")


class Either(NamedTuple):
    """The numbers of what JSON has as a schema, or else as a flag, a list of schemas or a list of texts."""

    schema: int
    other: int
    is_flag: bool = False
    is_text: bool = False


EITHER: Final = {
    "JSONSchemaPropsOrArray": Either(1, 2),
    "JSONSchemaPropsOrBool": Either(2, 1, is_flag=True),
    "JSONSchemaPropsOrStringArray": Either(1, 2, is_text=True),
}
Wire = int | bytes
Numbers = dict[int, "str | Numbers"]
"""The fields of a type by their numbers. Some are written as one, though JSON has them among the rest."""


def from_protobuf(data: bytes) -> dict[str, Any]:
    """An object in the envelope that the API uses. Raises Invalid."""
    if not data.startswith(MAGIC):
        raise Invalid("what was sent as protobuf does not begin like an object of the API")
    kind = api_version = ""
    raw = b""
    for number, value in _members(data[len(MAGIC) :]):
        if number == 1:
            for inner, text in _members(_bytes(value)):
                if inner == 1:
                    api_version = _text(text)
                elif inner == 2:
                    kind = _text(text)
        elif number == 2:
            raw = _bytes(value)
    record = record_of(api_version, kind)
    if kind == "DeleteOptions":  # one type, which every group has under its own name
        record = catalogue().get(f"{META}.DeleteOptions")
    if record is None:
        raise Invalid(f"{kind} of {api_version} is not known in protobuf: send it as JSON")
    return {"apiVersion": api_version, "kind": kind, **_record(raw, record, numbers_of(record.name), 0)}


def _record(data: bytes, record: Record, numbers: Numbers, depth: int) -> dict[str, Any]:
    if depth > _DEEPEST:
        raise Invalid("what was sent as protobuf is nested too deeply")
    found: dict[str, Any] = {}
    for number, value in _members(data):
        name = numbers.get(number)
        if isinstance(name, dict):
            found |= _record(_bytes(value), record, name, depth + 1)
        elif name is not None:
            _take(found, name, record.fields[name], value, depth)
    return found


def _take(found: dict[str, Any], name: str, field: Field, value: Wire, depth: int) -> None:
    schema = field.type
    if isinstance(schema, ListOf):
        found.setdefault(name, []).append(_value(value, schema.items, depth))
    elif isinstance(schema, MapOf):
        key, inner = _pair(_bytes(value))
        found.setdefault(name, {})[key] = _map_value(inner, schema.items, depth)
    else:
        one = _value(value, schema, depth)
        if one is not None and (one or not field.omits_empty):
            found[name] = one


def _map_value(value: Wire | None, schema: Schema, depth: int) -> Json:
    if isinstance(schema, ListOf):
        return [_value(each, schema.items, depth) for _, each in _members(_bytes(value or b""))]
    if value is None:
        return "" if isinstance(schema, Scalar) else {}
    return _value(value, schema, depth)


def _value(value: Wire, schema: Schema, depth: int) -> Json:
    if isinstance(schema, Record):
        return _record(_bytes(value), schema, numbers_of(schema.name), depth + 1)
    if isinstance(schema, Anything):
        return _free(value, schema, depth)
    if not isinstance(schema, Scalar):
        raise Invalid("what was sent as protobuf has a list or map where there can be none")
    match schema.format:
        case "quantity":
            return _text(dict(_members(_bytes(value))).get(1, b""))
        case "int-or-string":
            parts = dict(_members(_bytes(value)))
            return _text(parts.get(3, b"")) if parts.get(1) else _signed(parts.get(2, 0))
        case "date-time":
            return _time(dict(_members(_bytes(value))), is_micro=schema.name.endswith("MicroTime"))
        case "byte":
            return base64.b64encode(_bytes(value)).decode()
    match schema.kind:
        case "string":
            return _text(value)
        case "boolean":
            return bool(value)
        case "number":
            return struct.unpack("<d", _bytes(value))[0]
        case _:
            return _signed(value)


def _free(value: Wire, schema: Anything, depth: int) -> Json:
    """Any JSON; or a type that JSON has in one of two forms, and protobuf as two fields."""
    forms = EITHER.get(schema.name.rpartition(".")[2])
    if forms is None:
        return _json(value)
    found: dict[int, list[Wire]] = {}
    for number, inner in _members(_bytes(value)):
        found.setdefault(number, []).append(inner)
    record = catalogue()[SCHEMA_PROPS]
    if forms.schema in found:
        return _value(found[forms.schema][-1], record, depth + 1)
    if forms.is_flag:
        return bool(found.get(forms.other, [0])[-1])
    return [_value(each, _TEXT if forms.is_text else record, depth + 1) for each in found.get(forms.other, [])]


def _json(value: Wire) -> Json:
    try:
        return msgspec.json.decode(_bytes(dict(_members(_bytes(value))).get(1, b"{}")))
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise Invalid(f"what was sent as protobuf has broken JSON in it: {error}") from None


def _time(parts: dict[int, Wire], *, is_micro: bool) -> str | None:
    seconds, nanos = _signed(parts.get(1, 0)), _signed(parts.get(2, 0))
    if not seconds and not nanos:
        return None
    try:
        moment = _EPOCH + timedelta(seconds=seconds, microseconds=nanos // 1000)
    except OverflowError:
        raise Invalid(f"{seconds} seconds after 1970 is no time that can be written down") from None
    return str(MicroTime.of(moment)) if is_micro else rfc3339(moment)


def _pair(data: bytes) -> tuple[str, Wire | None]:
    parts = dict(_members(data))
    return _text(parts.get(1, b"")), parts.get(2)


# --- the wire


def _members(data: bytes) -> Iterator[tuple[int, Wire]]:
    every = _wire_reader()(data)
    if len(every) > _MOST_MEMBERS:
        raise Invalid(f"what was sent as protobuf has more than {_MOST_MEMBERS:,} fields in one message")
    for each in every:
        if each.wire_type in (_VARINT, _DELIMITED):
            yield each.field_number, each.data
        elif each.wire_type == _FIXED64:
            yield each.field_number, struct.pack("<Q", each.data)
        else:
            raise Invalid("what was sent as protobuf is broken")


@cache
def _wire_reader() -> Callable[[bytes], Any]:
    """To a message without fields all are unknown, and so the library tells each as it is."""
    from google.protobuf.empty_pb2 import Empty  # takes long to load, and most clients send JSON
    from google.protobuf.message import DecodeError
    from google.protobuf.unknown_fields import UnknownFieldSet

    def read(data: bytes) -> Any:
        try:
            return UnknownFieldSet(Empty.FromString(data))
        except DecodeError:
            raise Invalid("what was sent as protobuf is broken") from None

    return read


def _signed(value: Wire) -> int:
    if isinstance(value, bytes):
        raise Invalid("what was sent as protobuf has something else where a number should be")
    value &= (1 << 64) - 1
    return value - (1 << 64) if value >> 63 else value


def _bytes(value: Wire) -> bytes:
    if isinstance(value, int):
        raise Invalid("what was sent as protobuf has a number where something else should be")
    return value


def _text(value: Wire) -> str:
    try:
        return _bytes(value).decode()
    except UnicodeDecodeError:
        raise Invalid("what was sent as protobuf has text in it that is not UTF-8") from None


# --- the numbers


@cache
def numbers_of(name: str) -> Numbers:
    found: Numbers = {}
    for label, field in catalogue()[name].fields.items():
        if field.number:
            *way, last = field.number
            place = found
            for each in way:
                inner = place.setdefault(each, {})
                assert isinstance(inner, dict)
                place = inner
            place[last] = label
    return found
