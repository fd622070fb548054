import errno
import os
from pathlib import Path

import pytest

from pykubelet.host import mount
from pykubelet.host.mount import MountPoint, parse_mount_info

RECORDED = r"""
22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/root rw,discard
36 22 0:32 / /run/a\040b\134c rw,nosuid,nodev shared:5 master:1 - tmpfs tmp\011fs rw,size=64k
37 22 254:0 /srv/x /mnt rw - ext4 /dev/root
38 22 0:40 / /sys/fs/bpf rw,nosuid - bpf none rw,mode=700
not a line of it
"""


def test_mountinfo_is_read_with_its_escapes() -> None:
    assert parse_mount_info(RECORDED) == (
        MountPoint(path="/", root="/", fs_type="ext4", source="/dev/root", options=("rw", "relatime", "rw", "discard")),
        MountPoint(
            path="/run/a b\\c",
            root="/",
            fs_type="tmpfs",
            source="tmp\tfs",
            options=("rw", "nosuid", "nodev", "rw", "size=64k"),
        ),
        MountPoint(path="/mnt", root="/srv/x", fs_type="ext4", source="/dev/root", options=("rw",)),
        MountPoint(
            path="/sys/fs/bpf", root="/", fs_type="bpf", source="none", options=("rw", "nosuid", "rw", "mode=700")
        ),
    )


def test_the_root_is_a_mount_point_and_an_ordinary_folder_is_not(tmp_path: Path) -> None:
    assert mount.is_mount_point("/")
    assert not mount.is_mount_point(str(tmp_path))
    assert not mount.is_mount_point(str(tmp_path / "missing"))


def test_memory_is_mounted_with_a_size_and_unmounted(mountable: Path) -> None:
    place = mountable / "with blank\tand\\more"
    place.mkdir()
    mount.mount_tmpfs(str(place), size=1 << 20)
    assert mount.is_mount_point(str(place))
    found = os.statvfs(place)
    assert found.f_blocks * found.f_frsize == 1 << 20
    mount.unmount(str(place))
    assert not mount.is_mount_point(str(place))


def test_an_older_kernel_that_does_not_know_noswap_is_asked_without(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []

    def old(source: str, target: str, fs_type: str, flags: int, data: str) -> None:
        asked.append(data)
        if "noswap" in data:
            raise OSError(errno.EINVAL, "Invalid argument", target)

    monkeypatch.setattr(mount, "_mount", old)
    mount.mount_tmpfs("/x", size=4096)
    mount.mount_tmpfs("/x")
    assert asked == ["size=4096,noswap", "size=4096", "noswap", ""]


def test_to_unmount_what_is_not_mounted_is_harmless(mountable: Path) -> None:
    mount.unmount(str(mountable))
    mount.unmount(str(mountable / "missing"))


def test_a_mount_that_fails_says_where(mountable: Path) -> None:
    with pytest.raises(OSError, match="missing") as raised:
        mount.bind(str(mountable), str(mountable / "missing"))
    assert raised.value.errno == errno.ENOENT
    assert not mount.is_forbidden(raised.value)


def test_everything_below_a_folder_is_unmounted_inner_mounts_first(mountable: Path) -> None:
    outer = mountable / "folder" / "outer"
    outer.mkdir(parents=True)
    beside = mountable / "folder-beside"
    beside.mkdir()
    mount.mount_tmpfs(str(beside))
    mount.mount_tmpfs(str(outer))
    (outer / "inner").mkdir()
    mount.mount_tmpfs(str(outer / "inner"))
    mount.mount_tmpfs(str(outer / "inner"))
    folder = str(mountable / "folder")
    assert mount.mounts_below(folder) == (str(outer), str(outer / "inner"), str(outer / "inner"))
    mount.unmount_below(folder)
    assert mount.mounts_below(folder) == ()
    assert mount.is_mount_point(str(beside))


def test_mounts_are_found_through_a_linked_parent_but_never_behind_a_link(mountable: Path) -> None:
    place = mountable / "real" / "place"
    place.mkdir(parents=True)
    (mountable / "alias").symlink_to(mountable / "real")
    mount.mount_tmpfs(str(place))
    assert mount.is_mount_point(str(mountable / "alias" / "place"))
    assert mount.mounts_below(str(mountable / "alias")) == ()
    link = mountable / "link"
    link.symlink_to(place)
    assert not mount.is_mount_point(str(link))
    mount.unmount(str(link))
    assert mount.is_mount_point(str(place))


def test_mounts_are_found_in_a_folder_that_the_kernel_spells_with_escapes(mountable: Path) -> None:
    folder = mountable / "two words"
    inner = folder / "tab\tbed"
    inner.mkdir(parents=True)
    mount.mount_tmpfs(str(inner))
    assert mount.mounts_below(str(folder)) == (str(inner),)
    assert mount.mounts_below(str(mountable / "two")) == ()
    mount.unmount_below(str(folder))
    assert mount.mounts_below(str(folder)) == ()


def test_what_is_in_use_stays_mounted_and_the_rest_is_unmounted(mountable: Path) -> None:
    for name in ("busy", "free"):
        (mountable / name).mkdir()
        mount.mount_tmpfs(str(mountable / name))
    with (mountable / "busy" / "file").open("w"), pytest.raises(ExceptionGroup) as raised:
        mount.unmount_below(str(mountable))
    assert [error.errno for error in raised.value.exceptions if isinstance(error, OSError)] == [errno.EBUSY]
    assert mount.mounts_below(str(mountable)) == (str(mountable / "busy"),)


def test_an_ordinary_user_is_told_that_mounting_is_forbidden(ordinary_user: None, tmp_path: Path) -> None:
    with pytest.raises(PermissionError) as raised:
        mount.mount_tmpfs(str(tmp_path))
    assert mount.is_forbidden(raised.value)
