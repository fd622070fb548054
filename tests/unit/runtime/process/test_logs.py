import random
import re
from pathlib import Path

import pytest

from pykubelet.runtime.process.shim.logs import LONGEST, Log, Stream

LINE = re.compile(rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z (stdout|stderr) ([FP]) (.*)", re.DOTALL)


def parts(data: bytes) -> list[tuple[str, bytes]]:
    """Tag and text of each line. The file ends with a line's end."""
    assert data.endswith(b"\n") or not data
    found = []
    for line in data.split(b"\n")[:-1]:
        match = LINE.fullmatch(line)
        assert match is not None, line[:80]
        found.append((match[2].decode(), match[3]))
    return found


def joined(data: bytes) -> bytes:
    return b"".join(text + (b"\n" if tag == "F" else b"") for tag, text in parts(data))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "0.log"


def all_files(path: Path) -> list[Path]:
    """Oldest first."""
    return [*sorted(path.parent.glob("0.log.*")), path]


@pytest.mark.parametrize(
    ("chunks", "lines"),
    [
        ([b"one\n"], [("F", b"one")]),
        ([b"one\ntwo\n"], [("F", b"one"), ("F", b"two")]),
        ([b"o", b"n", b"e\n"], [("F", b"one")]),
        ([b"\n\n"], [("F", b""), ("F", b"")]),
        ([b"no end"], [("P", b"no end")]),
        ([b"\r\0\xff\n"], [("F", b"\r\0\xff")]),
        ([b"x" * LONGEST + b"\n"], [("F", b"x" * LONGEST)]),
        ([b"x" * LONGEST + b"y\n"], [("P", b"x" * LONGEST), ("F", b"y")]),
        ([b"x" * LONGEST, b"x" * LONGEST, b"\n"], [("P", b"x" * LONGEST), ("F", b"x" * LONGEST)]),
        ([], []),
    ],
)
def test_lines_are_written_as_kubernetes_reads_them(
    path: Path, chunks: list[bytes], lines: list[tuple[str, bytes]]
) -> None:
    stream = Stream("stdout", Log(str(path), size=0, files=5))
    for chunk in chunks:
        stream.feed(chunk)
    stream.end()
    assert parts(path.read_bytes()) == lines


def test_any_cut_of_any_bytes_is_read_back_as_it_was(path: Path) -> None:
    source = random.Random(7)
    data = b"".join(source.randbytes(source.choice((0, 1, 100, 20_000, 40_000))) + b"\n" for _ in range(50))
    stream = Stream("stderr", Log(str(path), size=0, files=5))
    at = 0
    while at < len(data):
        size = source.choice((1, 10, 4096, 65536))
        stream.feed(data[at : at + size])
        at += size
    stream.end()
    assert joined(path.read_bytes()) == data


def test_rotation_neither_loses_nor_doubles_a_line(path: Path) -> None:
    stream = Stream("stdout", Log(str(path), size=10_000, files=1000))
    for number in range(0, 5000, 10):
        stream.feed(b"".join(b"%d\n" % each for each in range(number, number + 10)))
    files = all_files(path)
    assert len(files) > 10
    assert all(file.stat().st_size <= 10_000 for file in files)
    assert joined(b"".join(file.read_bytes() for file in files)).split() == [b"%d" % each for each in range(5000)]


def test_only_the_newest_files_are_kept(path: Path) -> None:
    stream = Stream("stdout", Log(str(path), size=1000, files=3))
    for number in range(1000):
        stream.feed(b"%d\n" % number)
    files = all_files(path)
    assert len(files) == 3
    assert joined(path.read_bytes()).endswith(b"999\n")


def test_a_line_larger_than_the_limit_is_still_written(path: Path) -> None:
    stream = Stream("stdout", Log(str(path), size=100, files=3))
    stream.feed(b"x" * 5000 + b"\n")
    assert joined(path.read_bytes()) == b"x" * 5000 + b"\n"


def test_a_log_that_was_moved_away_is_begun_anew(path: Path) -> None:
    log = Log(str(path), size=0, files=5)
    stream = Stream("stdout", log)
    stream.feed(b"before\n")
    moved = path.rename(path.with_name("moved"))
    stream.feed(b"between\n")
    log.reopen()
    stream.feed(b"after\n")
    assert joined(moved.read_bytes()) == b"before\nbetween\n"
    assert joined(path.read_bytes()) == b"after\n"


def test_a_log_goes_on_where_it_was(path: Path) -> None:
    for text in (b"one\n", b"two\n"):
        Stream("stdout", Log(str(path), size=0, files=5)).feed(text)
    assert joined(path.read_bytes()) == b"one\ntwo\n"


def test_a_full_disk_loses_lines_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "full"
    path.symlink_to("/dev/full")
    stream = Stream("stdout", Log(str(path), size=1000, files=5))
    for _ in range(100):
        stream.feed(b"lost\n")
    stream.end()


def test_a_folder_that_is_not_there_loses_lines_and_nothing_else(tmp_path: Path) -> None:
    folder = tmp_path / "later"
    stream = Stream("stdout", Log(str(folder / "0.log"), size=1000, files=5))
    stream.feed(b"lost\n")
    folder.mkdir()
    stream.feed(b"kept\n")
    assert joined((folder / "0.log").read_bytes()) == b"kept\n"
