import gzip
import logging
import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from pykubelet.base.errors import Invalid
from pykubelet.host import recording_file
from pykubelet.host.recording_file import RecordingFile, recorded_lines


def lines(path: Path, longest: int = 1 << 20) -> list[bytes]:
    return list(recorded_lines(str(path), longest))


@pytest.mark.parametrize("name", ["recording", "recording.gz"])
async def test_what_is_written_is_read_again(tmp_path: Path, name: str) -> None:
    file = RecordingFile(str(tmp_path / name))
    for each in (b"one", b"two"):
        assert file.write(each)
        await file.flush()
    assert lines(tmp_path / name) == [b"one", b"two"], "also while it is written"
    await file.close()
    assert lines(tmp_path / name) == [b"one", b"two"]
    assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o600
    if name.endswith(".gz"):
        assert gzip.decompress((tmp_path / name).read_bytes()) == b"one\ntwo\n"


async def test_a_recording_that_is_there_is_kept(tmp_path: Path) -> None:
    for each in (b"first", b"second"):
        file = RecordingFile(str(tmp_path / "r"))
        file.write(each)
        await file.close()
    assert (lines(tmp_path / "r"), lines(tmp_path / "r.1")) == ([b"second"], [b"first"])


async def test_at_its_limit_it_ends_and_says_so(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = RecordingFile(str(tmp_path / "r"), limit=100)
    written = [file.write(b"x" * 30) for _ in range(5)]
    await file.close()
    assert written == [True, True, True, False, False]
    assert lines(tmp_path / "r")[-1] == b'{"end":"the recording has reached its limit of 0 MiB"}'
    assert len(lines(tmp_path / "r")) == 5
    assert [each.levelno for each in caplog.records] == [logging.WARNING]


async def test_a_disk_without_room_ends_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = RecordingFile(str(tmp_path / "r"))
    monkeypatch.setattr(recording_file, "_LEFT_FREE", 1 << 62)
    file.write(b"x")
    await file.flush()
    assert not file.write(b"y")
    assert "MiB would be left on the disk; the agent goes on without it" in caplog.text
    await file.close()


async def test_a_disk_that_hangs_ends_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recording_file, "_MOST_WAITING", 100)
    file = RecordingFile(str(tmp_path / "r"))
    assert [file.write(b"x" * 60) for _ in range(3)] == [True, False, False]
    await file.close()


@pytest.mark.parametrize("make", [Path.mkdir, lambda path: path.symlink_to("/etc/passwd"), os.mkfifo])
def test_only_an_ordinary_file_is_written_to(tmp_path: Path, make: Callable[[Path], object]) -> None:
    path = tmp_path / "there"
    make(path)
    with pytest.raises(Invalid, match="is no ordinary file; name another with --record"):
        RecordingFile(str(path))
    assert path.is_symlink() or not path.is_file()


def test_a_folder_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match="cannot be written: No such file or directory; name another with --record"):
        RecordingFile(str(tmp_path / "none" / "r"))


async def test_a_torn_end_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "plain").write_bytes(b"one\ntwo\nthr")
    whole = gzip.compress(b"one\n" + os.urandom(100_000).hex().encode() + b"\ntwo\n")
    (tmp_path / "torn.gz").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "spoiled.gz").write_bytes(whole[:1000] + b"\0" * 1000 + whole[2000:])
    assert lines(tmp_path / "plain") == [b"one", b"two"]
    assert lines(tmp_path / "torn.gz") == [b"one"]
    assert lines(tmp_path / "spoiled.gz")[:1] in ([], [b"one"])


def test_a_bomb_is_not_read_into_memory(tmp_path: Path) -> None:
    (tmp_path / "bomb.gz").write_bytes(gzip.compress(b"0" * (64 << 20)))
    with pytest.raises(Invalid, match="line 1 is longer than 1 MiB: this is no recording"):
        lines(tmp_path / "bomb.gz", 1 << 20)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match="cannot be read: No such file"):
        lines(tmp_path / "none")


@pytest.mark.parametrize("make", [os.mkfifo, lambda path: path.symlink_to("/dev/zero"), Path.mkdir])
def test_what_is_no_file_is_named_at_once(tmp_path: Path, make: Callable[[Path], object]) -> None:
    make(tmp_path / "x")
    with pytest.raises(Invalid, match=r"is no ordinary file|Is a directory"):
        next(recorded_lines(str(tmp_path / "x"), 1 << 20))
