import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from pykubelet.base import removal as sweeping
from pykubelet.base.errors import Retry
from pykubelet.host import mount, removal
from pykubelet.host.removal import remove_tree


def test_a_folder_goes_with_all_that_is_in_it(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    (folder / "a" / "b").mkdir(parents=True)
    (folder / "a" / "file").write_text("x")
    os.mkfifo(folder / "pipe")
    remove_tree(str(folder))
    assert not folder.exists()
    assert tmp_path.exists()


def test_to_remove_what_is_gone_is_harmless(tmp_path: Path) -> None:
    remove_tree(str(tmp_path / "missing"))
    remove_tree(str(tmp_path / "missing" / "too"))


def test_links_are_removed_and_what_they_lead_to_stays(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").write_text("x")
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "link").symlink_to(outside)
    (folder / "file").symlink_to(outside / "precious")
    remove_tree(str(folder))
    assert (outside / "precious").read_text() == "x"
    assert not folder.exists()


def test_a_link_in_place_of_the_folder_is_removed_alone(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").write_text("x")
    link = tmp_path / "link"
    link.symlink_to(outside)
    remove_tree(str(link))
    assert not link.is_symlink()
    assert (outside / "precious").exists()


def test_a_file_in_place_of_the_folder_is_removed(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    remove_tree(str(tmp_path / "file"))
    assert not (tmp_path / "file").exists()


def test_thousands_of_folders_inside_each_other_are_removed(tmp_path: Path) -> None:
    top = tmp_path / "deep"
    top.mkdir()
    fd = os.open(top, os.O_RDONLY)
    for _ in range(2000):
        os.mkdir("d", dir_fd=fd)
        inner = os.open("d", os.O_RDONLY, dir_fd=fd)
        os.close(fd)
        fd = inner
    os.close(os.open("file", os.O_CREAT | os.O_WRONLY, dir_fd=fd))
    os.close(fd)
    remove_tree(str(top))
    assert not top.exists()


NOBODY = 65534
REMOVE_AS_NOBODY = f"""
import os, sys
from pykubelet.host.removal import remove_tree
os.setgroups([])
os.setgid({NOBODY})
os.setuid({NOBODY})
remove_tree(sys.argv[1])
"""


def remove_as_ordinary_user(folder: Path) -> None:
    """Root may do everything, so that as root an ordinary user has to be asked to."""
    if os.geteuid() != 0:
        remove_tree(str(folder))
        return
    for path in (folder.parent, folder, *folder.rglob("*")):
        os.chown(path, NOBODY, NOBODY)
    subprocess.run([sys.executable, "-c", REMOVE_AS_NOBODY, str(folder)], check=True)


@pytest.mark.parametrize("mode", [0o000, 0o300, 0o500])
def test_a_folder_that_forbids_its_removal_is_removed_by_its_owner(mode: int) -> None:
    with tempfile.TemporaryDirectory() as top:
        folder = Path(top) / "folder"
        inner = folder / "closed"
        inner.mkdir(parents=True)
        (inner / "file").write_text("x")
        inner.chmod(mode)
        remove_as_ordinary_user(folder)
        assert not folder.exists()


# --- mounts


def test_nothing_is_touched_while_anything_is_mounted_in_it(mountable: Path) -> None:
    place = mountable / "folder" / "sub" / "place"
    place.mkdir(parents=True)
    (mountable / "folder" / "file").write_text("x")
    mount.mount_tmpfs(str(place))
    (place / "precious").write_text("x")
    with pytest.raises(Retry, match=f"still mounted: {place}$"):
        remove_tree(str(mountable / "folder"))
    assert (mountable / "folder" / "file").exists()
    assert (place / "precious").exists()
    mount.unmount(str(place))
    remove_tree(str(mountable / "folder"))
    assert not (mountable / "folder").exists()


def test_a_folder_of_the_same_disk_bound_into_it_is_not_entered_either(mountable: Path) -> None:
    outside, place = mountable / "outside", mountable / "folder" / "place"
    outside.mkdir()
    (outside / "precious").write_text("x")
    place.mkdir(parents=True)
    mount.bind(str(outside), str(place))
    with pytest.raises(Retry, match="still mounted"):
        remove_tree(str(mountable / "folder"))
    assert (outside / "precious").exists()


def test_what_is_mounted_in_the_last_moment_is_not_entered(mountable: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = mountable / "folder" / "place"
    place.mkdir(parents=True)
    mount.mount_tmpfs(str(place))
    (place / "precious").write_text("x")
    monkeypatch.setattr(removal, "mounts_below", lambda _: ())
    with pytest.raises(Retry, match="still mounted at place"):
        remove_tree(str(mountable / "folder"))
    assert (place / "precious").exists()


def test_who_makes_folders_all_the_time_holds_up_nobody_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sweeping, "_MOST_ROUNDS", 3)
    monkeypatch.setattr(sweeping, "_DEEPEST", 2)
    (tmp_path / "top").mkdir()
    rename, made = os.rename, iter(range(100))

    def racing(source: str, target: str, **folders: int) -> None:
        rename(source, target, **folders)
        (tmp_path / "top" / f"again-{next(made)}" / "a/b/c/d").mkdir(parents=True)

    (tmp_path / "top" / "0" / "a/b/c/d").mkdir(parents=True)
    monkeypatch.setattr(os, "rename", racing)
    with pytest.raises(Retry, match="all the time"):
        sweeping.sweep(str(tmp_path / "top"))
