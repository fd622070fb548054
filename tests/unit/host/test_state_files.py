import asyncio
from pathlib import Path

import pytest

from pykubelet.base.errors import Invalid, Retry
from pykubelet.host.state_files import StateFiles


def test_a_file_is_whole_private_and_has_the_last_word(tmp_path: Path) -> None:
    files = StateFiles(tmp_path)
    assert files.read("state") is None
    files.put("state", b"one")
    files.put("state", b"two")
    assert files.read("state") == b"two"
    assert (tmp_path / "state").stat().st_mode & 0o777 == 0o600
    assert [each.name for each in tmp_path.iterdir()] == ["state"]


async def test_writers_take_turns(tmp_path: Path) -> None:
    files = StateFiles(tmp_path)
    await asyncio.gather(*(files.write("state", bytes([number]) * 10_000) for number in range(20)))
    assert files.read("state") == bytes([19]) * 10_000


def test_what_cannot_be_read_or_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir()
    files = StateFiles(tmp_path)
    with pytest.raises(Invalid, match="state: cannot be read"):
        files.read("state")
    with pytest.raises(Retry, match="state: cannot be written"):
        files.put("state", b"")
    with pytest.raises(Retry, match="cannot be written"):
        StateFiles(tmp_path / "nowhere").put("state", b"")
