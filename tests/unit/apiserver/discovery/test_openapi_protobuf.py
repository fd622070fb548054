"""The OpenAPI document as kubectl takes it, read by the numbers that kubectl knows."""

from typing import Any

import pytest
from google.protobuf.empty_pb2 import Empty
from google.protobuf.unknown_fields import UnknownFieldSet

from pykubelet.apiserver.discovery.openapi import v2_document
from pykubelet.apiserver.discovery.openapi_protobuf import is_wanted, v2_protobuf
from pykubelet.apiserver.schema.kinds import Resources


def members(data: bytes, number: int) -> list[Any]:
    found: Any = UnknownFieldSet(Empty.FromString(data))
    return [each.data for each in found if each.field_number == number]


def named(data: bytes) -> dict[str, bytes]:
    pairs = members(data, 1)
    return {members(pair, 1)[0].decode(): members(pair, 2)[0] for pair in pairs}


def schema_of(schema: dict[str, Any]) -> bytes:
    document = {"swagger": "2.0", "info": {"title": "t", "version": "v"}, "definitions": {"a": schema}}
    return named(members(v2_protobuf(document), 9)[0])["a"]


@pytest.mark.parametrize(
    ("schema", "path", "found"),
    [
        ({"$ref": "#/definitions/b"}, (1,), b"#/definitions/b"),
        ({"format": "int32"}, (2,), b"int32"),
        ({"title": "T"}, (3,), b"T"),
        ({"description": "what it is"}, (4,), b"what it is"),
        ({"default": {"a": 1}}, (5, 2), b'{"a": 1}\n'),
        ({"required": ["name"]}, (19,), b"name"),
        ({"enum": ["x"]}, (20, 2), b'"x"\n'),
        ({"additionalProperties": {"type": "string"}}, (21, 1, 22, 1), b"string"),
        ({"type": "object"}, (22, 1), b"object"),
        ({"items": {"type": "string"}}, (23, 1, 22, 1), b"string"),
        ({"properties": {"p": {"type": "string"}}}, (25, 1, 2, 22, 1), b"string"),
        ({"properties": {"p": {}}}, (25, 1, 1), b"p"),
        ({"x-kubernetes-list-type": "map"}, (31, 1), b"x-kubernetes-list-type"),
        ({"x-kubernetes-list-map-keys": ["name"]}, (31, 2, 2), b'["name"]\n'),
    ],
)
def test_a_type_is_written_by_the_numbers_of_kubectl(
    schema: dict[str, Any], path: tuple[int, ...], found: bytes
) -> None:
    data = schema_of(schema)
    for number in path:
        (data,) = members(data, number)
    assert data == found


def test_the_document_has_every_type_and_no_paths() -> None:
    document = v2_document(Resources(), version="v1.34.0")
    data = v2_protobuf(document)
    assert members(data, 1) == [b"2.0"]
    assert members(members(data, 2)[0], 2) == [b"v1.34.0"]
    assert members(data, 8) == [b""]
    assert list(named(members(data, 9)[0])) == list(document["definitions"])


@pytest.mark.parametrize(
    ("accept", "wanted"),
    [
        ("application/com.github.proto-openapi.spec.v2@v1.0+protobuf", True),
        ("application/com.github.proto-openapi.spec.v2.v1.0+protobuf, */*", True),
        ("application/json", False),
    ],
)
def test_it_is_given_to_who_asks_for_it(accept: str, wanted: bool) -> None:
    assert is_wanted(accept) is wanted
