"""A whole volume is given to a group, and nothing beside it."""

import os
from pathlib import Path
from typing import Any

import pytest

from pykubelet.base.removal import sweep
from pykubelet.host.volumes.ownership import give_to_group

GROUP = os.getgid() if os.getuid() else 4242


def owned(path: Path) -> tuple[int, str]:
    found = path.lstat()
    return found.st_gid, oct(found.st_mode & 0o7777)


def test_all_below_belongs_to_the_group_and_links_lead_nowhere(tmp_path: Path) -> None:
    volume, outside = tmp_path / "volume", tmp_path / "outside"
    (volume / "a" / "b").mkdir(parents=True, mode=0o700)
    (volume / "a" / "b" / "file").write_text("x")
    (volume / "a" / "b" / "file").chmod(0o400)
    outside.mkdir(mode=0o700)
    (outside / "secret").write_text("x")
    (outside / "secret").chmod(0o600)
    (volume / "link").symlink_to(outside / "secret")
    (volume / "folder").symlink_to(outside)
    os.mkfifo(volume / "pipe")
    before = owned(outside), owned(outside / "secret")
    give_to_group(str(volume), GROUP)
    assert owned(volume / "a" / "b" / "file") == (GROUP, "0o660")
    assert owned(volume / "a" / "b")[0] == GROUP
    assert int(owned(volume / "a" / "b")[1], 8) & 0o2770 == 0o2770
    assert int(owned(volume)[1], 8) & 0o2770 == 0o2770
    assert (owned(outside), owned(outside / "secret")) == before


def test_what_is_given_already_is_not_walked_through_again(tmp_path: Path) -> None:
    volume = tmp_path / "volume"
    volume.mkdir()
    give_to_group(str(volume), GROUP)
    late = volume / "late"
    late.write_text("x")
    late.chmod(0o600)
    give_to_group(str(volume), GROUP, only_if_root_differs=True)
    assert owned(late)[1] == "0o600"
    give_to_group(str(volume), GROUP)
    assert owned(late)[1] == "0o660"


def test_a_link_in_the_place_of_the_volume_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "volume").symlink_to(tmp_path / "outside")
    with pytest.raises(OSError, match=r"Not a directory|symbolic links"):
        give_to_group(str(tmp_path / "volume"), GROUP)


def test_folders_without_end_cost_the_agent_neither_its_files_nor_its_stack(tmp_path: Path) -> None:
    """Whoever uses a volume may make as many inside each other as he likes."""
    volume = tmp_path / "volume"
    volume.mkdir()
    folder = os.open(volume, os.O_RDONLY)
    for _ in range(1500):
        os.mkdir("d", dir_fd=folder)
        inner = os.open("d", os.O_RDONLY, dir_fd=folder)
        os.close(folder)
        folder = inner
    os.close(folder)
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(OSError, match="256 folders lie inside each other"):
        give_to_group(str(volume), GROUP)
    assert len(os.listdir("/proc/self/fd")) <= before
    sweep(str(volume))
    assert not volume.exists()


def test_what_another_pod_removes_meanwhile_stops_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a").write_text("x")
    (tmp_path / "b").write_text("x")
    (tmp_path / "b").chmod(0o600)
    stat = os.stat

    def racing(name: str, **how: Any) -> os.stat_result:
        (tmp_path / "a").unlink(missing_ok=True)
        return stat(name, **how)

    monkeypatch.setattr(os, "stat", racing)
    give_to_group(str(tmp_path), GROUP)
    assert owned(tmp_path / "b") == (GROUP, "0o660")
