"""The agent takes away folders that it has made, and nothing else."""

from pathlib import Path

import pytest

from pykubelet.base.errors import Invalid, Retry
from pykubelet.host.volumes.made_folders import FOLDER, MadeFolders


async def test_a_folder_that_was_made_is_removed_also_by_a_later_agent(tmp_path: Path) -> None:
    root, path = tmp_path / "root", tmp_path / "volumes" / "pvc-1_default_c"
    assert not await MadeFolders(str(root)).has_any()
    await MadeFolders(str(root)).make("pvc-1", str(path))
    assert await MadeFolders(str(root)).has_any()
    assert oct(path.stat().st_mode)[-3:] == "777"
    (path / "deep").mkdir()
    (path / "deep" / "data").write_text("x")
    (tmp_path / "precious").write_text("x")
    (path / "out").symlink_to(tmp_path)
    await MadeFolders(str(root)).make("pvc-1", str(path))
    for _ in range(2):
        await MadeFolders(str(root)).remove("pvc-1")
    assert not path.exists()
    assert (tmp_path / "precious").exists()
    assert not await MadeFolders(str(root)).has_any()


async def test_what_was_there_before_stays(tmp_path: Path) -> None:
    folders, path = MadeFolders(str(tmp_path / "root")), tmp_path / "pvc-1_default_c"
    path.mkdir()
    await folders.make("pvc-1", str(path))
    await folders.remove("pvc-1")
    assert path.is_dir()


async def test_nobody_gets_something_else_removed(tmp_path: Path) -> None:
    """A volume's object may name any folder, and an annotation of the node anything at all."""
    folders, precious = MadeFolders(str(tmp_path / "root")), tmp_path / "precious"
    await folders.make("pvc-1", str(precious))
    with pytest.raises(Invalid, match="no folder of volume pvc-1"):
        await folders.remove("pvc-1")
    assert precious.is_dir()
    for name in ("", ".", "..", "../precious", "a/b", "a\0b", ".hidden"):
        with pytest.raises(Invalid, match="no name of a volume"):
            await folders.remove(name)
    (tmp_path / "elsewhere").write_text(str(tmp_path / "pvc-2_x"))
    (tmp_path / "pvc-2_x").mkdir()
    (tmp_path / "root" / FOLDER / "pvc-2").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(Retry):
        await folders.remove("pvc-2")
    assert (tmp_path / "pvc-2_x").is_dir()


async def test_a_folder_that_became_a_link_goes_without_what_it_leads_to(tmp_path: Path) -> None:
    folders, path = MadeFolders(str(tmp_path / "root")), tmp_path / "volumes" / "pvc-1_default_c"
    await folders.make("pvc-1", str(path))
    path.rmdir()
    (tmp_path / "precious").mkdir()
    path.symlink_to(tmp_path / "precious")
    await folders.remove("pvc-1")
    assert not path.is_symlink()
    assert (tmp_path / "precious").is_dir()
