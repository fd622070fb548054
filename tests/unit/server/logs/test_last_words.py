"""The last lines of a container's log."""

from pathlib import Path

from pykubelet.server.logs.last_words import last_words


def write(folder: Path, data: bytes) -> None:
    (folder / "app").mkdir()
    (folder / "app" / "0.log").write_bytes(data)


def test_the_last_ten_lines_without_what_the_runtime_adds(tmp_path: Path) -> None:
    write(tmp_path, b"".join(b"2026-01-02T15:04:05Z stdout F line %d of it\n" % number for number in range(5000)))
    found = last_words(str(tmp_path), [("app", 0)])["app"].splitlines()
    assert found == [f"line {number} of it" for number in range(4990, 5000)]


def test_what_moves_a_cursor_or_is_no_text_does_no_harm(tmp_path: Path) -> None:
    write(tmp_path, b"2026-01-02T15:04:05Z stderr F \x1b[2Jhi\xff\n")
    assert last_words(str(tmp_path), [("app", 0)])["app"] == "?[2Jhi\ufffd"


def test_one_line_without_end_is_bounded(tmp_path: Path) -> None:
    write(tmp_path, b"2026-01-02T15:04:05Z stderr P " + b"x" * (1 << 20))
    assert len(last_words(str(tmp_path), [("app", 0)]).get("app", "")) <= 400


def test_who_has_said_nothing_has_no_last_words(tmp_path: Path) -> None:
    assert last_words(str(tmp_path), [("app", 0)]) == {}
