"""What volumes hold."""

import os
from pathlib import Path
from typing import Any

import pytest

from kit.waiting import eventually
from pykubelet.api.meta import ObjectMeta
from pykubelet.api.pod import Pod, PodSpec
from pykubelet.api.volumes import EmptyDirVolumeSource, Volume
from pykubelet.host.dirs import PodDirs
from pykubelet.host.stats import storage
from pykubelet.host.stats.storage import FolderMeter, file_system
from pykubelet.host.stats.volumes import measured_folders, pod_volumes, volume_usage
from pykubelet.pod.observed import ObservedPod
from pykubelet.pod.stats.stats import Disk
from unit.host.stats.trees import Clock, FakeMachine, reader_of

UID = "uid-web"
PATIENCE = 20.0
MB = 1_000_000


def fill(folder: Path, count: int = 3) -> int:
    """-> bytes, as the file system counts them."""
    folder.mkdir(parents=True)
    for number in range(count):
        (folder / str(number)).write_bytes(b"x" * 5000)
    return sum(path.stat().st_blocks * 512 for path in (folder, *folder.iterdir()))


async def measured(folder: Path) -> int | None:
    meter = FolderMeter()
    await meter.refresh([str(folder)], patience=PATIENCE)
    found = meter.known(str(folder))
    await meter.close()
    return found.used if found else None


