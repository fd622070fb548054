"""The OpenAPI documents of the API server: version 3, one for each group and version, and version 2, one for all.

`kubectl explain` and the field validation of clients read them. They are made once, of the table of kinds and of the
schemas that everything else works by, so that they cannot say anything else than what the server does.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from pykubelet import __version__
from pykubelet.apiserver.discovery.openapi_paths import paths
from pykubelet.apiserver.schema.catalogue import META, catalogue, section
from pykubelet.apiserver.schema.kinds import Resources
from pykubelet.apiserver.schema.resources import Resource
from pykubelet.apiserver.schema.schema import Anything, Field, ListOf, MapOf, Record, Scalar, Schema

Json = dict[str, Any]

_V2: Final = "#/definitions/"
_V3: Final = "#/components/schemas/"
_ALWAYS: Final = ("DeleteOptions", "Status")
_SCALARS: Final[dict[str, Json]] = {
    f"{META}.Patch": {"type": "object", "description": "A change of an object, in one of the forms of patches."},
    f"{META}.Time": {"type": "string", "format": "date-time", "description": "A time, to the second."},
    f"{META}.MicroTime": {"type": "string", "format": "date-time", "description": "A time, to the microsecond."},
    "io.k8s.apimachinery.pkg.api.resource.Quantity": {
        "description": "An amount, with a unit that is a power of ten or of two: 250m, 1.5, 2Gi.",
        "oneOf": [{"type": "string"}, {"type": "number"}],
    },
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": {
        "description": "A number or a name.",
        "format": "int-or-string",
        "oneOf": [{"type": "integer"}, {"type": "string"}],
    },
}


def roots(resources: Resources) -> dict[str, list[Resource]]:
    """The resources that share a document, by the path after /openapi/v3/: `api/v1`, `apis/node.k8s.io/v1`."""
    found: dict[str, list[Resource]] = {}
    for each in resources:
        found.setdefault(each.root.removeprefix("/"), []).append(each)
    return dict(sorted(found.items()))


def v3_document(here: Sequence[Resource], *, version: str = "") -> bytes:
    """Of one group and version."""
    document = {
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": version or "unversioned"},
        "paths": dict(sorted(path for each in here for path in paths(each))),
        "components": {"schemas": _schemas(here, _V3), "securitySchemes": _security()},
    }
    return json.dumps(document, separators=(",", ":")).encode()


def v3_index(documents: Mapping[str, Sequence[Resource]], *, version: str = "") -> Json:
    """/openapi/v3: where each document is. The hash in its address lets clients keep it for ever."""
    return {
        "paths": {
            path: {"serverRelativeURL": f"/openapi/v3/{path}?hash={v3_hash(here, version=version)}"}
            for path, here in documents.items()
        }
    }


def v3_hash(here: Sequence[Resource], *, version: str = "") -> str:
    """Of all that the document is made of, so that it need not be made to be named."""
    custom = [(each.plural, each.kind, each.subresources, each.openapi) for each in here if each.is_custom]
    made_of = (version, __version__, [(each.group, each.version, each.plural) for each in here], custom)
    return hashlib.sha512(json.dumps(made_of, default=str, sort_keys=True).encode()).hexdigest().upper()


def v2_document(resources: Iterable[Resource], *, version: str = "") -> Json:
    """/openapi/v2, as JSON"""
    every = tuple(resources)
    return {
        "swagger": "2.0",
        "info": {"title": "Kubernetes", "version": version or "unversioned"},
        "paths": {path: _v2_path(entry) for each in every for path, entry in paths(each)},
        "definitions": _schemas(every, _V2),
        "securityDefinitions": _security(),
        "security": [{"BearerToken": []}],
    }


def _security() -> Json:
    scheme = {"type": "apiKey", "name": "authorization", "in": "header", "description": "Bearer Token authentication"}
    return {"BearerToken": scheme}


# --- types


def _schemas(resources: Sequence[Resource], prefix: str) -> Json:
    """The types of the resources, and all types that these are made of."""
    result: Json = {name: _scalar_definition(name, prefix) for name in _SCALARS}
    free = {"description": "Any JSON."}
    waiting = [*(catalogue()[f"{META}.{name}"] for name in _ALWAYS), catalogue()[f"{META}.ListMeta"]]
    for each in resources:
        waiting += _roots(each)
        if each.is_custom:
            waiting.append(catalogue()[f"{META}.ObjectMeta"])
            result[f"{each.section}.{each.kind}"] = _custom_definition(each, prefix)
        if "list" in each.verbs:
            result[f"{each.section}.{each.list_kind}"] = _list_definition(each, prefix)
    while waiting:
        record = waiting.pop()
        if record.name not in result:
            result[record.name] = _definition(catalogue()[record.name], prefix)
            inside = [inner for field in record.fields.values() for inner in _named(field.type)]
            waiting += [inner for inner in inside if isinstance(inner, Record)]
            result |= {inner.name: free for inner in inside if isinstance(inner, Anything) and inner.name}
    return dict(sorted(_with_kinds(result, resources).items()))


def _roots(resource: Resource) -> Iterator[Record]:
    places = [(part.group, part.version, part.kind) for part in resource.subresources if part.group]
    places += [("", "", part.kind) for part in resource.subresources if not part.group]
    for group, version, kind in (("", "", resource.kind), *places):
        where = section(group, version) if group else resource.section
        if (record := catalogue().get(f"{where}.{kind}")) is not None:
            yield record


def _custom_definition(resource: Resource, prefix: str) -> Json:
    """As its author gave it, with what every object has."""
    from pykubelet.apiserver.custom.openapi_v2 import for_v2  # for who has custom resources

    given = dict(resource.openapi or {})
    if prefix == _V2:
        if given.get("x-kubernetes-preserve-unknown-fields"):
            return {"type": "object"}  # clients would refuse fields that are not among the properties
        given = for_v2(given)
    properties = {
        **given.get("properties", {}),
        "apiVersion": {"type": "string"},
        "kind": {"type": "string"},
        "metadata": {"$ref": f"{prefix}{META}.ObjectMeta"},
    }
    return {"type": "object", **given, "properties": properties}


def _named(schema: Schema) -> Iterator[Record | Anything]:
    if isinstance(schema, Record | Anything):
        yield schema
    elif isinstance(schema, ListOf | MapOf):
        yield from _named(schema.items)


def _definition(record: Record, prefix: str) -> Json:
    result: Json = {"type": "object"}
    if record.description:
        result["description"] = record.description
    required = sorted(name for name, field in record.fields.items() if field.is_required)
    if required:
        result["required"] = required
    result["properties"] = {name: _property(field, prefix) for name, field in record.fields.items()}
    if record.is_atomic:
        result["x-kubernetes-map-type"] = "atomic"
    return result


def _property(field: Field, prefix: str) -> Json:
    result = _inline(field.type, prefix)
    extras: Json = {}
    if field.description:
        extras["description"] = field.description
    if field.default is not None:
        extras["default"] = field.default
    if field.enum:
        extras["enum"] = list(field.enum)
    if field.patch_strategy:
        extras["x-kubernetes-patch-strategy"] = field.patch_strategy
    if "$ref" in result and extras and prefix == _V3:
        reference = {"$ref": result.pop("$ref")}
        return {"allOf": [reference], **result, **extras}  # beside a reference nothing else counts in version 3
    return {**result, **extras}


def _inline(schema: Schema, prefix: str) -> Json:
    if isinstance(schema, Record):
        is_usual = schema.is_atomic == catalogue()[schema.name].is_atomic
        return {"$ref": prefix + schema.name, **({} if is_usual else {"x-kubernetes-map-type": "granular"})}
    if isinstance(schema, Scalar):
        if schema.name:
            return {"$ref": prefix + schema.name}
        return {"type": schema.kind, **({"format": schema.format} if schema.format else {})}
    if isinstance(schema, MapOf):
        inner = _inline(schema.items, prefix)
        result: Json = {"type": "object", **({"additionalProperties": inner} if inner else {})}
        return {**result, "x-kubernetes-map-type": "atomic"} if schema.is_atomic else result
    if isinstance(schema, ListOf):
        return _inline_list(schema, prefix)
    return {"$ref": prefix + schema.name} if schema.name else {"type": "object"}


def _inline_list(schema: ListOf, prefix: str) -> Json:
    result: Json = {"type": "array", "items": _inline(schema.items, prefix)}
    result["x-kubernetes-list-type"] = schema.relation
    if schema.keys:
        result["x-kubernetes-list-map-keys"] = list(schema.keys)
    if schema.is_merged:
        result["x-kubernetes-patch-strategy"] = "merge,retainKeys" if schema.retains_keys else "merge"
        if schema.merge_key:
            result["x-kubernetes-patch-merge-key"] = schema.merge_key
    return result


def _list_definition(resource: Resource, prefix: str) -> Json:
    item = f"{resource.section}.{resource.kind}"
    return {
        "type": "object",
        "description": f"{resource.list_kind} is a list of objects of the kind {resource.kind}.",
        "required": ["items"],
        "properties": {
            "apiVersion": {"type": "string"},
            "items": {"type": "array", "items": {"$ref": prefix + item}},
            "kind": {"type": "string"},
            "metadata": {"$ref": f"{prefix}{META}.ListMeta"},
        },
    }


def _scalar_definition(name: str, prefix: str) -> Json:
    definition = dict(_SCALARS[name])
    if prefix == _V2 and definition.pop("oneOf", None):
        definition["type"] = "string"  # version 2 has no alternatives
    return definition


def _with_kinds(definitions: Json, resources: Sequence[Resource]) -> Json:
    """Say which type is which kind."""
    kinds: dict[str, list[Json]] = {f"{META}.Status": [{"group": "", "version": "v1", "kind": "Status"}]}
    for each in resources:
        where = each.section
        named = [(each.group, each.version, each.kind, where), (each.group, each.version, each.list_kind, where)]
        named += [
            (part.group, part.version, part.kind, section(part.group, part.version))
            for part in each.subresources
            if part.group
        ]
        for group, version, kind, place in named:
            entry = {"group": group, "version": version, "kind": kind}
            if entry not in kinds.setdefault(f"{place}.{kind}", []):
                kinds[f"{place}.{kind}"].append(entry)
    deleting = {(each.group, each.version): None for each in resources}
    kinds[f"{META}.DeleteOptions"] = [
        {"group": group, "version": version, "kind": "DeleteOptions"} for group, version in deleting
    ]
    for name, entries in kinds.items():
        if name in definitions:
            definitions[name] = {**definitions[name], "x-kubernetes-group-version-kind": entries}
    return definitions


# --- version 2


def _v2_path(entry: Json) -> Json:
    operations = {key: _v2_operation(value) for key, value in entry.items() if key != "parameters"}
    return {**operations, "parameters": [_v2_parameter(each) for each in entry["parameters"]]}


def _v2_operation(operation: Json) -> Json:
    result = {**operation, "parameters": [_v2_parameter(each) for each in operation["parameters"]]}
    body = result.pop("requestBody", None)
    if body is not None:
        kinds = list(body["content"])
        result["consumes"] = kinds
        schema = _v2_reference(body["content"][kinds[0]]["schema"])
        result["parameters"].append({"name": "body", "in": "body", "schema": schema, **_required(body)})
    result["produces"] = ["application/json"]
    result["responses"] = {code: _v2_answer(each) for code, each in operation["responses"].items()}
    return result


def _required(body: Json) -> Json:
    return {"required": True} if body.get("required") else {}


def _v2_parameter(parameter: Json) -> Json:
    plain = {key: value for key, value in parameter.items() if key != "schema"}
    return {**plain, **parameter["schema"], "uniqueItems": True}


def _v2_answer(answer: Json) -> Json:
    plain = {"description": answer["description"]}
    for content in answer.get("content", {}).values():
        return {**plain, "schema": _v2_reference(content["schema"])}
    return plain


def _v2_reference(schema: Json) -> Json:
    return {"$ref": schema["$ref"].replace(_V3, _V2)} if "$ref" in schema else schema
