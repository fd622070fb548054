import gc
import json
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from kit.pods import PodList
from pykubelet.api import codec
from pykubelet.api.codec import DecodeError
from pykubelet.api.meta import ObjectMeta
from pykubelet.api.node import Node
from pykubelet.api.objects import Lease, LeaseSpec, Secret
from pykubelet.api.pod import Pod
from pykubelet.api.struct import MicroTime, rfc3339, rfc3339_nano


def pod_of(**spec: Any) -> Pod:
    return codec.convert(Pod, {"spec": spec})


# --- faults and their places


@pytest.mark.parametrize(
    ("value", "field", "reason"),
    [
        ({"metadata": {"name": 5}}, "metadata.name", "expected str, got int"),
        ({"spec": {"containers": [{}, {"name": []}]}}, "spec.containers[1].name", "expected str, got array"),
        ({"spec": {"containers": {}}}, "spec.containers", "expected array, got object"),
        ({"spec": {"priority": "high"}}, "spec.priority", "expected int"),
        ({"spec": {"priority": 2**31}}, "spec.priority", "expected int <= 2147483647"),
        ({"spec": {"priority": 1.5}}, "spec.priority", "expected int"),
        ({"spec": {"hostNetwork": "yes"}}, "spec.hostNetwork", "expected bool"),
        ({"spec": {"hostNetwork": 1}}, "spec.hostNetwork", "expected bool"),
        ({"metadata": {"labels": {"a": True}}}, "metadata.labels[]", "expected str, got bool"),
        ({"spec": {"overhead": {"cpu": "lots"}}}, "spec.overhead[]", "'lots' is not a quantity"),
        ({"spec": {"overhead": {"cpu": True}}}, "spec.overhead[]", "a quantity is text or a number"),
        ({"status": {"startTime": "yesterday"}}, "status.startTime", "invalid RFC3339"),
        ({"status": {"startTime": "2024-01-01T00:00:00"}}, "status.startTime", "timezone"),
    ],
)
def test_a_fault_names_its_field_the_same_way_for_json_and_for_plain_values(
    value: object, field: str, reason: str
) -> None:
    for from_json in (True, False):
        with pytest.raises(DecodeError) as refused:
            codec.decode(Pod, json.dumps(value)) if from_json else codec.convert(Pod, value)
        assert refused.value.field == field
        assert reason in refused.value.reason
        assert "`" not in str(refused.value)
        assert str(refused.value) == f"{field}: {refused.value.reason}"


@pytest.mark.parametrize(
    "data",
    [b"", b" ", b"{", b'{"a":}', b"{]", b"nope", b'{"a":1,}', b"{'a': 1}", b'{"a":1} {"b":2}', b'{"a":NaN}', b"\xff",
     b'{"metadata":{"name":"\xff"}}', b'{"metadata":{"name":"\\ud800"}}', '{"metadata":{"name":"\ud800"}}', b"\x00",
     b'{"metadata":{"name":"a\nb"}}'],
)  # fmt: skip
def test_text_that_is_not_json_has_no_field_but_a_reason(data: bytes | str) -> None:
    for read in (codec.decode_any, lambda data: codec.decode(Pod, data)):
        with pytest.raises(DecodeError, match=r"is not JSON|is not UTF-8") as refused:
            read(data)
        assert refused.value.field == ""


@pytest.mark.parametrize("value", [None, [], "text", 5, True])
def test_what_is_no_object_is_refused(value: object) -> None:
    with pytest.raises(DecodeError, match="expected object"):
        codec.decode(Pod, json.dumps(value))
    with pytest.raises(DecodeError, match="expected object"):
        codec.convert(Pod, value)


