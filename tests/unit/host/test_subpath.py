import os
import stat
from pathlib import Path

import pytest

from pykubelet.base.errors import Invalid
from pykubelet.host import mount
from pykubelet.host.subpath import prepare_sub_path
from pykubelet.pod.container.mounts import VolumePart


def shown(part: VolumePart) -> Path:
    return Path(part.host_path, part.sub_path)


@pytest.fixture
def volume(tmp_path: Path) -> Path:
    path = tmp_path / "volume"
    path.mkdir()
    path.chmod(0o2777)
    return path


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "volume-subpaths" / "data" / "c" / "0"


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    path = tmp_path / "outside"
    path.mkdir()
    (path / "secret").write_text("x")
    return path


# --- with mounts


def test_a_part_of_a_volume_is_bound_to_a_place_of_its_own(mountable: Path, volume: Path, target: Path) -> None:
    (volume / "a").mkdir()
    (volume / "a" / "file").write_text("x")
    assert prepare_sub_path(str(volume), "a", str(target)) == VolumePart(str(target))
    assert (target / "file").read_text() == "x"
    assert mount.is_mount_point(str(target))


def test_a_single_file_can_be_bound_too(mountable: Path, volume: Path, target: Path) -> None:
    (volume / "file").write_text("x")
    assert prepare_sub_path(str(volume), "file", str(target)) == VolumePart(str(target))
    assert target.read_text() == "x"


def test_it_is_bound_once_however_often_it_is_prepared(mountable: Path, volume: Path, target: Path) -> None:
    for _ in range(3):
        prepare_sub_path(str(volume), "a", str(target))
    assert mount.mounts_below(str(target)) == (str(target),)


def test_what_has_been_replaced_meanwhile_is_bound_anew(mountable: Path, volume: Path, target: Path) -> None:
    (volume / "a").write_text("old")
    prepare_sub_path(str(volume), "a", str(target))
    (volume / "a").unlink()
    (volume / "a").mkdir()
    (volume / "a" / "new").write_text("new")
    prepare_sub_path(str(volume), "a", str(target))
    assert (target / "new").read_text() == "new"
    assert mount.mounts_below(str(target)) == (str(target),)


def test_a_link_put_there_afterwards_changes_nothing(
    mountable: Path, volume: Path, target: Path, outside: Path
) -> None:
    path = shown(prepare_sub_path(str(volume), "a", str(target)))
    (volume / "a").rename(volume / "moved")
    (volume / "a").symlink_to(outside)
    assert os.listdir(path) == []


# --- for everybody


@pytest.fixture(params=["root", "ordinary user"])
def anybody(request: pytest.FixtureRequest) -> None:
    request.getfixturevalue("mountable" if request.param == "root" else "ordinary_user")


def test_missing_folders_are_made_with_the_mode_of_the_volume(anybody: None, volume: Path, target: Path) -> None:
    path = shown(prepare_sub_path(str(volume), "a/b", str(target)))
    assert os.path.isdir(path)
    for made in (volume / "a", volume / "a" / "b"):
        assert stat.S_IMODE(made.stat().st_mode) == 0o2777


def test_links_inside_of_the_volume_may_be_followed(anybody: None, volume: Path, target: Path) -> None:
    (volume / "..2026").mkdir()
    (volume / "..2026" / "key").write_text("value")
    (volume / "..data").symlink_to("..2026")
    (volume / "key").symlink_to("..data/key")
    assert shown(prepare_sub_path(str(volume), "key", str(target))).read_text() == "value"


@pytest.mark.parametrize("path", ["link", "link/secret", "link/new", "up/outside", "loop"])
def test_a_way_out_of_the_volume_is_refused(
    anybody: None, volume: Path, target: Path, outside: Path, path: str
) -> None:
    (volume / "link").symlink_to(outside)
    (volume / "up").symlink_to("..")
    (volume / "loop").symlink_to("loop")
    with pytest.raises((Invalid, OSError)):
        prepare_sub_path(str(volume), path, str(target))
    assert os.listdir(outside) == ["secret"]
    assert mount.mounts_below(str(target)) == ()


def test_a_folder_whose_name_begins_like_the_volumes_is_outside(anybody: None, volume: Path, target: Path) -> None:
    beside = volume.with_name("volume-beside")
    beside.mkdir()
    (volume / "link").symlink_to(beside)
    with pytest.raises(Invalid, match="leads out of the volume"):
        prepare_sub_path(str(volume), "link", str(target))


def test_a_link_put_there_between_looking_and_opening_is_not_followed(
    anybody: None, volume: Path, target: Path, outside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (volume / "a").mkdir()
    look = os.path.realpath

    def look_then_swap(path: str, *, strict: bool = False) -> str:
        found = look(path, strict=strict)
        if path.endswith("/a"):
            (volume / "a").rmdir()
            (volume / "a").symlink_to(outside)
        return found

    monkeypatch.setattr(os.path, "realpath", look_then_swap)
    with pytest.raises(Invalid, match="replaced by a link"):
        prepare_sub_path(str(volume), "a", str(target))


def test_a_volume_that_is_not_there_is_an_error(anybody: None, tmp_path: Path, target: Path) -> None:
    with pytest.raises(FileNotFoundError):
        prepare_sub_path(str(tmp_path / "missing"), "a", str(target))


def test_who_may_not_mount_leaves_it_to_the_runtime_to_open_it(ordinary_user: None, volume: Path, target: Path) -> None:
    assert prepare_sub_path(str(volume), "a", str(target)) == VolumePart(str(volume), "a")
    assert not target.exists()


def test_no_file_stays_open(anybody: None, volume: Path, target: Path, outside: Path) -> None:
    (volume / "link").symlink_to(outside)
    (volume / "file").write_text("")
    before = len(os.listdir("/proc/self/fd"))
    prepare_sub_path(str(volume), "a/b/c", str(target))
    for wrong in ("link", "file/x"):
        with pytest.raises((Invalid, OSError)):
            prepare_sub_path(str(volume), wrong, str(target))
    assert len(os.listdir("/proc/self/fd")) == before
