import asyncio
import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from contract.pod_source import following
from kit.virtual_time import virtual_time
from pykubelet.pod.lifecycle.pod_update import Listed
from pykubelet.sources import files
from pykubelet.sources.files import FileSource
from unit.sources.followed_files import AT_ONCE, becomes, faults, followed, manifest

# --- the ways of files


@virtual_time
async def test_what_is_there_is_listed_in_the_order_of_names(tmp_path: Path) -> None:
    for name in ("c", "a", "b"):
        (tmp_path / f"{name}.yaml").write_text(manifest(name))
    async with followed(tmp_path) as view:
        assert list(view.images) == ["a", "b", "c"]


@virtual_time
async def test_an_empty_folder_is_an_empty_list(tmp_path: Path) -> None:
    async with following(FileSource(str(tmp_path), "n1")) as view:
        assert await view.next() == Listed(())


@virtual_time
async def test_files_that_come_change_and_go_are_seen_at_once(tmp_path: Path) -> None:
    file = tmp_path / "web.yaml"
    async with followed(tmp_path) as view:
        file.write_text(manifest("web"))
        await becomes(view, web="nginx:1")
        file.write_text(manifest("web", "nginx:2"))
        await becomes(view, web="nginx:2")
        file.unlink()
        await becomes(view)


@virtual_time
async def test_files_moved_in_and_out_are_seen_at_once(tmp_path: Path) -> None:
    folder = tmp_path / "manifests"
    folder.mkdir()
    (tmp_path / "web.yaml").write_text(manifest("web"))
    async with followed(folder) as view:
        (tmp_path / "web.yaml").rename(folder / "web.yaml")
        await becomes(view, web="nginx:1")
        (folder / "web.yaml").rename(tmp_path / "web.yaml")
        await becomes(view)


