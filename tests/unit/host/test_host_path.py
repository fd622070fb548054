import os
import socket
import stat
from pathlib import Path

import pytest

from kit.pods import make_pod
from pykubelet.api.volumes import HostPathVolumeSource, Volume
from pykubelet.base.errors import Invalid, Retry
from pykubelet.host.volumes.host_path import HostPath


async def set_up(path: Path | str, kind: str | None = None) -> str:
    volume = Volume(name="v", host_path=HostPathVolumeSource(path=str(path), type=kind))
    return await HostPath().set_up(make_pod(), volume)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("x")
    (tmp_path / "to-folder").symlink_to("folder")
    (tmp_path / "to-nowhere").symlink_to("nowhere")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "socket"))
    return tmp_path


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("folder", None),
        ("missing", None),
        ("missing", ""),
        ("folder", "Directory"),
        ("to-folder", "Directory"),
        ("folder", "DirectoryOrCreate"),
        ("file", "File"),
        ("file", "FileOrCreate"),
        ("socket", "Socket"),
        ("/dev/null", "CharDevice"),
    ],
)
async def test_what_is_there_and_of_the_right_type_is_the_volume(folder: Path, name: str, kind: str | None) -> None:
    assert await set_up(folder / name, kind) == str(folder / name)


@pytest.mark.parametrize(
    ("name", "kind", "what"),
    [
        ("missing", "Directory", "a directory"),
        ("file", "Directory", "a directory"),
        ("file", "DirectoryOrCreate", "a directory"),
        ("missing", "File", "a file"),
        ("folder", "File", "a file"),
        ("folder", "FileOrCreate", "a file"),
        ("file", "Socket", "a socket file"),
        ("missing", "Socket", "a socket file"),
        ("file", "CharDevice", "a character device"),
        ("/dev/null", "BlockDevice", "a block device"),
        ("to-nowhere", "File", "a file"),
    ],
)
async def test_what_is_not_of_the_type_is_told_as_upstream_tells_it(
    folder: Path, name: str, kind: str, what: str
) -> None:
    with pytest.raises(Retry, match=f"hostPath type check failed: {folder / name} is not {what}"):
        await set_up(folder / name, kind)


async def test_a_folder_is_made_when_the_type_says_so(folder: Path) -> None:
    await set_up(folder / "a" / "b", "DirectoryOrCreate")
    assert stat.S_IMODE((folder / "a" / "b").stat().st_mode) == 0o755


async def test_a_file_is_made_when_the_type_says_so_but_not_its_folder(folder: Path) -> None:
    await set_up(folder / "new", "FileOrCreate")
    assert (folder / "new").read_text() == ""
    assert stat.S_IMODE((folder / "new").stat().st_mode) == 0o644
    with pytest.raises(FileNotFoundError):
        await set_up(folder / "a" / "new", "FileOrCreate")


@pytest.mark.parametrize(("path", "kind"), [("/a/../b", None), ("/a/..", "Directory"), ("/", "Folder")])
async def test_what_can_never_work_is_refused(path: str, kind: str | None) -> None:
    with pytest.raises(Invalid):
        await set_up(path, kind)


async def test_nothing_of_the_machine_is_ever_removed(folder: Path) -> None:
    await set_up(folder, "Directory")
    await HostPath().tear_down("uid-web", "v")
    assert len(os.listdir(folder)) == 5
