"""The order of a list after a strategic merge patch."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykubelet.apiserver.patch.errors import PatchRefused
from pykubelet.apiserver.patch.order import KeyOf, Places, ordered

PLAIN = KeyOf("")


@pytest.mark.parametrize(
    ("merged", "order", "before", "result"),
    [
        ("ab", "ba", "ab", "ba"),
        ("abc", "", "abc", "abc"),
        ("abc", "c", "abc", "abc"),
        ("abcx", "xc", "abc", "xabc"),
        ("abx", "x", "ab", "xab"),
        ("abcd", "db", "abcd", "acdb"),
        ("ba", "", "ab", "ab"),
    ],
)
def test_what_the_patch_names_comes_in_its_order_and_the_rest_about_where_it_was(
    merged: str, order: str, before: str, result: str
) -> None:
    assert "".join(ordered(list(merged), list(order), list(before), PLAIN)) == result


def test_items_are_told_apart_by_their_key() -> None:
    a, b, new = {"name": "a", "x": 1}, {"name": "b"}, {"name": "c"}
    assert ordered([a, b, new], [{"name": "c"}, {"name": "a"}], [a, b], KeyOf("name")) == [new, a, b]
    with pytest.raises(PatchRefused, match="does not contain declared merge key: name"):
        ordered([{"x": 1}], [], [], KeyOf("name"))


def test_keys_of_different_types_are_different() -> None:
    assert len({PLAIN(each) for each in (1, True, "1", None, [1], {"a": 1, "b": 2}, {"b": 2, "a": 1})}) == 6
    assert KeyOf("k")({}) == KeyOf("k")("plain") == PLAIN(None)


def test_the_first_place_counts() -> None:
    places = Places("aba", PLAIN)
    assert (places.of(PLAIN("a")), places.of(PLAIN("b")), places.of(PLAIN("c"))) == (0, 1, -1)
    places.note(PLAIN("c"), 7)
    places.note(PLAIN("a"), 7)
    assert (places.of(PLAIN("c")), places.of(PLAIN("a"))) == (7, 0)


_UNIQUE = st.lists(st.sampled_from("abcdef"), unique=True)


@given(before=_UNIQUE, order=_UNIQUE, data=st.data())
def test_nothing_is_lost_and_both_kinds_keep_their_order(before: list[str], order: list[str], data: Any) -> None:
    merged = data.draw(st.permutations(sorted({*before, *order})))
    result = ordered(merged, order, before, PLAIN)
    assert sorted(result) == sorted(merged)
    assert [each for each in result if each in order] == [each for each in order if each in merged]
    assert [each for each in result if each not in order] == [each for each in before if each not in order]
