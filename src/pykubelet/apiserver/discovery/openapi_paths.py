"""The paths of the OpenAPI documents: which request does what with which kind.

They are made in the words of OpenAPI 3; `openapi` says the same in those of version 2.
"""

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from pykubelet.apiserver.schema.catalogue import META, section
from pykubelet.apiserver.schema.resources import Resource, Subresource

Json = dict[str, Any]

_CUSTOM_PATCHES: Final = (
    "application/apply-patch+yaml",
    "application/json-patch+json",
    "application/merge-patch+json",
)
_PATCHES: Final = (*_CUSTOM_PATCHES, "application/strategic-merge-patch+json")
STREAMS: Final = {"attach", "exec", "portforward", "proxy"}
_CORE_GROUP: Final = "core"

_PARAMETERS: Final = {
    "allowWatchBookmarks": ("boolean", "Whether a watch tells from time to time how far it is."),
    "continue": ("string", "Where a list that was given in parts goes on."),
    "dryRun": ("string", "All: do everything but store it."),
    "fieldManager": ("string", "Who makes the change. Required to apply."),
    "fieldSelector": ("string", "Which objects, by their fields."),
    "fieldValidation": ("string", "What to do about unknown and repeated fields: Ignore, Warn or Strict."),
    "force": ("boolean", "Whether to take fields that others own. To apply only."),
    "gracePeriodSeconds": ("integer", "How long it may take to end."),
    "labelSelector": ("string", "Which objects, by their labels."),
    "limit": ("integer", "How many to give at once."),
    "propagationPolicy": ("string", "What becomes of what it owns: Orphan, Background or Foreground."),
    "resourceVersion": ("string", "Which state to look at, or to watch from."),
    "resourceVersionMatch": ("string", "How exact the resourceVersion is meant."),
    "sendInitialEvents": ("boolean", "Whether a watch begins with what there is."),
    "timeoutSeconds": ("integer", "How long a list or watch may take."),
    "watch": ("boolean", "Whether to follow the changes."),
}
_LISTING: Final = (
    "allowWatchBookmarks",
    "continue",
    "fieldSelector",
    "labelSelector",
    "limit",
    "resourceVersion",
    "resourceVersionMatch",
    "sendInitialEvents",
    "timeoutSeconds",
    "watch",
)
_WRITING: Final = ("dryRun", "fieldManager", "fieldValidation")
_DELETING: Final = ("dryRun", "gracePeriodSeconds", "propagationPolicy")


class _Action(NamedTuple):
    method: str
    name: str  # as x-kubernetes-action
    prefix: str  # of the operation's id
    parameters: tuple[str, ...] = ()
    code: str = "200"


_ON_ONE: Final = {
    "get": _Action("get", "get", "read"),
    "update": _Action("put", "put", "replace", _WRITING),
    "patch": _Action("patch", "patch", "patch", (*_WRITING, "force")),
    "delete": _Action("delete", "delete", "delete", _DELETING),
}
_ON_ALL: Final = {
    "list": _Action("get", "list", "list", _LISTING),
    "create": _Action("post", "post", "create", _WRITING, "201"),
    "deletecollection": _Action("delete", "deletecollection", "deleteCollection", (*_DELETING, *_LISTING)),
}


def paths(resource: Resource) -> Iterator[tuple[str, Json]]:
    """Every path of a resource, with what can be done there."""
    scope = "/namespaces/{namespace}" if resource.namespaced else ""
    collection = f"{resource.root}{scope}/{resource.plural}"
    yield from _path(resource, collection, _ON_ALL, resource.verbs)
    yield from _path(resource, f"{collection}/{{name}}", _ON_ONE, resource.verbs)
    if resource.namespaced and "list" in resource.verbs:
        yield from _path(resource, f"{resource.root}/{resource.plural}", {"list": _ON_ALL["list"]}, resource.verbs)
    for part in resource.subresources:
        actions = {**_ON_ONE, "create": _ON_ALL["create"]}
        if part.name in STREAMS:
            actions = {verb: each._replace(name="connect", parameters=()) for verb, each in actions.items()}
        yield from _path(resource, f"{collection}/{{name}}/{part.name}", actions, part.verbs, part)


