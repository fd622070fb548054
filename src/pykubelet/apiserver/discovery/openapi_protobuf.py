"""The second version of the OpenAPI document in protobuf, the only form in which kubectl takes it.

kubectl checks manifests that are lists by it. It reads the types and nothing else, so the paths are left out.
"""

import json
from typing import Any, Final

Json = dict[str, Any]

CONTENT_TYPE: Final = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
_OLD_CONTENT_TYPE: Final = CONTENT_TYPE.replace("v2.", "v2@")
"""What clients ask for: no proper media type, and therefore none to answer with."""
_ALIKE: Final = ("format", "title", "description", "required")


def is_wanted(accept: str) -> bool:
    return CONTENT_TYPE in accept or _OLD_CONTENT_TYPE in accept


def v2_protobuf(document: Json) -> bytes:
    """The document of `openapi.v2_document`."""
    from pykubelet.apiserver.discovery._gen.openapi_v2_pb2 import Document  # takes long to load, and is made once

    parts: Json = {"info": document["info"], "paths": {}, "definitions": _named(document["definitions"])}
    return Document(swagger=document["swagger"], **parts).SerializeToString()


def _named(schemas: Json) -> Json:
    return {"additional_properties": [{"name": name, "value": _schema(inner)} for name, inner in schemas.items()]}


def _schema(schema: Json) -> Json:
    parts: Json = {name: schema[name] for name in _ALIKE if name in schema}
    parts["vendor_extension"] = [
        {"name": name, "value": _any(value)} for name, value in schema.items() if name.startswith("x-")
    ]
    if "$ref" in schema:
        parts["ref"] = schema["$ref"]
    if "default" in schema:
        parts["default"] = _any(schema["default"])
    if "enum" in schema:
        parts["enum"] = [_any(value) for value in schema["enum"]]
    if "type" in schema:
        parts["type"] = {"value": [schema["type"]]}
    for name in ("additionalProperties", "items"):
        if name in schema:
            parts["items" if name == "items" else "additional_properties"] = {"schema": _schema(schema[name])}
    if "properties" in schema:
        parts["properties"] = _named(schema["properties"])
    return parts


def _any(value: Any) -> Json:
    """Any value is written as YAML, of which JSON is a part."""
    return {"yaml": json.dumps(value) + "\n"}
