"""A volume that has grown is made larger by its driver, while it is used or before, and its claim is told."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from kit.csi_driver import RPC, StorageDriver
from kit.csi_world import Api, World, pod, short_folder, volume
from pykubelet.api import codec
from pykubelet.api.storage import ClaimedVolume, SecretReference
from pykubelet.base.errors import Retry
from pykubelet.web import grpc_server

pytestmark = pytest.mark.skipif(os.getuid() != 0, reason="an ordinary user mounts nothing")
CAN = (RPC.STAGE_UNSTAGE_VOLUME, RPC.EXPAND_VOLUME)
DONE = {"capacity": {"storage": "2Gi"}, "allocatedResourceStatuses": {"storage": None}}
BEGUN = {"allocatedResourceStatuses": {"storage": "NodeResizeInProgress"}}
SECRET = SecretReference("e", "ns")


class Refused(Retry):
    def __init__(self, code: grpc.StatusCode) -> None:
        super().__init__("no")
        self.code = code


@pytest.fixture(autouse=True)
def _with_its_own_code(monkeypatch: pytest.MonkeyPatch) -> None:
    usual = grpc_server._code
    monkeypatch.setattr(grpc_server, "_code", lambda error: getattr(error, "code", None) or usual(error))


@pytest.fixture
def root() -> Iterator[Path]:
    with short_folder() as folder:
        yield folder


def of(has: str, size: str, step: str = "", **more: Any) -> Any:
    status: dict[str, Any] = {"capacity": {"storage": has}}
    if step:
        status |= {"allocatedResourceStatuses": {"storage": step}, "allocatedResources": {"storage": size}}
    claim = {"metadata": {"name": "c"}, "spec": {"resources": {"requests": {"storage": size}}}, "status": status}
    found = {"claim": claim, "volume": {"metadata": {"name": "pv1"}, "spec": {"capacity": {"storage": size}}}}
    return volume(claimed=codec.convert(ClaimedVolume, found), **more)


def refusing(code: grpc.StatusCode) -> Any:
    def trouble(call: str) -> None:
        if call == "expand":
            raise Refused(code)

    return trouble


async def test_one_in_use_grows_and_people_hear_of_it(root: Path) -> None:
    world, driver = World(root, Api()), StorageDriver(root, "disk.example.com", *CAN)
    async with world.with_driver(driver):
        await world.drivers.set_up(pod(), of("1Gi", "1Gi"), None)
        assert "expand vol-1" not in driver.asked
        grown = of("1Gi", "2Gi", "NodeResizePending", expand_secret=SECRET)
        await world.drivers.set_up(pod(), grown, None)
        await world.drivers.set_up(pod(), of("2Gi", "2Gi"), None)
        assert driver.asked.count("expand vol-1") == 1
    request: Any = driver.requests["expand"]
    assert request.capacity_range.required_bytes == 2 << 30
    assert request.volume_path.endswith("/u1/volumes/kubernetes.io~csi/pv1/mount")
    assert request.staging_target_path.endswith("/globalmount")
    assert dict(request.secrets) == {"of": "ns/e"}
    assert world.api.patches == [BEGUN, DONE]
    text = 'FileSystemResizeSuccessful: MountVolume.NodeExpandVolume succeeded for volume "pv1" n1'
    assert world.events.told == [f"p: {text}", f"PersistentVolumeClaim c: {text}"]


async def test_one_that_grew_before_is_large_before_its_pod_gets_it(root: Path) -> None:
    world, driver = World(root, Api()), StorageDriver(root, "disk.example.com", *CAN)
    driver.trouble = refusing(grpc.StatusCode.INTERNAL)
    async with world.with_driver(driver):
        for _ in range(2):  # it is mounted by then, and not the pod's yet
            with pytest.raises(Retry, match="failed to expand the volume : rpc error: code = Internal desc = no"):
                await world.drivers.set_up(pod(), of("1Gi", "2Gi", "NodeResizePending"), None)
        driver.trouble = lambda call: None
        await world.drivers.set_up(pod(), of("1Gi", "2Gi", "NodeResizeInProgress"), None)
        assert world.api.patches[-1] == DONE
        assert driver.asked == ["stage vol-1", "publish vol-1", *["expand vol-1"] * 3]


@pytest.mark.parametrize(
    ("code", "step"),
    [
        (grpc.StatusCode.INTERNAL, ""),
        (grpc.StatusCode.OUT_OF_RANGE, "NodeResizeInfeasible"),
        (grpc.StatusCode.FAILED_PRECONDITION, ""),
        (grpc.StatusCode.ABORTED, None),
    ],
)
async def test_a_pod_goes_on_with_a_volume_that_does_not_grow(
    root: Path, code: grpc.StatusCode, step: str | None
) -> None:
    world, driver = World(root, Api()), StorageDriver(root, "disk.example.com", *CAN)
    async with world.with_driver(driver):
        await world.drivers.set_up(pod(), of("1Gi", "1Gi"), None)
        driver.trouble = refusing(code)
        for _ in range(3):  # not before its time, however often its pod is looked at
            await world.drivers.set_up(pod(), of("1Gi", "2Gi", "NodeResizeInProgress"), None)
        assert driver.asked.count("expand vol-1") == 1
    told = [patch for patch in world.api.patches if "conditions" in patch]
    assert [patch.get("allocatedResourceStatuses", {}).get("storage", "") for patch in told] == (
        [] if step is None else [step]
    )
    is_refused = code is grpc.StatusCode.FAILED_PRECONDITION  # not while it is in use: nothing is wrong
    assert ["VolumeResizeFailed" in each for each in world.events.told] == ([] if is_refused else [True])


@pytest.mark.parametrize(
    ("capabilities", "wanted", "asked", "events"),
    [
        (CAN, of("1Gi", "2Gi"), 1, 2),  # of a controller that says nothing of how far it is
        ((RPC.STAGE_UNSTAGE_VOLUME,), of("1Gi", "2Gi"), 0, 0),
        (CAN, of("1Gi", "2Gi", "NodeResizePending", read_only=True), 0, 2),
        (CAN, of("1Gi", "2Gi", "ControllerResizeInProgress"), 0, 0),
    ],
)
async def test_who_is_asked_at_all(root: Path, capabilities: Any, wanted: Any, asked: int, events: int) -> None:
    world, driver = World(root, Api()), StorageDriver(root, "disk.example.com", *capabilities)
    async with world.with_driver(driver):
        await world.drivers.set_up(pod(), wanted, None)
        await world.drivers.set_up(pod(), wanted, None)
    assert driver.asked.count("expand vol-1") == asked
    assert len(world.events.told) == events


async def test_of_a_volume_that_is_gone_nothing_is_remembered(root: Path) -> None:
    world, driver = World(root, Api()), StorageDriver(root, "disk.example.com", RPC.EXPAND_VOLUME)
    async with world.with_driver(driver):
        await world.drivers.set_up(pod(), of("1Gi", "2Gi"), None)
        await world.drivers.tear_down("u1", "pv1")
        assert world.drivers._expansion is not None
        assert not world.drivers._expansion._known


async def test_a_claim_that_somebody_changes_meanwhile_is_tried_again(root: Path) -> None:
    world, driver = World(root, Api()), StorageDriver(root, "disk.example.com", *CAN)
    async with world.with_driver(driver):
        await world.drivers.set_up(pod(), of("1Gi", "1Gi"), None)
        world.api.patch_trouble = "the object has been modified"
        await world.drivers.set_up(pod(), of("1Gi", "2Gi", "NodeResizePending"), None)
        assert "expand vol-1" not in driver.asked
        assert "the object has been modified" in world.events.told[0]
