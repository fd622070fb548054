"""Nothing that somebody else wrote commands a terminal, and its width is what a terminal makes of it."""

import pytest

from pykubelet.cli.plain_text import fit, plain, shown, width, wrapped

ATTACKS = (
    "\x1b]52;c;cm0gLXJmIC8K\x07", "\x1b]0;title\x07", "\x1b]8;;http://evil\x1b\\link\x1b]8;;\x1b\\", "\x1b[2J\x1b[H",
    "\x1bPq#0;2;0;0;0\x1b\\", "\x9b2J", "\x9d52;c;x\x9c", "\x1bc", "\x1b(0", "\r\n", "\x08\x08", "\x00", "\x7f",
    "\u202egnp.exe", "\x1b]52;c;unfinished", "\x1b[6n", "\x05", "\u2066x", "\x1b_x\x1b\\", "\x0e\x0f", "\ud800",
)  # fmt: skip


@pytest.mark.parametrize("text", ATTACKS, ids=repr)
def test_what_would_command_a_terminal_is_not_shown(text: str) -> None:
    for each in (plain(text), shown(f"a{text}b"), fit(f"a{text}b", 40), *wrapped(f"a{text}b", 3)):
        assert each.isprintable()


def test_a_coloured_line_is_read_without_its_colours() -> None:
    assert shown("\x1b[31;1mred\x1b[0m\tand\x1b[Kplain") == "red     andplain"


@pytest.mark.parametrize(
    ("text", "columns", "expected"),
    [
        ("web", 5, "web  "),
        ("web-12345", 5, "web-…"),
        ("日本語ポッド", 7, "日本語…"),
        ("日本語ポッド", 6, "日本… "),
        ("日本", 4, "日本"),
        ("x", 0, ""),
        ("e\u0301e\u0301", 2, "éé"),
        ("z\u030d\u030e\u0304\u0305", 3, "z  "),
    ],
)
def test_a_cell_is_exactly_as_wide_as_its_column(text: str, columns: int, expected: str) -> None:
    assert fit(text, columns) == expected
    assert width(fit(text, columns)) == columns


def test_numbers_are_at_the_right() -> None:
    assert fit("42", 5, right=True) == "   42"


def test_long_lines_go_on_in_the_next_one() -> None:
    assert wrapped("one two three", 8) == ["one two", "three"]
    assert wrapped("abcdefghij", 4) == ["abcd", "efgh", "ij"]
    assert wrapped("日本語", 4) == ["日本", "語"]
    assert wrapped("", 4) == [""]
    assert wrapped("日本", 1) == ["日本"], "where there is no room at all nothing is gained by trying"
