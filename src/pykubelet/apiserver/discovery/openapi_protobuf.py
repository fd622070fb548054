"""The second version of the OpenAPI document in protobuf, the only form in which kubectl takes it.

kubectl checks manifests that are lists by it. It reads the types and nothing else, so the paths are left out.
"""

import json
from collections.abc import Iterator
from typing import Any, Final

Json = dict[str, Any]

CONTENT_TYPE: Final = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
_OLD_CONTENT_TYPE: Final = CONTENT_TYPE.replace("v2.", "v2@")
"""What clients ask for: no proper media type, and therefore none to answer with."""
_TEXTS: Final = {"$ref": 1, "format": 2, "title": 3, "description": 4}


def is_wanted(accept: str) -> bool:
    return CONTENT_TYPE in accept or _OLD_CONTENT_TYPE in accept


def v2_protobuf(document: Json) -> bytes:
    """The document of `openapi.v2_document`."""
    info = document["info"]
    head = _text(1, document["swagger"]) + _message(2, _text(1, info["title"]) + _text(2, info["version"]))
    return head + _message(8, b"") + _message(9, b"".join(_named(document["definitions"])))


def _named(schemas: Json) -> Iterator[bytes]:
    for name, schema in schemas.items():
        yield _message(1, _text(1, name) + _message(2, _schema(schema)))


def _schema(schema: Json) -> bytes:
    parts = [_text(number, schema[name]) for name, number in _TEXTS.items() if name in schema]
    if "default" in schema:
        parts.append(_message(5, _any(schema["default"])))
    parts += [_text(19, name) for name in schema.get("required", ())]
    parts += [_message(20, _any(value)) for value in schema.get("enum", ())]
    if "additionalProperties" in schema:
        parts.append(_message(21, _message(1, _schema(schema["additionalProperties"]))))
    if "type" in schema:
        parts.append(_message(22, _text(1, schema["type"])))
    if "items" in schema:
        parts.append(_message(23, _message(1, _schema(schema["items"]))))
    if "properties" in schema:
        parts.append(_message(25, b"".join(_named(schema["properties"]))))
    for name, value in schema.items():
        if name.startswith("x-"):
            parts.append(_message(31, _text(1, name) + _message(2, _any(value))))
    return b"".join(parts)


def _any(value: Any) -> bytes:
    """Any value is written as YAML, of which JSON is a part."""
    return _text(2, json.dumps(value) + "\n")


def _text(number: int, text: str) -> bytes:
    return _message(number, text.encode())


def _message(number: int, data: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(data)) + data


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