@virtual_time
async def test_a_renamed_file_is_another_pod_of_the_same_name(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(manifest("web"))
    async with followed(tmp_path) as view:
        (before,) = view.pods
        (tmp_path / "a.yaml").rename(tmp_path / "b.yaml")
        await becomes(view, web="nginx:1")
        assert before not in view.pods


def truncate_and_write(file: Path, text: str) -> None:
    with file.open("w") as writer:
        writer.write(text[:20])
        writer.flush()
        writer.write(text[20:])


def write_beside_and_rename(file: Path, text: str) -> None:
    beside = file.with_name(f"{file.name}.tmp1234")
    beside.write_text(text)
    beside.rename(file)


def sed_in_place(file: Path, text: str) -> None:
    beside = file.with_name("sedXk3b1Q")
    beside.write_text(text)
    beside.chmod(0o644)
    beside.rename(file)


def vim(file: Path, text: str) -> None:
    swap, probe, backup = file.with_name(f".{file.name}.swp"), file.with_name("4913"), file.with_name(f"{file.name}~")
    swap.write_bytes(b"b0VIM 9.0")
    probe.touch()
    probe.unlink()
    file.rename(backup)
    file.write_text(text)
    file.chmod(0o644)
    backup.unlink()
    swap.unlink()


def hard_link_over(file: Path, text: str) -> None:
    beside = file.with_name(".beside")
    beside.write_text(text)
    file.unlink()
    file.hardlink_to(beside)


@pytest.mark.parametrize(
    "edit",
    [truncate_and_write, write_beside_and_rename, sed_in_place, vim, hard_link_over],
    ids=lambda edit: edit.__name__,
)
@virtual_time
async def test_an_editor_makes_one_change_whatever_its_ways(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, edit: Callable[[Path, str], None]
) -> None:
    (tmp_path / "db.yaml").write_text(manifest("db"))
    (tmp_path / "web.yaml").write_text(manifest("web"))
    async with followed(tmp_path) as view:
        edit(tmp_path / "web.yaml", manifest("web", "nginx:2"))
        await becomes(view, db="nginx:1", web="nginx:2")
        await view.silence(100)
    assert not caplog.records


@virtual_time
async def test_a_half_written_file_is_not_looked_at_while_its_writer_goes_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    text = manifest("web")
    async with followed(tmp_path) as view:
        with (tmp_path / "web.yaml").open("w") as writer:
            writer.write(text[:30])
            writer.flush()
            await view.silence(5)
            writer.write(text[30:])
        await becomes(view, web="nginx:1")
    assert not caplog.records


@virtual_time
async def test_a_file_written_again_with_the_same_content_is_no_change(tmp_path: Path) -> None:
    (tmp_path / "web.yaml").write_text(manifest("web"))
    async with followed(tmp_path) as view:
        (tmp_path / "web.yaml").write_text(manifest("web"))
        (tmp_path / "web.yaml").touch()
        await view.silence(100)


@virtual_time
async def test_a_change_that_changes_no_pod_is_not_told(tmp_path: Path) -> None:
    (tmp_path / "web.yaml").write_text(manifest("web"))
    async with followed(tmp_path) as view:
        (tmp_path / "web.yaml").write_text("# remark\n" + manifest("web"))
        await view.silence(100)


@virtual_time
async def test_nothing_is_told_while_nothing_changes(tmp_path: Path) -> None:
    (tmp_path / "web.yaml").write_text(manifest("web"))
    async with followed(tmp_path) as view:
        await view.silence(1000)


# --- links


@virtual_time
async def test_links_to_files_are_followed(tmp_path: Path) -> None:
    folder = tmp_path / "manifests"
    folder.mkdir()
    for number in (1, 2):
        (tmp_path / f"v{number}").write_text(manifest("web", f"nginx:{number}"))
    async with followed(folder) as view:
        (folder / "web.yaml").symlink_to(tmp_path / "v1")
        await becomes(view, web="nginx:1")
        (folder / "new").symlink_to(tmp_path / "v2")
        (folder / "new").rename(folder / "web.yaml")
        await becomes(view, web="nginx:2")


@virtual_time
async def test_a_change_behind_a_link_is_seen_by_the_safety_net(tmp_path: Path) -> None:
    folder = tmp_path / "manifests"
    folder.mkdir()
    (tmp_path / "far").write_text(manifest("web"))
    (folder / "web.yaml").symlink_to(tmp_path / "far")
    async with followed(folder) as view:
        (tmp_path / "far").write_text(manifest("web", "nginx:2"))
        await becomes(view, within=20.1, web="nginx:2")


@pytest.mark.parametrize("target", ["nowhere", "loop.yaml"])
@virtual_time
async def test_a_link_to_nowhere_disturbs_nobody(tmp_path: Path, target: str) -> None:
    (tmp_path / "loop.yaml").symlink_to(target)
    async with followed(tmp_path) as view:
        (tmp_path / "web.yaml").write_text(manifest("web"))
        await becomes(view, web="nginx:1")


@virtual_time
async def test_a_config_map_volume_changes_as_a_whole(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    for number in (1, 2):
        version = tmp_path / f"..2026_01_0{number}"
        version.mkdir()
        for name in ("web", "db"):
            (version / f"{name}.yaml").write_text(manifest(name, f"{name}:{number}"))
    (tmp_path / "..data").symlink_to("..2026_01_01")
    for name in ("web", "db"):
        (tmp_path / f"{name}.yaml").symlink_to(f"..data/{name}.yaml")
    async with followed(tmp_path) as view:
        assert view.images == {"web": "web:1", "db": "db:1"}
        (tmp_path / "..data_tmp").symlink_to("..2026_01_02")
        (tmp_path / "..data_tmp").rename(tmp_path / "..data")
        await becomes(view, web="web:2", db="db:2")
    assert not caplog.records


# --- a single file


@virtual_time
async def test_the_path_may_be_a_single_file(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = tmp_path / "web.yaml"
    (tmp_path / "other.yaml").write_text(manifest("other"))
    async with followed(file) as view:
        assert faults(caplog) == [f"{file}: does not exist; waiting for it"]
        file.write_text(manifest("web"))
        await becomes(view, web="nginx:1")
        sed_in_place(file, manifest("web", "nginx:2"))
        await becomes(view, web="nginx:2")
        file.write_text("{")
        await view.silence(100)
        file.unlink()
        await becomes(view)


@virtual_time
async def test_the_path_of_a_single_file_may_be_relative(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    async with followed(Path("web.yaml")) as view:
        (tmp_path / "web.yaml").write_text(manifest("web"))
        await becomes(view, web="nginx:1")


# --- the folder itself


@virtual_time
async def test_a_folder_may_come_go_and_come_back(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder = tmp_path / "manifests"
    async with followed(folder) as view:
        for number in ("1", "2"):
            assert faults(caplog) == [f"{folder}: does not exist; waiting for it"]
            folder.mkdir()
            (folder / "web.yaml").write_text(manifest("web", number))
            await becomes(view, web=number)
            (folder / "db.yaml").write_text(manifest("db", number))
            await becomes(view, web=number, db=number)
            (folder / "db.yaml").unlink()
            await becomes(view, web=number)
            (folder / "web.yaml").unlink()
            await becomes(view)
            folder.rmdir()
            await view.silence(30)


@virtual_time
async def test_a_folder_that_disappears_with_its_manifests_takes_no_pod_away(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "manifests"
    folder.mkdir()
    (folder / "web.yaml").write_text(manifest("web", "1"))
    async with followed(folder) as view:
        folder.rename(tmp_path / "away")
        await view.silence(100)
        assert faults(caplog) == [f"{folder}: has disappeared; its pods go on without it"]
        (tmp_path / "away").rename(folder)
        (folder / "web.yaml").write_text(manifest("web", "2"))
        await becomes(view, web="2")


@virtual_time
async def test_a_folder_may_be_replaced_by_another(tmp_path: Path) -> None:
    folder, spare = tmp_path / "manifests", tmp_path / "spare"
    for number, each in enumerate((folder, spare)):
        each.mkdir()
        (each / "web.yaml").write_text(manifest("web", str(number)))
    async with followed(folder) as view:
        folder.rename(tmp_path / "old")
        spare.rename(folder)
        await becomes(view, web="1")
        (folder / "web.yaml").write_text(manifest("web", "2"))
        await becomes(view, web="2")
        (tmp_path / "old" / "web.yaml").write_text(manifest("web", "3"))
        await view.silence(100)


@virtual_time
async def test_a_link_to_a_folder_may_be_turned_to_another(tmp_path: Path) -> None:
    for number in ("1", "2"):
        (tmp_path / number).mkdir()
        (tmp_path / number / "web.yaml").write_text(manifest("web", number))
    link = tmp_path / "link"
    link.symlink_to("1")
    async with followed(link) as view:
        link.unlink()
        link.symlink_to("2")
        await becomes(view, within=20.1, web="2")
        (link / "web.yaml").write_text(manifest("web", "3"))
        await becomes(view, web="3")  # from now on it is the new folder that is watched


@virtual_time
async def test_a_folder_may_become_a_file(tmp_path: Path) -> None:
    path = tmp_path / "manifests"
    path.mkdir()
    (path / "web.yaml").write_text(manifest("web"))
    async with followed(path) as view:
        path.rename(tmp_path / "old")
        path.write_text(manifest("web", "nginx:2"))
        await becomes(view, web="nginx:2")


@virtual_time
async def test_a_slash_at_the_end_makes_no_difference(tmp_path: Path) -> None:
    (tmp_path / "web.yaml").write_text(manifest("web"))
    uids = []
    for path in (str(tmp_path), f"{tmp_path}/"):
        async with following(FileSource(path, "n1")) as view:
            await view.next()
            uids += list(view.pods)
    assert len(set(uids)) == 1


# --- the safety net


@virtual_time
async def test_without_word_from_the_kernel_changes_are_seen_every_period(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "out of inotify watches")

    monkeypatch.setattr(files, "FolderWatch", full)
    loop = asyncio.get_running_loop()
    async with followed(tmp_path, period=30) as view:
        for number in (1, 2, 3):
            await asyncio.sleep(7)
            (tmp_path / "web.yaml").write_text(manifest("web", str(number)))
            await becomes(view, within=30, web=str(number))
            assert loop.time() == 30 * number
        await view.silence(1000)
    assert faults(caplog) == [f"{tmp_path}: changes are noticed only every 30 s: out of inotify watches"]


@virtual_time
async def test_the_kernel_is_asked_again_when_it_had_no_watch_to_give(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "out of inotify watches")

    with monkeypatch.context() as patch:
        patch.setattr(files, "FolderWatch", full)
        async with followed(tmp_path) as view:
            patch.undo()
            await view.silence(25)
            (tmp_path / "web.yaml").write_text(manifest("web"))
            await becomes(view, web="nginx:1")


@virtual_time
async def test_a_stream_of_changes_does_not_keep_the_first_from_being_seen(tmp_path: Path) -> None:
    async with followed(tmp_path) as view:
        (tmp_path / "web.yaml").write_text(manifest("web"))
        started = asyncio.get_running_loop().time()
        while not view.pods:
            (tmp_path / "noise").touch()
            (tmp_path / "noise").unlink()
            await asyncio.sleep(0.001)
        assert asyncio.get_running_loop().time() - started < AT_ONCE


@virtual_time
async def test_a_closed_watch_leaves_nothing_open(tmp_path: Path) -> None:
    open_before = len(os.listdir("/proc/self/fd"))
    async with followed(tmp_path):
        assert len(os.listdir("/proc/self/fd")) == open_before + 1
    assert len(os.listdir("/proc/self/fd")) == open_before


async def test_on_real_time_a_change_is_seen_at_once(tmp_path: Path) -> None:
    async with followed(tmp_path) as view:
        (tmp_path / "web.yaml").write_text(manifest("web"))
        await becomes(view, within=10, web="nginx:1")


def delete_and_write(file: Path) -> None:
    text = file.read_text()
    file.unlink()
    file.write_text(text)


def move_out_and_in(file: Path) -> None:
    outside = file.parent.parent / f"outside-{file.name}"
    file.rename(outside)
    outside.rename(file)


def hide_and_show(file: Path) -> None:
    hidden = file.with_name(f".{file.name}")
    file.rename(hidden)
    hidden.rename(file)


@pytest.mark.parametrize("restart", [delete_and_write, move_out_and_in, hide_and_show], ids=lambda each: each.__name__)
@pytest.mark.parametrize("single", [False, True], ids=["folder", "file"])
@virtual_time
async def test_a_manifest_that_is_back_at_once_was_removed_all_the_same(
    tmp_path: Path, restart: Callable[[Path], None], single: bool
) -> None:
    folder = tmp_path / "manifests"
    folder.mkdir()
    (folder / "web.yaml").write_text(manifest("web"))
    (folder / "db.yaml").write_text(manifest("db"))
    async with followed(folder / "web.yaml" if single else folder) as view:
        before = tuple(view.pods.values())
        restart(folder / "web.yaml")
        gone = await view.next(within=AT_ONCE)
        assert isinstance(gone, Listed)
        assert [pod.metadata.name for pod in gone.pods] == ([] if single else ["db-n1"])
        assert await view.next(within=AT_ONCE) == Listed(before)
        await view.silence(100)


@pytest.mark.parametrize("edit", [truncate_and_write, write_beside_and_rename, sed_in_place, vim])
@virtual_time
async def test_an_editor_that_changes_nothing_removes_nothing(
    tmp_path: Path, edit: Callable[[Path, str], None]
) -> None:
    (tmp_path / "web.yaml").write_text(manifest("web"))
    async with followed(tmp_path) as view:
        edit(tmp_path / "web.yaml", manifest("web"))
        await view.silence(100)


@virtual_time
async def test_a_folder_that_is_made_anew_with_the_same_manifests_restarts_no_pod(tmp_path: Path) -> None:
    folder = tmp_path / "manifests"
    folder.mkdir()
    (folder / "web.yaml").write_text(manifest("web"))
    async with followed(folder) as view:
        (folder / "web.yaml").unlink()
        folder.rmdir()
        folder.mkdir()
        (folder / "web.yaml").write_text(manifest("web"))
        await view.silence(100)


# --- fields that nobody knows


@virtual_time
async def test_a_misspelled_field_keeps_the_pod_from_running_without_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "web.yaml").write_text(manifest("web") + "sped: {}\n")
    async with following(FileSource(str(tmp_path), "n1")) as view:
        assert await view.next() == Listed(())
    assert faults(caplog) == [f"{tmp_path}/web.yaml:5:1: sped: there is no such field; did you mean spec?"]


@virtual_time
async def test_in_the_lenient_way_it_is_warned_of_once_and_the_pod_runs(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "web.yaml").write_text(manifest("web") + "sped: {}\n")
    async with following(FileSource(str(tmp_path), "n1", period=1.0, lenient=True)) as view:
        await view.next()
        assert list(view.images) == ["web"]
        await asyncio.sleep(5)
    told = f"{tmp_path}/web.yaml:5:1: sped: there is no such field; did you mean spec?; it is ignored"
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [("WARNING", told)]
