import pytest

from pykubelet.pod.container.env import expand

VARIABLES = {"A": "1", "B": "$(A)", "EMPTY": "", "WITH SPACE": "s", "C.D-E": "dotted"}


@pytest.mark.parametrize(
    ("text", "expanded"),
    [
        ("", ""),
        ("plain", "plain"),
        ("$(A)", "1"),
        ("x$(A)y$(A)z", "x1y1z"),
        ("$(EMPTY)", ""),
        ("$(C.D-E)$(WITH SPACE)", "dotteds"),
    ],
)
def test_a_reference_to_a_known_variable_is_replaced(text: str, expanded: str) -> None:
    assert expand(text, VARIABLES) == expanded


@pytest.mark.parametrize("text", ["$(NO)", "a$(NO)b", "$()", "$(A", "$A", "${A}", "$", "a$", "$ (A)", "$(a)"])
def test_what_refers_to_nothing_known_stays_as_it_was_written(text: str) -> None:
    assert expand(text, VARIABLES) == text


def test_two_dollars_are_one() -> None:
    assert expand("$$", VARIABLES) == "$"
    assert expand("$$(A)", VARIABLES) == "$(A)"
    assert expand("$$$(A)", VARIABLES) == "$1"
    assert expand("$$$$(A)", VARIABLES) == "$$(A)"
    assert expand("$(A)$$(A", VARIABLES) == "1$(A"
    assert expand("$(A $$", VARIABLES) == "$(A $"


def test_what_was_put_in_is_not_expanded_again() -> None:
    assert expand("$(B)", VARIABLES) == "$(A)"


@pytest.mark.timeout(5)
def test_a_long_text_takes_no_longer_than_it_should() -> None:
    assert expand("$(" * 200_000, {}) == "$(" * 200_000
    assert expand("$$" * 200_000, {}) == "$" * 200_000
