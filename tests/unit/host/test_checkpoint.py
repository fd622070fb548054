import asyncio
from pathlib import Path

import pytest

from kit.pods import make_pod
from kit.waiting import eventually
from pykubelet.host.checkpoint import PodCheckpoint


async def written(checkpoint: PodCheckpoint, folder: Path, count: int) -> None:
    running = asyncio.create_task(checkpoint.run())
    await eventually(lambda: len(list(folder.glob("*.json"))) == count)
    running.cancel()


async def test_what_was_saved_is_loaded_and_what_was_dropped_is_not(tmp_path: Path) -> None:
    checkpoint = PodCheckpoint(tmp_path, machine="m1")
    for name in ("a", "b"):
        checkpoint.save(make_pod(name, uid=name))
    await written(checkpoint, tmp_path, 2)
    checkpoint.drop("a")
    await written(checkpoint, tmp_path, 1)
    assert [pod.metadata.name for pod in PodCheckpoint(tmp_path, machine="m1").load()] == ["b"]
    assert (tmp_path / "b.json").stat().st_mode & 0o777 == 0o600


async def test_a_copied_disk_does_not_bring_another_machines_pods_to_life(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    first = PodCheckpoint(tmp_path, machine="m1")
    first.save(make_pod("theirs", uid="theirs"))
    await written(first, tmp_path, 1)
    copy = PodCheckpoint(tmp_path, machine="m2")
    assert copy.load() == ()
    assert "was made by another machine" in caplog.text
    copy.save(make_pod("ours", uid="ours"))
    await eventually_ours(copy, tmp_path)
    assert [pod.metadata.name for pod in PodCheckpoint(tmp_path, machine="m2").load()] == ["ours"]


async def eventually_ours(checkpoint: PodCheckpoint, folder: Path) -> None:
    running = asyncio.create_task(checkpoint.run())
    await eventually(lambda: [path.name for path in folder.glob("*.json")] == ["ours.json"])
    running.cancel()


def test_a_file_that_cannot_be_read_is_told_of_and_skipped(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "x.json").write_text("{")
    assert PodCheckpoint(tmp_path).load() == ()
    assert "x.json cannot be used" in caplog.text
