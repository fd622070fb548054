"""Who uses which claim, what it was prepared as, and when nobody does any more."""

import pytest

from kit.dra_driver import DRIVER, claim
from pykubelet.pod.claims.failures import ClaimFailed
from pykubelet.pod.claims.table import ClaimKey, ClaimTable, PreparedDevice
from pykubelet.pod.claims.wanted import ClaimUse

ONE = ClaimKey("default", "one")


@pytest.mark.parametrize(
    ("requests", "asked", "is_served"),
    [
        ((), "gpu", True),
        (("gpu",), "", True),
        (("gpu",), "gpu", True),
        (("gpu/small",), "gpu", True),
        (("nic", "gpu"), "gpu", True),
        (("gpus",), "gpu", False),
        (("nic/gpu",), "gpu", False),
    ],
)
def test_which_request_a_device_is_for(requests: tuple[str, ...], asked: str, is_served: bool) -> None:
    assert PreparedDevice("pool", "d", requests).serves(asked) is is_served


def test_a_claim_stays_until_the_last_pod_has_left() -> None:
    table = ClaimTable()
    table.hold(claim("one", "a", "b"), "a")
    held = table.hold(claim("one", "a", "b"), "b")
    assert held.pods == {"a", "b"}
    assert held.drivers == {DRIVER: ()}
    assert not held.is_prepared
    table.prepared(ONE, {DRIVER: (PreparedDevice("pool", "gpu-0", ("gpu",), ("v/c=0",)),)})
    assert table.hold(claim("one", "a", "b"), "b").is_prepared
    assert [driver for driver, _ in table.devices("default", ClaimUse("one", "gpu"))] == [DRIVER]
    assert list(table.devices("default", ClaimUse("one", "other"))) == []
    assert table.in_use() == {"<any>": 1, DRIVER: 1}
    assert table.users(DRIVER, [("pool", "gpu-0")]) == {"a", "b"}
    assert table.users(DRIVER, [("pool", "gpu-1")]) == table.users("x", [("pool", "gpu-0")]) == frozenset()
    table.release(ONE, "a")
    assert [each.key for each in table.of("b")] == [ONE]
    assert table.of("a") == []
    table.release(ONE, "b")
    table.release(ONE, "b")
    assert table.held == {}
    assert table.in_use() == {"<any>": 0}


def test_what_is_prepared_again_takes_the_place_of_what_was() -> None:
    table, device = ClaimTable(), PreparedDevice("pool", "gpu-0")
    table.hold(claim("one", "a"), "a")
    for _ in range(2):
        table.prepared(ONE, {DRIVER: (device,)})
    assert table.held[ONE].drivers == {DRIVER: (device,)}


def test_a_name_that_belongs_to_another_claim_by_now_is_refused() -> None:
    table = ClaimTable()
    table.hold(claim("one", "a", uid="old"), "a")
    with pytest.raises(ClaimFailed, match="different UID old still exists"):
        table.hold(claim("one", "b", uid="new"), "b")
    with pytest.raises(ClaimFailed, match="unable to get information for ResourceClaim two"):
        list(table.devices("default", ClaimUse("two")))
