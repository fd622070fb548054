"""An answer as the bytes that go to the client: in the form that it asked for, with what it is told besides."""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final

import msgspec

from pykubelet.apiserver.backend import LIGHT, Backend
from pykubelet.apiserver.objects import Object, encode
from pykubelet.apiserver.requests.calls import Answer, Call
from pykubelet.apiserver.requests.media_types import JSON, PROTOBUF, YAML
from pykubelet.apiserver.schema.protobuf_writing import to_protobuf
from pykubelet.apiserver.status import ApiError
from pykubelet.apiserver.tables.tables import partial_metadata, table, wanted_objects
from pykubelet.apiserver.verbs.kind_warnings import DEPRECATED, kind_warnings
from pykubelet.apiserver.verbs.pod_warnings import pod_warnings
from pykubelet.apiserver.verbs.unheeded import unheeded
from pykubelet.apiserver.verbs.workload_warnings import workload_warnings
from pykubelet.base.errors import Invalid

MOST_YAML: Final = 3 << 20
"""Bytes, as JSON, of what is written as YAML: that takes a hundred times as long as to read it."""
_WRITES: Final = ("create", "patch", "update")
_LONGEST_WARNINGS: Final = 4096
_LONGEST_WARNING: Final = 256
_MOST_WARNINGS: Final = 100


class Payload(msgspec.Struct, frozen=True):
    code: int
    body: bytes
    headers: list[tuple[str, str]]


def payload_weight(call: Call, answer: Answer) -> int:
    """How many bytes have to be worked on to make it."""
    if call.accept.media in (YAML, PROTOBUF):
        return LIGHT + 1 if call.accept.media == YAML else len(answer.data or b"")
    return len(answer.data or b"") if call.is_for_people else 0


def payload(backend: Backend, call: Call, answer: Answer) -> Payload:
    headers = [("Cache-Control", "no-cache, private"), ("Content-Type", call.accept.media)]
    headers += warning_headers(_warnings(call, answer))
    if answer.data is not None and call.accept.media == JSON and not call.is_for_people:
        return Payload(answer.code, _ended(answer.data), headers)
    obj = answer.obj if answer.obj is not None else msgspec.json.decode(answer.data or b"{}")
    obj = _transformed(backend, call, obj)
    if call.accept.media == PROTOBUF:
        try:
            return Payload(answer.code, to_protobuf(obj), headers)
        except Invalid as error:
            raise ApiError(406, "NotAcceptable", str(error)) from None
    body = encode(obj)
    if call.accept.media == YAML:
        if len(body) > MOST_YAML:
            raise ApiError(406, "NotAcceptable", f"{len(body)} bytes are too many to be written as YAML: ask for JSON")
        body = msgspec.yaml.encode(obj)
    elif call.is_for_people:
        body = msgspec.json.format(body, indent=2)
    return Payload(answer.code, _ended(body), headers)


def _ended(body: bytes) -> bytes:
    """As a line of text, which it is for people and for programs that read lines."""
    return body if body.endswith(b"\n") else body + b"\n"


def _warnings(call: Call, answer: Answer) -> Iterator[str]:
    """What whoever asks should know of the kind, and whoever wrote an object of that."""
    info, obj = call.info, answer.obj
    if call.resource.deprecation:
        yield call.resource.deprecation
    yield from call.warnings
    resource = f"{info.resource}.{info.group}" if info.group else info.resource
    if resource in DEPRECATED:
        yield DEPRECATED[resource]
    if info.verb not in _WRITES or obj is None or obj.get("kind") != call.resource.kind:
        return
    yield from unheeded(resource, info.subresource, obj)
    if resource == "pods" and answer.code == 201 and not info.subresource:
        yield from islice(pod_warnings(obj), _MOST_WARNINGS)
    if answer.code == 201 and not info.subresource:
        yield from islice(workload_warnings(resource, obj), _MOST_WARNINGS)
        yield from kind_warnings(resource, obj)


def _transformed(backend: Backend, call: Call, obj: Object) -> Object:
    accept, kind = call.accept, obj.get("kind", "")
    if accept.transform == "Table" and kind == f"{call.resource.kind}List":
        include = wanted_objects(call.query)
        return table(call.resource, obj["items"], obj["metadata"], accept.version, include, backend.now())
    if not accept.transform or kind != call.resource.kind:
        return obj
    if accept.transform == "Table":
        metadata = {"resourceVersion": obj["metadata"].get("resourceVersion", "")}
        return table(call.resource, [obj], metadata, accept.version, wanted_objects(call.query), backend.now())
    return partial_metadata(obj, accept.version)


def warning_headers(warnings: Iterable[str]) -> list[tuple[str, str]]:
    """Each said once."""
    told = dict.fromkeys(warnings)
    return [("Warning", f'299 - "{_quoted(text)}"') for text in _shortened(told)] if told else []


def _shortened(warnings: Iterable[str]) -> list[str]:
    """As many as clients are told: they come in the head of the answer, which has limits of its own."""
    every = list(warnings)
    if sum(map(len, every)) <= _LONGEST_WARNINGS:
        return every
    told, left = [], _LONGEST_WARNINGS
    for text in every:
        left -= min(len(text), _LONGEST_WARNING)
        if left < 0:
            break
        told.append(text[:_LONGEST_WARNING])
    return told


def _quoted(text: str) -> str:
    plain = "".join(each if " " <= each <= "~" else "?" for each in text)
    return plain.replace("\\", "\\\\").replace('"', '\\"')
