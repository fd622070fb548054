"""What clients send, made into objects: of the right kind and shape, with a word about fields nobody knows."""

from collections import Counter
from collections.abc import Iterable
from itertools import islice
from typing import Any, Final

import msgspec

from pykubelet.api.documents import DocumentError, read_documents
from pykubelet.apiserver import status
from pykubelet.apiserver.backend import LIGHT
from pykubelet.apiserver.objects import Object
from pykubelet.apiserver.requests.calls import Call
from pykubelet.apiserver.requests.json_text import check_amount, is_hard, read_json, read_patiently
from pykubelet.apiserver.requests.media_types import JSON, PROTOBUF, YAML
from pykubelet.apiserver.schema.catalogue import schema_of
from pykubelet.apiserver.schema.misfits import misfits
from pykubelet.apiserver.schema.protobuf import from_protobuf
from pykubelet.apiserver.schema.schema import (
    DEEPEST,
    Json,
    Schema,
    is_too_deep,
    unknown_fields,
)
from pykubelet.apiserver.schema.shapes import fits
from pykubelet.apiserver.strategies.base import Strategy, normal
from pykubelet.base.errors import Invalid

_MEDIA: Final = (JSON, YAML, PROTOBUF)
MOST_FAULTS: Final = 100
"""Unknown fields and names that are there twice that a client is told of, as upstream."""
_SHOWN: Final = 1000
_META: Final = ("name", "namespace", "generateName", "uid", "resourceVersion")


def read_object(call: Call, strategy: Strategy, *, kind: str = "", api_version: str = "") -> Object:
    """The object in the body. Raises 400 and 415."""
    want, version = kind or call.resource.kind, api_version or call.resource.api_version
    value, duplicates = call.ahead or _bounded(call, want)
    if strategy.resource.is_custom and not kind:
        _check_said(value, want)
    obj = _of_kind(value, want, version)
    validation = call.write_options.validation
    shape = strategy.shape if not kind else schema_of(version, kind)
    is_known = check_shape(obj, want, version, shape)
    unknown: Iterable[str] = ()
    if not is_known or strategy.resource.is_custom:
        unknown = unknown_fields(obj, shape) if kind else strategy.unknown(obj)
    told_unknown(call, unknown, want, version, validation, duplicates)
    return obj if kind else normal(strategy, obj)


async def read_ahead(call: Call) -> Call:
    """With a look at the body if that takes long."""
    if len(call.body) <= LIGHT:
        return call
    return msgspec.structs.replace(call, ahead=_bounded(call, call.resource.kind))


def _bounded(call: Call, kind: str) -> tuple[Json, list[str]]:
    value, duplicates = parsed(call, kind)
    if not _is_flat(call) and is_too_deep(value):
        raise status.bad_request("the object provided is nested too deeply")
    return value, duplicates


def parsed(call: Call, kind: str) -> tuple[Json, list[str]]:
    """The value in the body, and what is wrong with it that may be passed over: names that some map has twice."""
    data = call.body
    duplicates: list[str] = []
    if call.content_type in ("", JSON):
        try:
            if call.query.get("fieldValidation") == "Ignore":
                return read_json(data), []
            check_amount(data)
            if not is_hard(data) and (plain := _without_loss(data)) is not None:
                return plain, []
            value = read_patiently(data, lambda pairs: _map(pairs, duplicates))
            return value, [f'duplicate field "{name}"' for name in duplicates]
        except (ValueError, UnicodeError, RecursionError) as error:
            raise _unreadable(data, kind, str(error)) from None
    if call.content_type in (YAML, "text/yaml", "application/x-yaml"):
        return from_yaml(data, kind, duplicates), duplicates
    if call.content_type == PROTOBUF:
        try:
            return from_protobuf(data), []
        except Invalid as error:
            raise status.bad_request(f"the object provided is unrecognized (must be of type {kind}): {error}") from None
    raise status.unsupported_media_type(_MEDIA)


