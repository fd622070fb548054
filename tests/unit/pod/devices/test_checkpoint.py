"""What the Go kubelet has written is read, and what is written is what it would have written."""

import pytest

from pykubelet.base.errors import Invalid
from pykubelet.pod.devices.allocations import Allocation, Holder
from pykubelet.pod.devices.checkpoint import Remembered, read, written

FROM_UPSTREAM = (
    b'{"Data":{"PodDeviceEntries":[{"PodUID":"u1","ContainerName":"c","ResourceName":"example.com/a","DeviceIDs":'
    b'{"-1":["d1","d\\"2"],"0":["x"],"10":["y"],"2":["z"]},"AllocResp":"CgD/"},{"PodUID":"u2","ContainerName":"d",'
    b'"ResourceName":"r","DeviceIDs":{},"AllocResp":""}],"RegisteredDevices":{"a":[],"example.com/b":["2","1"]}},'
    b'"Checksum":2208996327}'
)
HELD = {
    Holder("u1", "c", "example.com/a"): Allocation({-1: ("d1", 'd"2'), 0: ("x",), 10: ("y",), 2: ("z",)}, b"\n\0\xff"),
    Holder("u2", "d", "r"): Allocation({}, b""),
}


def test_what_the_go_kubelet_has_written() -> None:
    found = read(FROM_UPSTREAM)
    assert found == Remembered(HELD, {"a": (), "example.com/b": ("2", "1")})
    assert read(b'{"Data":{"PodDeviceEntries":[],"RegisteredDevices":{}},"Checksum":2932075448}') == Remembered({}, {})


def test_what_is_written_is_read_again_and_has_the_checksum_of_the_go_kubelet() -> None:
    text = written(Remembered(HELD, {"a": (), "example.com/b": ("2", "1")}))
    assert text.endswith(b'"Checksum":478282463}')  # of the same data with its devices in order, by upstream's code
    assert read(text).held == HELD


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"{}",
        b"null",
        FROM_UPSTREAM[:-40],
        FROM_UPSTREAM.replace(b'"u1"', b'"u3"'),
        FROM_UPSTREAM.replace(b"CgD/", b"!!!!"),
        FROM_UPSTREAM.replace(b'"0":', b'"zero":'),
    ],
)
def test_what_was_spoilt_is_refused(text: bytes) -> None:
    with pytest.raises(Invalid):
        read(text)
