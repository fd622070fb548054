"""The doors through which text from outside comes in. Whatever it is, only their own errors may come out, and soon."""

import json
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any, Final, TypeVar

import yaml
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from kit.pods import PodList
from pykubelet.api import codec
from pykubelet.api.codec import DecodeError
from pykubelet.api.defaults import default_pod
from pykubelet.api.documents import Document, DocumentError, read_documents
from pykubelet.api.image import parse_image
from pykubelet.api.node import Node
from pykubelet.api.objects import Event, Lease, Secret
from pykubelet.api.pod import Pod

T = TypeVar("T")

KINDS: Final = (Pod, PodList, Node, Secret, Lease, Event)
MANIFEST: Final[dict[str, Any]] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "web", "labels": {"app": "web"}, "creationTimestamp": "2024-01-01T00:00:00Z"},
    "spec": {
        "hostNetwork": False,
        "terminationGracePeriodSeconds": 0,
        "containers": [
            {
                "name": "main",
                "image": "registry:5000/web:1.2",
                "command": ["sh", "-c", "echo $(A)"],
                "env": [{"name": "A", "value": "b"}, {"name": "F", "valueFrom": {"fieldRef": {"fieldPath": "x"}}}],
                "ports": [{"containerPort": 80, "hostPort": 0}],
                "resources": {"limits": {"cpu": "250m", "memory": "1Gi"}, "requests": {"cpu": 0.1}},
                "livenessProbe": {"httpGet": {"port": "http", "path": "/"}, "periodSeconds": 5},
            }
        ],
        "volumes": [{"name": "v", "emptyDir": {"sizeLimit": "1Gi"}}, {"name": "s", "secret": {"secretName": "x"}}],
        "tolerations": [{"operator": "Exists", "tolerationSeconds": 30}],
    },
    "status": {"phase": "Pending", "startTime": None},
}
SPELLINGS: Final = (json.dumps(MANIFEST).encode(), yaml.safe_dump(MANIFEST).encode())
SCRAPS: Final = (
    b"\x00", b"\xff", b"\xef\xbb\xbf", b"\t", b"\n", b"\r", b"---\n", b"...", b"&a ", b"*a", b"<<: ", b"!!str ", b"!x ",
    b"{", b"}", b"[", b"]", b":", b": ", b"- ", b"? ", b",", b'"', b"'", b"|", b">", b"#", b"%", b"@", b"null",
    b"1e999", b"0x", b"NaN", b"\\ud800", b"\\u0000", b"\xf0\x9f\x98\x80", b"9" * 500, b"a", b"1", b" ", b"  ",
)  # fmt: skip

soon = settings(max_examples=150, deadline=timedelta(seconds=1), derandomize=True,
                suppress_health_check=[HealthCheck.too_slow])  # fmt: skip

scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=20),
    st.sampled_from(
        ["1Gi", "250m", "2024-01-01T00:00:00Z", "0001-01-01T00:00:00+14:00", "AAH/", "busybox", "1e999999"]
    ),
)
field_names = st.sampled_from(
    ["metadata", "spec", "status", "name", "items", "containers", "image", "resources", "limits", "cpu", "env", "ports",
     "hostPort", "data", "labels", "annotations", "creationTimestamp", "renewTime", "eventTime", "volumes", "httpGet",
     "port", "livenessProbe", "managedFields", "fieldsV1", "hostNetwork", "priority"]
)  # fmt: skip
keys = st.one_of(field_names, st.text(max_size=5))
values = st.recursive(scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(keys, inner, max_size=4))


@st.composite
def mutations(draw: st.DrawFn) -> bytes:
    """A manifest with some pieces cut out, doubled or replaced by something nasty."""
    data = draw(st.sampled_from(SPELLINGS))
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(data)))
        end = min(len(data), start + draw(st.integers(0, 40)))
        piece = draw(st.one_of(st.sampled_from(SCRAPS), st.binary(max_size=4), st.just(data[start:end] * 2)))
        data = data[:start] + piece + data[end:]
    return data


def outcome(attempt: Callable[[], T], expected: type[Exception]) -> T | Exception:
    """What came of an attempt, or the error that is allowed to come of it."""
    try:
        return attempt()
    except expected as error:
        return error


def read_all(data: bytes) -> list[Document]:
    documents = outcome(lambda: read_documents(data), DocumentError)
    if isinstance(documents, Exception):
        assert str(documents)
        return []
    return documents


def follow(value: object) -> None:
    """A plain value through everything that may happen to it before it counts as a pod."""
    for kind in KINDS:
        typed = outcome(partial(codec.convert, kind, value), DecodeError)
        if isinstance(typed, Exception):
            assert str(typed)
            continue
        assert codec.convert(kind, codec.to_builtins(typed)) == typed
        if isinstance(typed, Pod):
            codec.encode_canonical(default_pod(typed))


@soon
@given(st.binary(max_size=300))
@example(b"\xef\xbb\xbf\xef\xbb\xbf")
@example(b'{"a": "\\ud800"}')
@example(b"a: \xc2\x85")
def test_any_bytes_are_documents_or_a_document_error(data: bytes) -> None:
    for document in read_all(data):
        follow(document.value)


@soon
@given(st.text(max_size=200))
def test_any_text_is_documents_or_a_document_error(text: str) -> None:
    for document in read_all(text.encode(errors="surrogatepass")):
        follow(document.value)


@soon
@given(st.lists(st.sampled_from(SCRAPS), max_size=40).map(b"".join))
def test_any_heap_of_yaml_pieces_is_documents_or_a_document_error(data: bytes) -> None:
    for document in read_all(data):
        follow(document.value)


@soon
@given(mutations())
def test_a_damaged_manifest_is_read_or_refused_with_a_reason(data: bytes) -> None:
    for document in read_all(data):
        assert document.place("spec.containers[0].image") is None or min(document.place("spec") or (0,)) > 0
        follow(document.value)


@soon
@given(mutations())
def test_damaged_json_is_decoded_or_refused_with_a_reason(data: bytes) -> None:
    for kind in KINDS:
        assert str(outcome(partial(codec.decode, kind, data), DecodeError))


@soon
@given(st.dictionaries(keys, values, max_size=4))
def test_any_plain_value_is_converted_or_refused_with_a_reason(value: dict[str, Any]) -> None:
    follow(value)


@soon
@given(st.dictionaries(keys, values, max_size=4))
def test_json_and_plain_values_are_judged_alike(value: dict[str, Any]) -> None:
    data = json.dumps(value, allow_nan=True).encode(errors="surrogatepass")
    plain = outcome(lambda: codec.decode_any(data), DecodeError)
    if isinstance(plain, Exception):
        return
    for kind in KINDS:
        one = outcome(partial(codec.decode, kind, data), DecodeError)
        other = outcome(partial(codec.convert, kind, plain), DecodeError)
        if isinstance(one, DecodeError) and isinstance(other, DecodeError):
            assert one.field == other.field
        else:
            assert one == other


@soon
@given(st.text(max_size=100))
def test_any_text_is_an_image_name_or_a_value_error(text: str) -> None:
    name = outcome(lambda: parse_image(text), ValueError)
    assert str(name)
    if not isinstance(name, Exception):
        assert parse_image(str(name)).repository == name.repository


def test_the_undamaged_manifest_is_read_alike_from_json_and_yaml() -> None:
    (from_json,), (from_yaml,) = map(read_documents, SPELLINGS)
    assert codec.convert(Pod, from_json.value) == codec.convert(Pod, from_yaml.value)
