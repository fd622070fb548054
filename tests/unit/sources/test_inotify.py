import asyncio
import ctypes
import errno
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from pykubelet.sources import inotify
from pykubelet.sources.inotify import FolderWatch


class Ears:
    def __init__(self) -> None:
        self.heard = asyncio.Event()

    async def hear(self) -> None:
        async with asyncio.timeout(10):
            await self.heard.wait()
        self.heard.clear()


@asynccontextmanager
async def watching(folder: Path) -> AsyncIterator[tuple[FolderWatch, Ears]]:
    ears = Ears()
    watch = FolderWatch(str(folder), ears.heard.set)
    try:
        yield watch, ears
    finally:
        watch.close()


async def test_every_kind_of_change_is_told(tmp_path: Path) -> None:
    file = tmp_path / "a"
    async with watching(tmp_path) as (_, ears):
        file.write_text("new")
        await ears.hear()
        with file.open("a") as writer:
            writer.write("more")
        await ears.hear()
        file.chmod(0o600)
        await ears.hear()
        file.rename(tmp_path / "b")
        await ears.hear()
        (tmp_path / "link").symlink_to("b")
        await ears.hear()
        (tmp_path / "hard").hardlink_to(tmp_path / "b")
        await ears.hear()
        (tmp_path / "folder").mkdir()
        await ears.hear()
        (tmp_path / "b").unlink()
        await ears.hear()


async def test_a_file_that_is_being_written_is_told_of_when_it_is_closed(tmp_path: Path) -> None:
    async with watching(tmp_path) as (watch, ears):
        with (tmp_path / "half").open("w") as writer:
            writer.write("the first half")
            writer.flush()
            watch._read()
            assert not ears.heard.is_set()
        await ears.hear()


async def test_reading_a_file_is_no_change(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x")
    async with watching(tmp_path) as (watch, ears):
        (tmp_path / "a").read_text()
        os.listdir(tmp_path)
        watch._read()
        assert not ears.heard.is_set()


async def test_a_folder_that_goes_away_is_lost(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    async with watching(folder) as (watch, ears):
        assert watch.covers(str(folder))
        folder.rmdir()
        await ears.hear()
        assert watch.lost
        folder.mkdir()
        assert not watch.covers(str(folder))


async def test_a_folder_that_is_moved_is_lost(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    async with watching(folder) as (watch, ears):
        folder.rename(tmp_path / "moved")
        await ears.hear()
        assert watch.lost


async def test_a_link_that_is_turned_to_another_folder_is_no_longer_covered(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    link = tmp_path / "link"
    link.symlink_to("one")
    async with watching(link) as (watch, _):
        assert watch.covers(str(link))
        link.unlink()
        link.symlink_to("two")
        assert not watch.covers(str(link))


async def test_more_changes_than_the_kernel_remembers_are_still_a_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    overflow = inotify._HEADER.pack(-1, inotify._OVERFLOW, 0, 0)
    async with watching(tmp_path) as (watch, ears):
        with monkeypatch.context() as patch:
            patch.setattr(os, "read", lambda *_: overflow)
            watch._read()
        assert ears.heard.is_set()


@pytest.mark.parametrize("what", ["missing", "file"])
async def test_what_is_no_folder_cannot_be_watched(tmp_path: Path, what: str) -> None:
    (tmp_path / "file").touch()
    open_before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(OSError, match=r"No such file or directory|Not a directory"):
        FolderWatch(str(tmp_path / what), lambda: None)
    assert len(os.listdir("/proc/self/fd")) == open_before


async def test_the_reason_for_a_lack_of_watches_tells_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Full:
        inotify_init1 = inotify._libc.inotify_init1

        @staticmethod
        def inotify_add_watch(*_: object) -> int:
            ctypes.set_errno(errno.ENOSPC)
            return -1

    monkeypatch.setattr(inotify, "_libc", Full)
    with pytest.raises(OSError, match=r"raise fs\.inotify\.max_user_watches"):
        FolderWatch(str(tmp_path), lambda: None)


async def test_closing_twice_does_no_harm(tmp_path: Path) -> None:
    open_before = len(os.listdir("/proc/self/fd"))
    async with watching(tmp_path) as (watch, _):
        watch.close()
    assert len(os.listdir("/proc/self/fd")) == open_before
