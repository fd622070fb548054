"""Volumes that have to be asked how full they are: claims, file systems from elsewhere, those of storage drivers."""

import asyncio
import json
import os
import threading
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from kit.virtual_time import virtual_time
from pykubelet.api import codec
from pykubelet.api.pod import Pod
from pykubelet.base.errors import Retry
from pykubelet.host.stats import StatsReader, StatsSettings, asked
from pykubelet.host.stats.asked import AskedMeter, Measured, mounted_usage
from pykubelet.host.stats.volumes import VolumeSources
from pykubelet.host.volumes.claims import ClaimedPlace
from pykubelet.pod.observed import ObservedPod
from pykubelet.pod.stats.stats import Disk, VolumeHealth
from pykubelet.pod.stats.summary import summary
from pykubelet.server.metrics.storage_metrics import storage_values
from unit.host.stats.trees import FakeMachine, places_of

UID = "uid-web"


def answer(used: int = 1, *, abnormal: bool | None = None) -> Measured:
    health = VolumeHealth(abnormal, "the disk is on fire") if abnormal is not None else None
    return Disk(at=1, capacity=10, available=9, used=used, inodes=0, inodes_free=0, inodes_used=0), health


@virtual_time
async def test_one_that_does_not_answer_keeps_nobody_waiting_and_is_asked_once() -> None:
    meter, calls = AskedMeter(period=60.0), dict.fromkeys(("hangs", "fails", "well"), 0)

    async def ask(name: str) -> Measured | None:
        calls[name] += 1
        if name == "hangs":
            await asyncio.sleep(3600)
        if name == "fails":
            raise Retry("no")
        return answer(calls[name])

    asks: dict[str, Any] = {name: lambda name=name: ask(name) for name in calls}
    began = asyncio.get_running_loop().time()
    await meter.refresh(asks, patience=0.1)
    assert asyncio.get_running_loop().time() - began == pytest.approx(0.1)
    for _ in range(10):
        await asyncio.sleep(61)
        began = asyncio.get_running_loop().time()
        await meter.refresh(asks, patience=0.1)
        assert asyncio.get_running_loop().time() == began
    await asyncio.sleep(1)
    assert calls == {"hangs": 1, "fails": 11, "well": 11}
    assert meter.known("well") == answer(11)
    assert meter.known("hangs") is meter.known("fails") is None
    await meter.refresh({}, patience=0.1)
    assert meter.known("well") is None
    await meter.close()


async def test_a_dead_file_system_takes_no_thread_that_others_need(monkeypatch: pytest.MonkeyPatch) -> None:
    released = threading.Event()
    monkeypatch.setattr(asked, "file_system", lambda path, at: released.wait(30) and None)
    meter = AskedMeter()
    await meter.refresh({str(n): partial(mounted_usage, str(n)) for n in range(40)}, patience=0.01)
    assert await asyncio.wait_for(asyncio.to_thread(lambda: 7), 10) == 7
    await asyncio.wait_for(meter.close(), 10)
    released.set()


