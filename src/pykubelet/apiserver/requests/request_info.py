"""What a request is about, read from its method, path and query, before anything is looked up."""

from collections.abc import Mapping
from typing import Final
from urllib.parse import unquote

import msgspec

from pykubelet.apiserver.requests.options import flag

_VERBS: Final = {"POST": "create", "PUT": "update", "PATCH": "patch"}


class RequestInfo(msgspec.Struct, frozen=True):
    """What access control is asked about."""

    verb: str
    path: str
    is_resource: bool = False
    group: str = ""
    version: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    rest: str = ""
    """What comes after the subresource, for proxies."""
    raw_rest: str = ""
    """The same as it was written, with the slash before it."""
    field_selector: str = ""
    label_selector: str = ""


def request_info(method: str, raw_path: str, query: Mapping[str, str]) -> RequestInfo:
    parts = [part for part in raw_path.split("/") if part]
    if "%" in raw_path:
        parts = [unquote(part) for part in parts]
    path = "/" + "/".join(parts)
    if len(parts) >= 3 and parts[0] == "api":
        group, version, rest = "", parts[1], parts[2:]
    elif len(parts) >= 4 and parts[0] == "apis":
        group, version, rest = parts[1], parts[2], parts[3:]
    else:
        return RequestInfo(method.lower(), path)
    is_watch = flag(query, "watch") if query else False
    if rest[0] == "watch" and len(rest) > 1:
        is_watch, rest = True, rest[1:]
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 1:
        namespace = rest[1]
        if len(rest) > 2 and rest[2] not in ("status", "finalize"):
            rest = rest[2:]
    resource, name, sub = (*rest[:3], "", "")[:3] if len(rest) < 3 else rest[:3]
    return RequestInfo(
        verb=_verb(method, bool(name), is_watch),
        path=path,
        is_resource=True,
        group=group,
        version=version,
        resource=resource,
        subresource=sub,
        namespace=namespace,
        name=name,
        rest="/".join(rest[3:]) if sub else "",
        raw_rest=_after(raw_path, len(parts) - len(rest[3:])) if sub == "proxy" else "",
        field_selector=query.get("fieldSelector", "") if query else "",
        label_selector=query.get("labelSelector", "") if query else "",
    )


def _after(raw_path: str, count: int) -> str:
    """What is left of a path without so many parts: nothing, or a slash and what follows it."""
    for _ in range(count):
        _, slash, more = raw_path.lstrip("/").partition("/")
        raw_path = slash + more
    return raw_path


def _verb(method: str, is_named: bool, is_watch: bool) -> str:
    if method in ("GET", "HEAD"):
        if is_watch:
            return "watch"
        return "get" if is_named else "list"
    if method == "DELETE":
        return "delete" if is_named else "deletecollection"
    return _VERBS.get(method, method.lower())
