"""Sets of completion indexes, as text and back."""

import pytest

from pykubelet.api.rules import completion_indexes as indexes


@pytest.mark.parametrize(
    ("text", "completions", "intervals"),
    [
        ("", 5, ()),
        ("0,2-4", 5, ((0, 0), (2, 4))),
        ("0,1,2", 5, ((0, 2),)),
        ("0-9", 5, ((0, 4),)),
        ("3,7", 5, ((3, 3),)),
        ("x,1,-2,3-y", 5, ((1, 1),)),
    ],
)
def test_what_cannot_be_read_or_is_too_large_is_left_out(
    text: str, completions: int, intervals: indexes.Intervals
) -> None:
    assert indexes.parsed(text, completions) == intervals


def test_intervals_are_merged_counted_shown_and_searched() -> None:
    found = indexes.merged(((0, 1), (5, 6)), indexes.of((2, 4, 9)))
    assert found == ((0, 2), (4, 6), (9, 9))
    assert (indexes.total(found), indexes.shown(found)) == (7, "0-2,4-6,9")
    assert indexes.shown(((3, 4),)) == "3,4"
    assert [index for index in range(11) if indexes.has(found, index)] == [0, 1, 2, 4, 5, 6, 9]
    assert indexes.first_missing(found, 3, 20) == [3, 7, 8]
    assert indexes.first_missing(found, 9, 11) == [3, 7, 8, 10]
    assert indexes.common(found, ((1, 4), (9, 30))) == 4


@pytest.mark.parametrize("text", ["1-2-3", "a", "5", "2-1", "1,1", "3,2", "1-", "-1"])
def test_a_text_that_is_no_set_of_indexes_says_why(text: str) -> None:
    assert indexes.format_fault(text, 5)[1]
    assert indexes.format_fault("0,2-4", 5) == (4, "")
