"""What the audit log says of a request, at each stage of it: events of audit.k8s.io/v1, as upstream writes them."""

from collections.abc import Iterator
from datetime import datetime
from typing import Any, Final

import msgspec

from pykubelet.api.documents import DocumentError, read_documents
from pykubelet.api.struct import MicroTime
from pykubelet.apiserver.objects import Object, encode
from pykubelet.apiserver.requests.access import IDENTIFIED, IMPERSONATED
from pykubelet.apiserver.requests.media_types import JSON, PROTOBUF
from pykubelet.apiserver.schema.protobuf import from_protobuf
from pykubelet.apiserver.telemetry.audit_policy import Stage
from pykubelet.apiserver.telemetry.seen import REASON, Seen
from pykubelet.base.errors import Invalid

_WITH_REQUEST: Final = ("Request", "RequestResponse")


def audit_line(seen: Seen, stage: Stage, received: datetime, now: datetime) -> bytes:
    event: Object = {
        "kind": "Event",
        "apiVersion": "audit.k8s.io/v1",
        "level": seen.depth.level if seen.depth else "Metadata",
        "auditID": seen.audit_id,
        "stage": stage,
        "requestURI": seen.request.rel_url.raw_path_qs,
        **dict(_asked(seen)),
        **dict(_answered(seen, stage)),
        "requestReceivedTimestamp": str(MicroTime.of(received)),
        "stageTimestamp": str(MicroTime.of(now)),
    }
    if stage != "RequestReceived" and (annotations := _annotations(seen)):
        event["annotations"] = annotations
    return encode(event) + b"\n"


def _asked(seen: Seen) -> Iterator[tuple[str, Any]]:
    request, info = seen.request, seen.info
    user, other = request.get(IDENTIFIED), request.get(IMPERSONATED)
    yield "verb", info.verb if info else request.method.lower()
    yield "user", user.info() if user else {}
    if other is not None:
        yield "impersonatedUser", other.info()
    if request.remote:
        yield "sourceIPs", [request.remote]
    if agent := request.headers.get("User-Agent", ""):
        yield "userAgent", agent
    if info is None or not info.is_resource:
        return
    named = {
        "resource": info.resource,
        "namespace": info.namespace,
        "name": info.name or _name(seen.body),
        "apiGroup": info.group,
        "apiVersion": info.version,
        "subresource": info.subresource,
    }
    yield "objectRef", {key: value for key, value in named.items() if value}


def _answered(seen: Seen, stage: Stage) -> Iterator[tuple[str, Any]]:
    if stage == "RequestReceived" or seen.depth is None:
        return
    status: dict[str, Any] = {"metadata": {}}
    answer = _short(_object(seen.answer), seen.depth.omits_managed_fields)
    if isinstance(answer, dict) and answer.get("kind") == "Status":
        status |= {key: answer[key] for key in ("status", "message", "reason", "details") if key in answer}
    yield "responseStatus", {**status, "code": seen.code}
    if seen.depth.level in _WITH_REQUEST and seen.body:
        asked = _sent(seen.body, seen.content_type)
        if asked is not None:
            yield "requestObject", _short(asked, seen.depth.omits_managed_fields)
    if seen.depth.level == "RequestResponse" and answer is not None:
        yield "responseObject", answer


def _annotations(seen: Seen) -> dict[str, str]:
    if seen.code == 401:
        return {"authentication.k8s.io/reason": "nobody is known by what the request brought"}
    decision = "forbid" if seen.code == 403 else "allow"
    return {"authorization.k8s.io/decision": decision, REASON: "", **seen.notes}


def _sent(body: bytes, content_type: str) -> Any:
    """As it came: before defaults, or a patch."""
    try:
        if content_type == PROTOBUF:
            return from_protobuf(body)
        found = _object(body)
        return found if found is not None or content_type == JSON else read_documents(body)[0].value
    except (Invalid, DocumentError, IndexError):
        return None


def _object(data: bytes) -> Any:
    """None for what cannot be read: the answer says so."""
    try:
        return msgspec.json.decode(data) if data else None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def _short(found: Any, omits_managed_fields: bool) -> Any:
    if omits_managed_fields and isinstance(found, dict):
        items = found.get("items")
        for each in (found, *(items if isinstance(items, list) else ())):
            if isinstance(each, dict) and isinstance(each.get("metadata"), dict):
                each["metadata"].pop("managedFields", None)
    return found


class _Meta(msgspec.Struct):
    name: str = ""


class _Named(msgspec.Struct):
    metadata: _Meta = msgspec.field(default_factory=_Meta)


def _name(body: bytes) -> str:
    """Of an object that is created."""
    try:
        return msgspec.json.decode(body, type=_Named).metadata.name if body else ""
    except (msgspec.DecodeError, UnicodeDecodeError):
        return ""