def from_yaml(data: bytes, kind: str, twice: list[str]) -> Json:
    """Names that some map has twice are noted."""
    try:
        documents = read_documents(data, twice)
    except DocumentError as error:
        raise _unreadable(data, kind, str(error)) from None
    if len(documents) != 1:
        raise _unreadable(data, kind, f"there are {len(documents)} documents in it instead of one")
    return documents[0].value


def _without_loss(data: bytes) -> Json:
    """The value if its text could be made from it again, so that no name is there twice; None if that is not known."""
    try:
        plain = msgspec.json.decode(data)
        return plain if msgspec.json.encode(plain) == msgspec.json.format(data, indent=-1) else None
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None


def _map(pairs: list[tuple[str, Any]], duplicates: list[str]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        left = MOST_FAULTS - len(duplicates)
        if left > 0:
            counted = Counter(name for name, _ in pairs)
            duplicates += islice((name for name in found if counted[name] > 1), left)
    return found


def _is_flat(call: Call) -> bool:
    """Whether so little is opened in the text that nothing in it can be nested too deeply."""
    opened = call.body.count(b"{") + call.body.count(b"[")
    return call.content_type in ("", JSON) and opened < DEEPEST


def _unreadable(data: bytes, kind: str, why: str) -> status.ApiError:
    text = data[:_SHOWN].decode("utf-8", "replace") or "<empty>"
    return status.bad_request(
        f"the object provided is unrecognized (must be of type {kind}): "
        f"couldn't get version/kind; json parse error: {why} ({text})"
    )


def _check_said(value: Json, kind: str) -> None:
    """That an object says what it is: of custom ones nothing is taken for granted. Raises 400."""
    if isinstance(value, dict):
        for name in ("kind", "apiVersion"):
            if not value.get(name):
                shown = msgspec.json.encode(value)[:_SHOWN].decode("utf-8", "replace")
                said = f"Object '{name[0].upper()}{name[1:]}' is missing in '{shown}'"
                raise status.bad_request(f"the object provided is unrecognized (must be of type {kind}): {said}")


def _of_kind(value: Json, kind: str, api_version: str) -> Object:
    if not isinstance(value, dict):
        raise _unreadable(msgspec.json.encode(value), kind, "it is not an object")
    given_kind, given_version = value.get("kind") or kind, value.get("apiVersion") or api_version
    if (given_kind, given_version) != (kind, api_version):
        short = str(given_version).rpartition("/")[2]
        said = f'{given_kind} in version "{short}" cannot be handled as a {kind}'
        if given_version == api_version:
            raise status.bad_request(f"{said}: {given_kind} is another kind than {kind}")
        raise status.bad_request(f'{said}: no kind "{given_kind}" is registered for version "{given_version}" here')
    rest = {key: inner for key, inner in value.items() if key not in ("apiVersion", "kind")}
    return {"apiVersion": api_version, "kind": kind, **rest}


def check_shape(obj: Object, kind: str, api_version: str, schema: Schema) -> bool:
    """That maps are maps, and numbers numbers. Raises 400. -> whether every field is known to be one of its type"""
    version = api_version.rpartition("/")[2]
    metadata = obj.get("metadata")
    if metadata is None:
        obj["metadata"] = {}
    elif not isinstance(metadata, dict):
        raise status.unfit(kind, version, "metadata: has to be an object")
    for name in _META:
        if not isinstance(obj["metadata"].get(name, ""), str | None):
            raise status.unfit(kind, version, f"metadata.{name}: has to be text")
    if fits(obj, schema):
        return True
    for fault in misfits(obj, schema):
        raise status.unfit(kind, version, fault)
    return False


def told_unknown(
    call: Call, unknown: Iterable[str], kind: str, api_version: str, validation: str, duplicates: list[str]
) -> None:
    """Refuse fields that nobody knows, or warn of them, or let them pass: as the client wishes."""
    if validation == "Ignore":
        return
    faults = [f'unknown field "{name}"' for name in islice(unknown, MOST_FAULTS)]
    faults += duplicates[:MOST_FAULTS]
    if not faults:
        return
    if validation == "Strict":
        raise status.unfit(kind, api_version.rpartition("/")[2], f"strict decoding error: {', '.join(faults)}")
    call.warnings.extend(faults)
