"""A file is whole or not there, for its readers alone, and whoever was stopped while writing stands in nobody's way."""

import os
from pathlib import Path

import pytest

from pykubelet.base.whole_files import draft_of, write_whole


@pytest.mark.parametrize("mode", [0o600, 0o640])
def test_the_last_word_is_there_whole_for_its_readers(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "state"
    write_whole(path, b"longer than the next", 0o600)
    write_whole(path, b"two", mode, outlives_power=False)
    assert path.read_bytes() == b"two"
    assert path.stat().st_mode & 0o777 == mode
    assert os.listdir(tmp_path) == ["state"]


def test_what_somebody_left_behind_or_put_there_is_not_written_to(tmp_path: Path) -> None:
    path, elsewhere = tmp_path / "state", tmp_path / "elsewhere"
    elsewhere.write_text("kept")
    draft_of(path).symlink_to(elsewhere)
    write_whole(path, b"new")
    assert path.read_bytes() == b"new"
    assert elsewhere.read_text() == "kept"


def test_what_cannot_be_written_leaves_the_old_file_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "state"
    write_whole(path, b"old")
    draft_of(path).mkdir()
    with pytest.raises(OSError, match="directory"):
        write_whole(path, b"new")
    assert path.read_bytes() == b"old"
