"""What the Go kubelet has written is read, and what is written is what it would have written.

`tests/data/dra` is made by upstream's own code."""

from pathlib import Path

import pytest

from pykubelet.base.errors import Invalid
from pykubelet.pod.claims.checkpoint import read, written
from pykubelet.pod.claims.table import HeldClaim, PreparedDevice

DATA = Path(__file__).parents[3] / "data" / "dra"
GPU, NET = "gpu.example.com", "net.example.com"
PREPARED = [
    HeldClaim(
        namespace="default",
        name="one",
        uid="uid-1",
        pods=frozenset({"pod-1", "pod-2"}),
        drivers={
            GPU: (
                PreparedDevice("node-1", "gpu-0", ("big", "small"), ("example.com/gpu=0", "example.com/gpu=common")),
                PreparedDevice("node-1", "gpu-1"),
            ),
            NET: (PreparedDevice("node-1", "eth<&>\u2028é", ("nic",)),),
        },
    ),
    HeldClaim(
        namespace="other",
        name="web-claim-x7f2p",
        uid="uid-2",
        pods=frozenset({"pod-3"}),
        drivers={GPU: (PreparedDevice("p", "d", ("r",), ("example.com/gpu=2",)),)},
    ),
]


def test_what_the_go_kubelet_has_written() -> None:
    assert read((DATA / "empty.json").read_bytes()) == []
    (begun,) = read((DATA / "begun.json").read_bytes())
    assert begun.drivers == {GPU: ()}  # the agent went before the driver had answered
    assert begun.pods == {"pod-1"}
    assert read((DATA / "prepared.json").read_bytes()) == PREPARED


def test_what_is_written_is_the_same() -> None:
    begun = (DATA / "begun.json").read_bytes()
    assert written(read(begun)) == begun
    assert read(written(PREPARED)) == PREPARED


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text[:-40],
        lambda text: text.replace(b"gpu-0", b"gpu-9"),
        lambda text: b"",
        lambda text: b'{"Data":"{}","Checksum":2745614147}',
        lambda text: b"[1]",
        lambda text: b"\xff\xfe",
    ],
)
def test_a_spoilt_file_is_known(change: object) -> None:
    assert callable(change)
    with pytest.raises(Invalid):
        read(change((DATA / "prepared.json").read_bytes()))