@pytest.mark.parametrize("depth", [600, 990, 1100, 100_000])
@pytest.mark.parametrize("inner", ["null", "1"])
def test_deep_nesting_is_refused_or_ignored_but_never_breaks(depth: int, inner: str) -> None:
    unknown = '"x":' + '{"a":[' * (depth // 2) + inner + "]}" * (depth // 2)
    where = ('{"metadata":{"name":null},', "}"), ('{"metadata":{"managedFields":[{"fieldsV1":{', "}}]}}")
    for before, after in where:
        # Which of both it is depends on how much room the stack has.
        with suppress(DecodeError):
            codec.decode(Pod, before + unknown + after)


@pytest.mark.parametrize("inner", ["null", "1"])
def test_nesting_beyond_all_reason_is_refused_as_such(inner: str) -> None:
    with pytest.raises(DecodeError, match="is nested too deeply"):
        codec.decode(Pod, '{"x":' + "[" * 100_000 + inner + "]" * 100_000 + "}")


def test_plain_values_may_not_be_nested_without_end() -> None:
    endless: dict[str, Any] = {}
    endless["x"] = endless
    with pytest.raises(DecodeError, match="nested too deeply"):
        codec.convert(Pod, {"metadata": {"name": None, "managedFields": [{"fieldsV1": endless}]}})


# --- null and unknown


def test_null_means_absent_at_every_depth() -> None:
    given = {
        "metadata": {"name": "a", "labels": None, "annotations": {"gone": None, "kept": "x"}, "uid": None},
        "spec": {"containers": [{"name": "c", "image": None, "env": None, "resources": None, "tty": None}]},
        "status": None,
    }
    expected = codec.convert(
        Pod, {"metadata": {"name": "a", "annotations": {"kept": "x"}}, "spec": {"containers": [{"name": "c"}]}}
    )
    assert codec.decode(Pod, json.dumps(given)) == expected
    assert codec.convert(Pod, given) == expected


def test_a_fault_beside_a_null_is_still_found() -> None:
    with pytest.raises(DecodeError) as refused:
        codec.decode(Pod, b'{"metadata":{"name":null},"spec":{"containers":[{"name":"a"},{"name":7}]}}')
    assert refused.value.field == "spec.containers[1].name"


def test_a_null_in_a_list_is_refused_with_its_place() -> None:
    with pytest.raises(DecodeError) as refused:
        codec.decode(Pod, b'{"spec":{"containers":[{"name":"a"},null]}}')
    assert refused.value.field == "spec.containers[1]"


def test_unknown_fields_are_ignored() -> None:
    data = b'{"spec":{"containers":[{"name":"a","fromTheFuture":{"x":[1,{"y":null}]}}],"more":1},"evenMore":[]}'
    assert codec.decode(Pod, data) == pod_of(containers=[{"name": "a"}])


def test_field_names_are_case_sensitive() -> None:
    assert codec.decode(Pod, b'{"spec":{"NodeName":"n"}}') == Pod()


def test_the_last_of_two_equal_keys_wins_on_the_wire() -> None:
    assert codec.decode(Pod, b'{"kind":"a","kind":"b"}').kind == "b"


# --- times


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2024-02-29T12:30:45Z", datetime(2024, 2, 29, 12, 30, 45, tzinfo=UTC)),
        ("2024-02-29T12:30:45+02:00", datetime(2024, 2, 29, 10, 30, 45, tzinfo=UTC)),
        ("2024-02-29T12:30:45-05:30", datetime(2024, 2, 29, 18, 0, 45, tzinfo=UTC)),
        ("2024-02-29T12:30:45.5Z", datetime(2024, 2, 29, 12, 30, 45, 500_000, tzinfo=UTC)),
        ("2024-02-29T12:30:45.123456Z", datetime(2024, 2, 29, 12, 30, 45, 123_456, tzinfo=UTC)),
    ],
)
def test_times_are_read_with_any_offset_and_fraction(text: str, moment: datetime) -> None:
    assert codec.convert(ObjectMeta, {"creationTimestamp": text}).creation_timestamp == moment
    assert codec.convert(LeaseSpec, {"renewTime": text}).renew_time == moment


def test_nanoseconds_are_read_as_near_as_can_be_held() -> None:
    text = "2024-02-29T12:30:45.123456789Z"
    moment = datetime(2024, 2, 29, 12, 30, 45, 123_456, tzinfo=UTC)
    for read in (
        codec.convert(ObjectMeta, {"creationTimestamp": text}).creation_timestamp,
        codec.convert(LeaseSpec, {"renewTime": text}).renew_time,
    ):
        assert read is not None
        assert abs(read - moment) <= timedelta(microseconds=1)


def test_a_whole_second_is_written_without_a_fraction() -> None:
    meta = ObjectMeta(creation_timestamp=datetime(2024, 2, 29, 12, 30, 45, tzinfo=UTC))
    assert codec.to_builtins(meta) == {"creationTimestamp": "2024-02-29T12:30:45Z"}


@pytest.mark.parametrize(
    ("given", "written"),
    [
        ("2024-02-29T12:30:45Z", "2024-02-29T12:30:45.000000Z"),
        ("2024-02-29T12:30:45.5Z", "2024-02-29T12:30:45.500000Z"),
        ("2024-02-29T12:30:45.000001+02:00", "2024-02-29T10:30:45.000001Z"),
        ("2024-02-29T12:30:45.123456789Z", "2024-02-29T12:30:45.123456Z"),
        ("0001-01-01T00:00:00Z", "0001-01-01T00:00:00.000000Z"),
        ("9999-12-31T23:59:59.999999Z", "9999-12-31T23:59:59.999999Z"),
    ],
)
def test_a_micro_time_is_written_in_utc_with_six_digits(given: str, written: str) -> None:
    lease = codec.convert(Lease, {"spec": {"renewTime": given}})
    assert codec.to_builtins(lease)["spec"] == {"renewTime": written}
    assert codec.decode(Lease, codec.encode(lease)) == lease


@pytest.mark.parametrize(
    "value", ["", "now", "2024-13-01T00:00:00Z", "2024-01-01T00:00:00", "0001-01-01T00:00:00+14:00", 5, [], True]
)
def test_what_is_no_micro_time_is_refused_with_its_place(value: object) -> None:
    with pytest.raises(DecodeError) as refused:
        codec.decode(Lease, json.dumps({"spec": {"renewTime": value}}))
    assert refused.value.field == "spec.renewTime"


