"""Which devices are chosen, by rules that nobody has to guess."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykubelet.base.errors import Invalid
from pykubelet.pod.devices.choice import Device, Preference, Wanted, by_node, chosen, preference

DEVICES = {
    "a0": Device("a0", True, (0,)),
    "b0": Device("b0", True, (0,)),
    "c1": Device("c1", True, (1,)),
    "d1": Device("d1", True, (1,)),
    "e01": Device("e01", True, (0, 1)),
    "f": Device("f", True),
}


def wanted(count: int, free: str, *, reusable: str = "", near: set[int] | None = None) -> Wanted:
    return Wanted(
        resource="example.com/x",
        count=count,
        free=frozenset(free.split()),
        reusable=frozenset(reusable.split()),
        devices=DEVICES,
        near=None if near is None else frozenset(near),
    )


@pytest.mark.parametrize(
    ("asked", "preferred", "found"),
    [
        (wanted(1, "a0 b0"), "", "a0"),
        (wanted(1, "a0 b0"), "b0", "b0"),
        (wanted(1, "a0 b0"), "nonsense", "a0"),
        (wanted(2, "a0 c1", reusable="f"), "", "a0 f"),
        (wanted(1, "", reusable="e01 f"), "", "e01"),
        (wanted(1, "a0 c1 d1", near={1}), "", "c1"),
        (wanted(1, "a0 c1 d1", near={1}), "d1", "d1"),
        (wanted(1, "a0 c1 d1", near={1}), "a0", "c1"),  # what is near counts more than what is liked
        (wanted(2, "a0 c1 d1", near={1}), "", "c1 d1"),
        (wanted(3, "a0 b0 c1 d1", near={1}), "b0", "b0 c1 d1"),
        (wanted(3, "a0 c1 d1 f", near={1}), "", "a0 c1 d1"),
        (wanted(1, "a0 e01", near={1}), "", "e01"),
        (wanted(1, "a0 f", near={1}), "", "a0"),
    ],
)
def test_what_is_chosen(asked: Wanted, preferred: str, found: str) -> None:
    assert chosen(asked, preferred.split()) == set(found.split())


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        (wanted(1, "", reusable="f"), None),
        (wanted(2, "a0 c1 d1", near={1}), None),  # all that are near
        (wanted(1, "a0 c1"), Preference(("a0", "c1"), (), 1)),
        (wanted(1, "a0 c1 d1", near={1}), Preference(("c1", "d1"), (), 1)),
        (wanted(3, "a0 b0 c1 d1", near={1}), Preference(("a0", "b0", "c1", "d1"), ("c1", "d1"), 3)),
        (wanted(2, "a0 c1", reusable="f"), Preference(("a0", "c1", "f"), ("f",), 2)),
    ],
)
def test_what_the_plug_in_is_asked(asked: Wanted, told: Preference | None) -> None:
    assert preference(asked) == told


def test_too_few_is_told_with_how_many() -> None:
    with pytest.raises(Invalid, match=r"unavailable for example.com/x. Requested: 2, Available: 1"):
        chosen(wanted(3, "a0", reusable="f"))


_IDS = st.frozensets(st.sampled_from(sorted(DEVICES)))


@given(
    _IDS, _IDS, st.lists(st.sampled_from([*DEVICES, "?"])), st.integers(1, 6), st.sampled_from([None, {0}, {1}, {2}])
)
def test_exactly_as_many_as_wanted_and_nobody_elses(
    free: frozenset[str], reusable: frozenset[str], preferred: list[str], count: int, near: set[int] | None
) -> None:
    asked = wanted(count, " ".join(free - reusable), reusable=" ".join(reusable), near=near)
    try:
        found = chosen(asked, preferred)
    except Invalid:
        assert len(free | reusable) < count
        return
    assert len(found) == count
    assert found <= asked.free | asked.reusable


def test_where_devices_are() -> None:
    assert by_node(["f", "e01", "a0", "gone"], DEVICES) == {-1: ("f", "gone"), 0: ("a0", "e01"), 1: ("e01",)}