class World:
    """One pod, whose volumes are told of by a reading."""

    def __init__(self, folder: Path, told: Measured | Exception | None, **volumes: Any) -> None:
        self.machine = FakeMachine(folder, unified=True)
        self.told = told
        self.abnormal: list[str] = []
        self.asked: list[tuple[str, str]] = []
        spec = {"containers": [], "volumes": [{"name": name, **each} for name, each in volumes.items()]}
        self.pod = codec.convert(Pod, {"metadata": {"name": "web", "namespace": "default", "uid": UID}, "spec": spec})
        self.claimed: list[ClaimedPlace] = []

    async def usage(self, uid: str, folder: str) -> Measured | None:
        self.asked.append((uid, folder))
        if isinstance(self.told, Exception):
            raise self.told
        return self.told

    async def volumes(self, count: int) -> list[Any]:
        pods = {100: self.machine.pod("web", 100)}

        async def observe() -> Sequence[ObservedPod]:
            return tuple(pods.values())

        def tell(_: Pod, text: str) -> None:
            self.abnormal.append(text)

        sources = VolumeSources(claimed=lambda uid: self.claimed, usage=self.usage, tell_abnormal=tell)
        settings = StatsSettings(proc=str(self.machine.proc), sys=str(self.machine.sys), fresh=0.0)
        reader = StatsReader(
            observe, places_of(pods), self.machine.dirs, wanted=lambda: (self.pod,), volumes=sources, settings=settings
        )

        self.reading = await reader.read()
        while len(self.reading.pods[0].volumes) != count:  # on a busy machine the first answer may come before theirs
            self.reading = await reader.read()
        await reader.close()
        shown = json.loads(codec.encode(summary(self.reading, "n1")))["pods"][0].get("volume", [])
        return sorted(shown, key=lambda each: str(each["name"]))

    def drivers_volume(self, name: str) -> None:
        folder = Path(self.machine.dirs.volume(UID, "kubernetes.io/csi", name))
        folder.mkdir(parents=True)
        (folder / "vol_data.json").write_text("{}")


async def test_a_claim_has_its_pods_name_for_it_and_what_its_driver_says(tmp_path: Path) -> None:
    world = World(tmp_path, answer(4, abnormal=True), data={"persistentVolumeClaim": {"claimName": "mine"}})
    world.drivers_volume("pv-1")
    world.claimed = [ClaimedPlace("data", "mine", "pv-1", world.machine.dirs.volume(UID, "kubernetes.io/csi", "pv-1"))]
    (shown,) = await world.volumes(1)
    assert world.asked == [(UID, "pv-1")]
    assert (shown["name"], shown["usedBytes"], shown["capacityBytes"], shown["inodes"]) == ("data", 4, 10, 0)
    assert shown["pvcRef"] == {"name": "mine", "namespace": "default"}
    assert shown["volumeHealthStats"] == {"abnormal": True}
    assert world.abnormal == ["Volume data: the disk is on fire"]
    values = storage_values(world.reading)
    assert values["kubelet_volume_stats_used_bytes"] == {("default", "mine"): 4.0}
    assert values["kubelet_volume_stats_health_status_abnormal"] == {("default", "mine"): 1.0}


async def test_a_volume_of_the_pods_own_is_asked_for_too_and_is_no_claim(tmp_path: Path) -> None:
    world = World(tmp_path, answer(4, abnormal=False), cache={"csi": {"driver": "d.example.com"}})
    world.drivers_volume("cache")
    (shown,) = await world.volumes(1)
    assert (shown["name"], shown["volumeHealthStats"], "pvcRef" in shown) == ("cache", {"abnormal": False}, False)
    assert storage_values(world.reading)["kubelet_volume_stats_used_bytes"] == {}
    assert world.abnormal == []


async def test_a_folder_of_the_machine_that_is_claimed_is_as_full_as_its_disk(tmp_path: Path) -> None:
    world = World(tmp_path, None, data={"persistentVolumeClaim": {"claimName": "mine"}})
    disk = ClaimedPlace("disk", "raw", "pv-2", "/dev/null", is_block=True)
    world.claimed = [ClaimedPlace("data", "mine", "pv-1", str(tmp_path)), disk]
    (shown,) = await world.volumes(1)
    size = os.statvfs(tmp_path)
    assert (shown["name"], shown["pvcRef"]["name"]) == ("data", "mine")
    assert shown["capacityBytes"] == size.f_blocks * size.f_frsize


@pytest.mark.parametrize("told", [None, Retry("not now")])
async def test_what_is_not_mounted_and_not_told_is_not_guessed(tmp_path: Path, told: Any) -> None:
    world = World(tmp_path, told)
    world.drivers_volume("pv-1")
    assert await world.volumes(0) == []