def _path(
    resource: Resource, path: str, actions: dict[str, _Action], verbs: tuple[str, ...], part: Subresource | None = None
) -> Iterator[tuple[str, Json]]:
    chosen = [actions[verb] for verb in verbs if verb in actions]
    if chosen:
        entry: Json = {each.method: _operation(resource, each, path, part) for each in chosen}
        names = [name for name in ("name", "namespace") if f"{{{name}}}" in path]
        entry["parameters"] = [_in_path(name, resource.kind) for name in names]
        yield path, entry


def _operation(resource: Resource, action: _Action, path: str, part: Subresource | None) -> Json:
    group, version = (part.group, part.version) if part and part.group else (resource.group, resource.version)
    kind = part.kind if part else resource.kind
    name = _schema_name(resource, action, part)
    operation: Json = {
        "description": f"{action.prefix} {kind}" + (f" by way of {part.name}" if part else ""),
        "operationId": _operation_id(resource, action, path, part),
        "parameters": [_in_query(each) for each in action.parameters],
        "responses": {action.code: _answer(name), "401": {"description": "Unauthorized"}},
        "tags": [f"{resource.group.partition('.')[0] or _CORE_GROUP}_{resource.version}"],
        "x-kubernetes-action": action.name,
        "x-kubernetes-group-version-kind": {"group": group, "version": version, "kind": kind},
    }
    if body := _body(resource, action, name):
        operation["requestBody"] = body
    return operation


def _operation_id(resource: Resource, action: _Action, path: str, part: Subresource | None) -> str:
    group = (resource.group.partition(".")[0] or _CORE_GROUP).capitalize()
    where = group + resource.version[0].upper() + resource.version[1:]
    scope = "Namespaced" if "{namespace}" in path else ""
    across = "ForAllNamespaces" if resource.namespaced and not scope else ""
    what = f"{scope}{resource.kind}{part.name.capitalize() if part else ''}{across}"
    if action.name == "connect":
        return f"connect{where}{action.method.capitalize()}{what}"
    if action.name == "deletecollection":
        return f"delete{where}Collection{what}"
    return f"{action.prefix}{where}{what}"


def _schema_name(resource: Resource, action: _Action, part: Subresource | None) -> str:
    """The type of the answer; "" for text and streams."""
    if part is not None and (part.name in STREAMS or part.name == "log"):
        return ""
    if action.name in ("delete", "deletecollection"):
        return f"{META}.Status"
    if part is not None:
        return f"{section(part.group, part.version) if part.group else resource.section}.{part.kind}"
    kind = resource.list_kind if action.name == "list" else resource.kind
    return f"{resource.section}.{kind}"


def _answer(name: str) -> Json:
    if not name:
        return {"description": "OK", "content": {"*/*": {"schema": {"type": "string"}}}}
    return {"description": "OK", "content": {"application/json": {"schema": _reference(name)}}}


def _body(resource: Resource, action: _Action, name: str) -> Json | None:
    if action.name in ("post", "put"):
        return {"content": {"application/json": {"schema": _reference(name)}}, "required": True}
    if action.name == "patch":
        schema = _reference(f"{META}.Patch")
        kinds = _CUSTOM_PATCHES if resource.is_custom else _PATCHES
        return {"content": {kind: {"schema": schema} for kind in kinds}, "required": True}
    if action.name in ("delete", "deletecollection"):
        return {"content": {"application/json": {"schema": _reference(f"{META}.DeleteOptions")}}}
    return None


def _reference(name: str) -> Json:
    return {"$ref": f"#/components/schemas/{name}"}


def _in_path(name: str, kind: str) -> Json:
    what = f"name of the {kind}" if name == "name" else "the namespace to look in"
    return {"name": name, "in": "path", "required": True, "description": what, "schema": {"type": "string"}}


def _in_query(name: str) -> Json:
    kind, description = _PARAMETERS[name]
    return {"name": name, "in": "query", "description": description, "schema": {"type": kind}}
