"""What a machine has left, and disks that do not answer."""

import asyncio
import threading
from pathlib import Path

import pytest

from pykubelet.base.errors import Retry
from pykubelet.host.stats import reader as reading
from pykubelet.host.stats.disks import PressureReader
from pykubelet.pod.eviction.thresholds import observations
from pykubelet.pod.stats.stats import Disk, ImageStore
from unit.host.stats.trees import Clock, FakeMachine, FakePlaces, reader_of


@pytest.fixture(params=[False, True], ids=["version 1", "version 2"])
def machine(request: pytest.FixtureRequest, tmp_path: Path) -> FakeMachine:
    return FakeMachine(tmp_path, unified=request.param)


async def test_a_look_at_the_machine_alone_sees_what_is_left_of_everything(machine: FakeMachine) -> None:
    machine.group("/kubepods")
    reader = reader_of(machine, {}, Clock())
    node = await reader.node()
    await reader.close()
    seen = observations(node)
    assert seen.keys() >= {
        *("memory.available", "allocatableMemory.available", "pid.available"),
        *("nodefs.available", "imagefs.available", "containerfs.available"),
    }
    assert (seen["allocatableMemory.available"].available, seen["allocatableMemory.available"].capacity) == (
        *(1_300_000, 2_000_000),
    )
    assert node.disk == node.images


async def test_a_disk_that_does_not_answer_holds_up_nobody_and_takes_one_thread(
    machine: FakeMachine, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    asked, answers = [], threading.Event()

    def hanging(self: PressureReader, images: ImageStore | None, at: int) -> tuple[Disk | None, Disk | None]:
        asked.append(at)
        answers.wait(20)
        return None, None

    monkeypatch.setattr(PressureReader, "disks", hanging)
    monkeypatch.setattr(reading, "_DISK_PATIENCE", 0.05)
    reader = reader_of(machine, {}, Clock())
    try:
        for _ in range(3):
            seen = observations(await reader.node())
            assert "memory.available" in seen
            assert "nodefs.available" not in seen
        assert len(asked) == 1
        assert "a disk has not said" in caplog.text
    finally:
        answers.set()
        await reader.close()


async def test_where_images_are_is_asked_until_it_is_known(machine: FakeMachine) -> None:
    class Shy(FakePlaces):
        async def images(self) -> ImageStore | None:
            self.asked += 1
            if self.asked == 1:
                raise Retry("not now")
            return ImageStore(path=str(machine.proc))

    places = Shy({})
    reader = reader_of(machine, {}, Clock(), places)
    for _ in range(4):
        assert (await reader.node()).images is not None
    assert places.asked == 2
    await reader.close()


async def test_pods_are_measured_for_whoever_has_to_choose(machine: FakeMachine) -> None:
    pod = machine.pod("web", 100)
    reader = reader_of(machine, {100: pod}, Clock())
    found, again = await asyncio.gather(reader.pods(files=True), reader.pods(files=False))
    assert [each.uid for each in (*found, *again)] == [pod.uid] * 2
    await reader.close()