async def test_nothing_lies_too_deep_to_be_counted(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    here = os.open(tmp_path / "a", os.O_RDONLY)
    for _ in range(60):  # 15,000 bytes of path, where the kernel takes 4095
        os.mkdir("d" * 250, dir_fd=here)
        below = os.open("d" * 250, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    file = os.open("file", os.O_WRONLY | os.O_CREAT, dir_fd=here)
    os.write(file, b"x" * MB)
    os.close(file)
    os.close(here)
    handles = len(os.listdir("/proc/self/fd"))
    used = await measured(tmp_path / "a")
    assert used is not None
    assert used >= MB
    assert len(os.listdir("/proc/self/fd")) <= handles + 3  # a thread and a loop may have come, 60 folders have gone


async def test_nobody_leads_the_count_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a/below").mkdir(parents=True)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere/file").write_bytes(b"x" * MB)
    open_as_ever = os.open

    def open_too_late(path: str, *args: Any, **more: Any) -> int:
        if path.endswith("/below"):  # between the look at it and the step into it
            os.rename(path, tmp_path / "away")
            os.symlink(tmp_path / "elsewhere", path)
            path += "/."  # as it is with a folder above it
        return open_as_ever(path, *args, **more)

    monkeypatch.setattr("pykubelet.host.stats.storage.os.open", open_too_late)
    used = await measured(tmp_path / "a")
    assert (tmp_path / "a/below").is_symlink()
    assert used is not None
    assert used < MB


async def test_a_folder_holds_its_files_each_once_and_itself(tmp_path: Path) -> None:
    used = fill(tmp_path / "a")
    os.link(tmp_path / "a/0", tmp_path / "a/again")
    used += fill(tmp_path / "a/below", count=1)
    (tmp_path / "a/elsewhere").symlink_to("/")
    meter = FolderMeter()
    await meter.refresh([str(tmp_path / "a")], patience=PATIENCE)
    measured = meter.known(str(tmp_path / "a"))
    assert measured is not None
    assert measured.inodes_used == 1 + 3 + 2 + 1
    assert measured.used == used + os.lstat(tmp_path / "a/elsewhere").st_blocks * 512
    await meter.close()


async def test_a_folder_is_measured_again_after_a_while_and_forgotten_with_its_pod(tmp_path: Path) -> None:
    fill(tmp_path / "a")
    folder = str(tmp_path / "a")
    meter = FolderMeter(period=3600.0)
    await meter.refresh([folder], patience=PATIENCE)
    first = meter.known(folder)
    (tmp_path / "a/more").write_text("x")
    await meter.refresh([folder], patience=PATIENCE)
    assert meter.known(folder) is first
    await meter.refresh([], patience=PATIENCE)
    assert meter.known(folder) is None
    await meter.close()

    impatient = FolderMeter(period=0.0)
    await impatient.refresh([folder], patience=PATIENCE)
    before = impatient.known(folder)
    assert before is not None
    await impatient.refresh([folder], patience=PATIENCE)  # it is known: nobody waits for the next look
    await eventually(lambda: impatient.known(folder) != before)
    await impatient.close()


async def test_a_closed_meter_begins_no_new_walk(tmp_path: Path) -> None:
    fill(tmp_path / "a")
    meter = FolderMeter()
    await meter.close()
    await meter.refresh([str(tmp_path / "a")], patience=PATIENCE)
    assert meter.known(str(tmp_path / "a")) is None


async def test_a_folder_that_is_not_there_has_no_measure(tmp_path: Path) -> None:
    meter = FolderMeter()
    await meter.refresh([str(tmp_path / "none")], patience=PATIENCE)
    assert meter.known(str(tmp_path / "none")) is None
    await meter.close()


def test_a_file_system_says_how_full_it_is(tmp_path: Path) -> None:
    disk = file_system(str(tmp_path), 5)
    assert disk is not None
    assert disk.capacity is not None
    assert disk.used is not None
    assert disk.at == 5
    assert 0 < disk.used <= disk.capacity
    assert file_system(str(tmp_path / "none"), 5) is None


def test_volumes_are_found_in_the_folders_of_pods(tmp_path: Path) -> None:
    dirs = PodDirs(str(tmp_path))
    memory = Volume(name="fast", empty_dir=EmptyDirVolumeSource(medium="Memory"))
    spec = PodSpec(volumes=(memory, Volume(name="cache", empty_dir=EmptyDirVolumeSource())))
    pod = Pod(metadata=ObjectMeta(name="web", namespace="default", uid=UID), spec=spec)
    for plugin, name in (
        ("empty-dir", "cache"),
        ("empty-dir", "fast"),
        ("configmap", "settings"),
        ("csi", "unmounted"),
    ):
        fill(Path(dirs.volume(UID, f"kubernetes.io/{plugin}", name)))
    found = pod_volumes(dirs, [ObservedPod(uid=UID), ObservedPod(uid="../bad")], {UID: pod})
    assert {(each.name, each.sort, each.is_ephemeral) for each in found[UID]} == {
        ("cache", "counted", True),
        ("fast", "counted", False),
        ("settings", "counted", True),
    }
    assert len(measured_folders(found)) == 3
    assert volume_usage(found[UID][0], lambda _: None) is None


async def test_a_reading_has_small_volumes_at_once(tmp_path: Path) -> None:
    machine = FakeMachine(tmp_path, unified=True)
    used = fill(Path(machine.dirs.volume(UID, "kubernetes.io/empty-dir", "cache")))
    reader = reader_of(machine, {100: machine.pod("web", 100)}, Clock())

    async def volumes() -> int:
        return len((await reader.read()).pods[0].volumes)

    while not await volumes():  # on a busy machine the first answer may come before the first measure
        pass
    (volume,) = (await reader.read()).pods[0].volumes
    await reader.close()
    assert (volume.name, volume.disk.used, volume.disk.inodes_used) == ("cache", used, 4)
    assert volume.disk.capacity is not None


async def test_who_has_to_know_now_gets_what_is_there_now(tmp_path: Path) -> None:
    fill(tmp_path / "a")
    folder, meter = str(tmp_path / "a"), FolderMeter(period=3600.0)
    await meter.refresh([folder], patience=PATIENCE)
    (tmp_path / "a/more").write_bytes(b"x" * MB)
    await meter.refresh([folder], patience=PATIENCE, at_most=0.0)
    found = meter.known(folder)
    assert found is not None
    assert found.used is not None
    assert found.used > MB
    await meter.close()


async def test_a_long_walk_tells_what_it_has_found_so_far(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who fills a folder with more files than can be counted in time is not taken for one who has written nothing."""
    fill(tmp_path / "a", 300)
    folder, meter = str(tmp_path / "a"), FolderMeter()
    told: list[Disk | None] = []
    monkeypatch.setattr(storage, "_TELL_AFTER", 100)
    tell = meter._tell_so_far

    def heard(path: str, found: Disk) -> None:
        tell(path, found)
        told.append(meter.known(path))

    monkeypatch.setattr(meter, "_tell_so_far", heard)
    await meter.refresh([folder], patience=PATIENCE)
    assert [each.inodes_used for each in told if each] == [100, 200, 300]
    found = meter.known(folder)
    assert found is not None
    assert found.inodes_used == 301
    await meter.close()
