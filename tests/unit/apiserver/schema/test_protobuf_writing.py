"""Objects as protobuf: what is written is what is read, for every kind and every field."""

import base64
import struct
from typing import Any

import pytest

from kit.api_process import Api
from pykubelet.apiserver.schema.kinds import built_in
from pykubelet.apiserver.schema.protobuf import SCHEMA_PROPS, from_protobuf
from pykubelet.apiserver.schema.protobuf_writing import to_protobuf, watch_frame
from pykubelet.apiserver.schema.resources import Resource
from pykubelet.apiserver.schema.schema import Anything, Json, ListOf, MapOf, Record, Scalar, Schema
from pykubelet.base.errors import Invalid
from unit.apiserver.schema.test_kinds import widget
from unit.apiserver.verbs.bodies import MAPS, config_map

PROTOBUF = "application/vnd.kubernetes.protobuf"
SCALARS: dict[str, Json] = {
    "quantity": "250m",
    "date-time": "2026-01-02T03:04:05Z",
    "int-or-string": "http",
    "byte": base64.b64encode(b"\xff\x00").decode(),
    "string": "text",
    "integer": -7,
    "number": 1.5,
    "boolean": True,
}


KINDS = [each for each in built_in() if each.kind != "CustomResourceDefinition"]


def full(schema: Schema, depth: int = 9) -> Json:
    """A value with all fields that there are."""
    match schema:
        case Scalar():
            if schema.name.endswith("MicroTime"):
                return "2026-01-02T03:04:05.000006Z"
            return SCALARS.get(schema.format) or SCALARS[schema.kind]
        case ListOf():
            return [full(schema.items, depth - 1)] * 2
        case MapOf():
            return {"k": full(schema.items, depth - 1)}
        case Record():
            fields = schema.fields.items() if depth > 0 else ()
            return {name: full(field.type, depth - 1) for name, field in fields if field.number}
        case Anything() if schema.name.endswith("OrBool"):
            return True
        case Anything() if schema.name.endswith("Array"):
            return ["text"] if "String" in schema.name else [{"type": "object"}]
    return {"any": ["thing", None, 1]}


@pytest.mark.parametrize("resource", KINDS, ids=lambda each: f"{each.group}/{each.kind}")
def test_every_field_of_every_kind_comes_back(resource: Resource) -> None:
    obj = {"apiVersion": resource.api_version, "kind": resource.kind, **full(resource.schema)}
    assert from_protobuf(to_protobuf(obj)) == obj


def definition(**schema: Any) -> dict[str, Any]:
    versions = [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}]
    spec = {"group": "e.com", "scope": "Namespaced", "names": {"plural": "a", "kind": "A"}, "versions": versions}
    metadata = {"name": "a.e.com"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": metadata,
        "spec": spec,
    }


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {"a": {"additionalProperties": {"type": "string"}, "not": {"enum": [1, "x", None]}}}},
        {"additionalProperties": False, "items": {"type": "object"}, "default": {"a": [1]}},
        {"items": [{"type": "string"}, {"maximum": 1.5}], "dependencies": {"a": ["b"], "c": {"type": "object"}}},
        {"x-kubernetes-preserve-unknown-fields": True, "x-kubernetes-validations": [{"rule": "true"}]},
    ],
)
def test_schemas_within_schemas_come_back(schema: dict[str, Any]) -> None:
    obj = definition(**schema)
    assert from_protobuf(to_protobuf(obj)) == obj
    assert SCHEMA_PROPS.endswith("JSONSchemaProps")


def test_what_has_no_form_in_protobuf_is_refused_with_a_sentence() -> None:
    with pytest.raises(Invalid, match="ask for JSON"):
        to_protobuf({"apiVersion": "example.com/v1", "kind": "Widget"})


async def raw(api: Api, path: str, method: str = "GET", data: bytes | None = None) -> tuple[int, str, bytes]:
    headers = {"Accept": PROTOBUF, **({"Content-Type": PROTOBUF} if data else {})}
    async with api.session.request(method, api.url + path, headers=headers, data=data) as answer:
        return answer.status, answer.headers["Content-Type"], await answer.read()


async def test_a_client_that_takes_nothing_else_gets_protobuf(api: Api) -> None:
    sent = to_protobuf({"apiVersion": "v1", "kind": "ConfigMap", **config_map("a"), "data": {"k": "v"}})
    code, kind, data = await raw(api, MAPS, "POST", sent)
    assert (code, kind) == (201, PROTOBUF)
    made = from_protobuf(data)
    assert (made["data"], bool(made["metadata"]["managedFields"][0]["fieldsV1"])) == ({"k": "v"}, True)
    assert from_protobuf((await raw(api, f"{MAPS}/a"))[2]) == made

    code, kind, data = await raw(api, f"{MAPS}/none")
    assert (code, kind, data[:4]) == (404, PROTOBUF, b"k8s\0")
    assert b'configmaps "none" not found' in data

    code, _, data = await raw(api, MAPS)
    assert (code, b"ConfigMapList" in data, b"\x0a\x01k\x12\x01v" in data) == (200, True, True)


async def test_whoever_takes_json_as_well_gets_json(api: Api) -> None:
    code, _ = await api.ask("POST", MAPS, config_map("a"))
    assert code == 201
    code, found = await api.ask("GET", f"{MAPS}/a", Accept=f"{PROTOBUF}, application/json")
    assert (code, found["kind"]) == (200, "ConfigMap")


async def test_a_watch_in_protobuf_is_a_row_of_frames(api: Api) -> None:
    await api.ask("POST", MAPS, config_map("a"))
    headers = {"Accept": PROTOBUF}
    query = "?watch=true&resourceVersion=0&timeoutSeconds=5"
    async with api.session.get(api.url + MAPS + query, headers=headers) as answer:
        assert answer.headers["Content-Type"] == f"{PROTOBUF};stream=watch"
        for word in (b"ADDED", b"DELETED"):
            (length,) = struct.unpack(">I", await answer.content.readexactly(4))
            frame = await answer.content.readexactly(length)
            assert frame.startswith(b"\x0a" + bytes([len(word)]) + word)
            found = from_protobuf(frame[frame.index(b"k8s\0") :])
            assert found["metadata"]["name"] == "a"
            assert watch_frame(word.decode(), frame[frame.index(b"k8s\0") :])[4:] == frame
            if word == b"ADDED":
                await api.ask("DELETE", f"{MAPS}/a")


async def test_what_protobuf_cannot_say_is_not_promised(api: Api) -> None:
    api.backend.serve([widget()])
    assert (await raw(api, "/apis/example.com/v1/widgets"))[0] == 406
    table = f"{PROTOBUF};as=Table;v=v1;g=meta.k8s.io"
    assert (await api.ask("GET", MAPS, Accept=table))[0] == 406
    partial = f"{PROTOBUF};as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
    async with api.session.get(api.url + MAPS, headers={"Accept": partial}) as answer:
        assert (answer.status, b"PartialObjectMetadataList" in await answer.read()) == (200, True)
