"""Objects in protobuf, as Go clients send them."""

from typing import Any

import pytest

from pykubelet.apiserver.schema.protobuf import from_protobuf
from pykubelet.base.errors import Invalid


def varint(value: int) -> bytes:
    value &= (1 << 64) - 1
    out = b""
    while value > 0x7F:
        out += bytes([value & 0x7F | 0x80])
        value >>= 7
    return out + bytes([value])


def member(number: int, value: int | bytes | str) -> bytes:
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data


def envelope(api_version: str, kind: str, raw: bytes) -> bytes:
    return b"k8s\x00" + member(1, member(1, api_version) + member(2, kind)) + member(2, raw)


META = member(1, member(1, "x") + member(2, "") + member(3, "ns") + member(8, b""))


def test_maps_bytes_and_flags() -> None:
    pairs = member(2, member(1, "a") + member(2, "b")) + member(3, member(1, "raw") + member(2, b"\xff"))
    assert from_protobuf(envelope("v1", "ConfigMap", META + pairs + member(4, 0))) == {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "x", "namespace": "ns"},
        "data": {"a": "b"},
        "binaryData": {"raw": "/w=="},
        "immutable": False,
    }


def test_parts_that_json_has_among_the_rest_are_put_there() -> None:
    volume = member(1, "v") + member(2, member(2, member(1, "Memory") + member(2, member(1, "64Mi"))))
    http = member(1, "/ok") + member(2, member(1, 0) + member(2, 8080) + member(3, ""))
    probe = member(1, member(2, http)) + member(2, 0) + member(3, 5)
    container = member(1, "c") + member(2, "image") + member(10, probe)
    spec = member(1, volume) + member(2, container) + member(4, 2**64 - 1)
    found = from_protobuf(envelope("v1", "Pod", META + member(2, spec)))["spec"]
    assert found["volumes"] == [{"name": "v", "emptyDir": {"medium": "Memory", "sizeLimit": "64Mi"}}]
    liveness = found["containers"][0]["livenessProbe"]
    assert liveness == {"httpGet": {"path": "/ok", "port": 8080}, "timeoutSeconds": 5}
    assert found["terminationGracePeriodSeconds"] == -1


def test_times_are_written_as_json_has_them() -> None:
    time = member(1, 1_700_000_000) + member(2, 123_456_000)
    spec = member(1, "me") + member(2, 40) + member(4, time)
    lease = from_protobuf(envelope("coordination.k8s.io/v1", "Lease", META + member(2, spec)))
    assert lease["spec"] == {
        "holderIdentity": "me",
        "leaseDurationSeconds": 40,
        "renewTime": "2023-11-14T22:13:20.123456Z",
    }


def test_lists_in_maps() -> None:
    extra = member(4, member(1, "k") + member(2, member(1, "a") + member(1, "b")))
    review = envelope("authentication.k8s.io/v1", "TokenReview", member(3, member(2, extra)))
    assert from_protobuf(review)["status"]["user"]["extra"] == {"k": ["a", "b"]}


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{}",
        b"k8s\x00\x0a\xff",
        b"k8s\x00" + b"\xff" * 20,
        envelope("example.com/v1", "Widget", b""),
        envelope("v1", "Pod", b"\x0b"),
        envelope("v1", "Pod", b"\x0b\x0c"),
        envelope("v1", "Pod", b"\x0d\x00\x00\x00\x00"),
        envelope("v1", "Pod", member(2, member(4, b"30"))),
        envelope("v1", "ConfigMap", member(1, 5)),
        envelope("v1", "Pod", member(1, member(1, b"\xff\xfe"))),
    ],
)
def test_what_is_no_object_is_refused_with_a_sentence(data: bytes) -> None:
    with pytest.raises(Invalid) as raised:
        from_protobuf(data)
    assert str(raised.value)


def test_numbers_that_nobody_knows_are_passed_over() -> None:
    found: dict[str, Any] = from_protobuf(envelope("v1", "ConfigMap", META + member(99, "new") + member(98, 1)))
    assert set(found) == {"apiVersion", "kind", "metadata"}


def test_more_fields_than_any_object_has_are_refused() -> None:
    envelope = b"\n\x09\n\x02v1\x12\x03Pod"
    raw = b"\x12\x00" * 100_001
    data = (
        b"k8s\x00" + envelope + b"\x12" + bytes([len(raw) & 127 | 128, len(raw) >> 7 & 127 | 128, len(raw) >> 14]) + raw
    )
    with pytest.raises(Invalid, match="more than 100,000 fields"):
        from_protobuf(data)