def test_a_micro_time_keeps_the_moment() -> None:
    moment = datetime(2500, 1, 1, 23, 59, 59, 999_999, tzinfo=UTC)
    assert MicroTime.of(moment) == moment


def test_times_for_annotations_have_whole_seconds_or_nine_digits() -> None:
    moment = datetime(2024, 2, 29, 12, 30, 45, 123, tzinfo=UTC)
    assert rfc3339(moment) == "2024-02-29T12:30:45Z"
    assert rfc3339_nano(moment) == "2024-02-29T12:30:45.000123000Z"


# --- other scalars


@pytest.mark.parametrize("port", [0, 8080, "http", "8080", ""])
def test_a_port_may_be_a_number_or_a_name_and_stays_what_it_was(port: int | str) -> None:
    pod = pod_of(containers=[{"name": "c", "livenessProbe": {"httpGet": {"port": port}}}])
    again = codec.to_builtins(pod)["spec"]["containers"][0]["livenessProbe"]["httpGet"]["port"]
    assert (again, type(again)) == (port, type(port))


@pytest.mark.parametrize("port", [1.5, True, [], {}, 2**31])
def test_a_port_is_nothing_else(port: object) -> None:
    with pytest.raises(DecodeError) as refused:
        pod_of(containers=[{"name": "c", "livenessProbe": {"httpGet": {"port": port}}}])
    assert refused.value.field == "spec.containers[0].livenessProbe.httpGet.port"


@pytest.mark.parametrize(("given", "written"), [(2, "2"), (0.5, "500m"), (0, "0"), ("1Gi", "1Gi")])
def test_a_quantity_may_be_written_as_a_number(given: object, written: str) -> None:
    assert codec.to_builtins(pod_of(overhead={"cpu": given}))["spec"]["overhead"] == {"cpu": written}


@pytest.mark.parametrize("number", [float("inf"), float("nan"), 10**5000], ids=["inf", "nan", "huge"])
def test_a_number_beyond_all_bounds_is_no_quantity(number: float) -> None:
    with pytest.raises(DecodeError) as refused:
        pod_of(overhead={"cpu": number})
    assert refused.value.field == "spec.overhead[]"


def test_secret_data_is_base64_on_the_wire_and_bytes_in_memory() -> None:
    secret = codec.decode(Secret, b'{"data":{"a":"AAH/","empty":""},"stringData":{"plain":"AAH/"}}')
    assert secret.data == {"a": b"\x00\x01\xff", "empty": b""}
    assert secret.string_data == {"plain": "AAH/"}
    assert codec.to_builtins(secret)["data"] == {"a": "AAH/", "empty": ""}


@pytest.mark.parametrize("text", ["!!", "AAH", "AAH/=", "A A="])
def test_what_is_not_base64_is_refused(text: str) -> None:
    with pytest.raises(DecodeError, match="base64") as refused:
        codec.decode(Secret, json.dumps({"data": {"key": text}}))
    assert refused.value.field == "data[]"


def test_fields_that_kubernetes_always_writes_are_written_when_empty() -> None:
    assert codec.to_builtins(Pod()) == {"metadata": {}, "spec": {"containers": []}, "status": {}}
    assert codec.to_builtins(Node())["status"]["daemonEndpoints"] == {"kubeletEndpoint": {"Port": 0}}
    assert codec.to_builtins(PodList()) == {"metadata": {}, "items": []}


def test_a_type_that_has_no_wire_form_is_a_programming_error() -> None:
    with pytest.raises(NotImplementedError, match="no encoder"):
        codec.encode(object())


# --- size


@pytest.mark.timeout(20)
def test_a_big_list_is_read_whole_and_the_collector_runs_again_afterwards() -> None:
    item = {"metadata": {"name": "p", "labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    data = json.dumps({"items": [item] * 20_000})
    assert len(data) > 1 << 20
    assert gc.isenabled()
    pods = codec.decode(PodList, data)
    assert len(pods.items) == 20_000
    assert gc.isenabled()
    with pytest.raises(DecodeError):
        codec.decode(PodList, data + "}")
    assert gc.isenabled()


def test_the_collector_stays_off_where_it_was_off() -> None:
    gc.disable()
    try:
        codec.decode(Pod, b'{"metadata":{"name":"' + b"a" * (1 << 20) + b'"}}')
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_a_part_of_a_message_that_was_put_aside_is_decoded_later() -> None:
    class Envelope(msgspec.Struct):
        object: msgspec.Raw

    envelope = msgspec.json.decode(b'{"object":{"metadata":{"name":"a"}}}', type=Envelope)
    assert codec.decode(Pod, envelope.object).metadata.name == "a"
    assert codec.decode_any(envelope.object) == {"metadata": {"name": "a"}}
