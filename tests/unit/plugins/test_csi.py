# ruff: noqa: ASYNC240 - tests may block
"""Volumes of storage drivers are staged once, published to each pod, and given back by whoever comes later."""

import asyncio
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kit.csi_driver import RPC, StorageDriver, once
from kit.csi_world import Api, World, pod, short_folder, volume
from kit.waiting import eventually
from pykubelet.api.rules.csi_names import attachment_name, unique_name
from pykubelet.api.storage import CSIDriverSpec, SecretReference, TokenRequest
from pykubelet.base.errors import Invalid, PykubeletError, Retry
from pykubelet.base.whole_files import draft_of
from pykubelet.host import mount
from pykubelet.plugins import csi_driver as wire
from pykubelet.pod.ports.csi import CsiVolume

only_root = pytest.mark.skipif(os.getuid() != 0, reason="an ordinary user mounts nothing")


@pytest.fixture
def root() -> Iterator[Path]:
    with short_folder() as folder:
        yield folder


@only_root
async def test_a_volume_is_staged_once_and_published_to_each_pod(root: Path) -> None:
    world, driver = World(root, Api()), StorageDriver(root)
    async with world.with_driver(driver):
        assert world.api.installed == {"disk.example.com": ("node-1", {"example.com/rack": "r1"}, 7)}
        paths = [(await world.drivers.set_up(pod(uid), volume(), None)).path for uid in ("u1", "u2", "u1")]
        assert paths[0] == f"{root}/pods/u1/volumes/kubernetes.io~csi/pv1/mount"
        assert driver.asked == ["stage vol-1", "publish vol-1", "publish vol-1"]
        Path(paths[0], "file").write_text("x")
        assert Path(paths[1], "file").read_text() == "x"
        written = json.loads((root / "pods/u1/volumes/kubernetes.io~csi/pv1/vol_data.json").read_text())
        assert written == {
            "specVolID": "pv1",
            "volumeHandle": "vol-1",
            "driverName": "disk.example.com",
            "nodeName": "n1",
            "volumeLifecycleMode": "Persistent",
            "attachmentID": attachment_name("disk.example.com", "vol-1", "n1"),
        }
        await world.drivers.tear_down("u1", "pv1")
        assert driver.asked[3:] == ["unpublish vol-1"]
        await world.drivers.tear_down("u2", "pv1")
        assert driver.asked[4:] == ["unpublish vol-1", "unstage vol-1"]
        assert world.mounts() == world.left() == []
    assert world.api.installed == {}


@only_root
async def test_an_agent_that_comes_later_leaves_it_as_it_is_and_can_give_it_back(root: Path) -> None:
    world, driver = World(root, Api()), StorageDriver(root)
    async with world.with_driver(driver):
        await world.drivers.set_up(pod(), volume(), None)
    world.begin()
    with pytest.raises(Retry, match="not found in the list of registered CSI drivers"):
        await world.drivers.tear_down("u1", "pv1")
    async with world.with_driver(driver):
        await world.drivers.set_up(pod(), volume(), None)
        assert driver.asked == ["stage vol-1", "publish vol-1"]
    world.begin()
    async with world.with_driver(driver):
        await world.drivers.tear_down("u1", "pv1")
        await world.drivers.tear_down("u1", "pv1")
    assert world.mounts() == world.left() == []


@only_root
@pytest.mark.parametrize("moment", ["trouble", "trouble_after"])
@pytest.mark.parametrize("call", ["stage", "publish", "unpublish", "unstage"])
async def test_whatever_fails_once_is_done_the_next_time_and_nothing_is_left(
    root: Path, call: str, moment: str
) -> None:
    world, driver = World(root, Api()), StorageDriver(root)
    setattr(driver, moment, once(call))
    async with world.with_driver(driver):
        if call in ("stage", "publish"):
            with pytest.raises(Retry, match="not now"):
                await world.drivers.set_up(pod(), volume(), None)
        await world.drivers.set_up(pod(), volume(), None)
        if call in ("unpublish", "unstage"):
            with pytest.raises(Retry, match="not now"):
                await world.drivers.tear_down("u1", "pv1")
        world.begin()  # the agent was killed meanwhile
    async with world.with_driver(driver):
        await world.drivers.tear_down("u1", "pv1")
        assert world.mounts() == world.left() == []


@only_root
async def test_a_pod_whose_set_up_failed_is_cleared_away_like_any_other(root: Path) -> None:
    world, driver = World(root, Api()), StorageDriver(root)

    def broken(call: str) -> None:
        if call == "publish":
            raise Retry("the disk is on fire")

    driver.trouble_after = broken
    async with world.with_driver(driver):
        with pytest.raises(Retry, match="on fire"):
            await world.drivers.set_up(pod(), volume(), None)
        await world.drivers.tear_down("u1", "pv1")
    assert world.mounts() == world.left() == []


async def test_one_that_hangs_keeps_only_its_own_volume_waiting(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "_DEADLINE", 0.5)
    world, driver = World(root, Api()), StorageDriver(root, mounts=False)
    driver.hangs = {"stage"}
    async with world.with_driver(driver):
        waiting = asyncio.create_task(world.drivers.set_up(pod(), volume(), None))
        await eventually(lambda: driver.asked == ["stage vol-1"])
        driver.hangs = set()
        await world.drivers.set_up(pod("u2"), volume(handle="vol-2", name="pv2"), None)
        assert not waiting.done()
        with pytest.raises(Retry, match="NodeStageVolume"):
            await waiting


async def test_a_driver_is_told_what_its_object_says(root: Path) -> None:
    api = Api(
        attach_required=True,
        pod_info_on_mount=True,
        token_requests=(TokenRequest(audience="vault"),),
        requires_republish=True,
    )
    world, driver = World(root, api), StorageDriver(root, mounts=False)
    wanted = volume(
        attributes={"a": "b"},
        mount_options=("noatime",),
        stage_secret=SecretReference("s", "ns"),
        publish_secret=SecretReference("p", "ns"),
        read_only=True,
    )
    world.attach(unique_name("disk.example.com", "vol-1"))
    async with world.with_driver(driver):
        with pytest.raises(Retry, match="is being created"):
            await world.drivers.set_up(pod(), wanted, None)
        api.attachments[attachment_name("disk.example.com", "vol-1", "n1")] = {"device": "/dev/x"}
        await world.drivers.set_up(pod(), wanted, None)
        await world.drivers.set_up(pod(), wanted, None)
        assert driver.asked.count("publish vol-1") == 2  # it wants to be asked again and again
        stage, publish = (driver.requests[name] for name in ("stage", "publish"))
    assert dict(stage.secrets) == {"of": "ns/s"}  # type: ignore[attr-defined]
    assert dict(publish.secrets) == {"of": "ns/p"}  # type: ignore[attr-defined]
    assert dict(publish.publish_context) == {"device": "/dev/x"}  # type: ignore[attr-defined]
    told = dict(publish.volume_context)  # type: ignore[attr-defined]
    assert json.loads(told.pop("csi.storage.k8s.io/serviceAccount.tokens")) == {
        "vault": {"token": "token-for-vault", "expirationTimestamp": ""}
    }
    assert told == {
        "a": "b",
        "csi.storage.k8s.io/pod.name": "p",
        "csi.storage.k8s.io/pod.namespace": "default",
        "csi.storage.k8s.io/pod.uid": "u1",
        "csi.storage.k8s.io/serviceAccount.name": "",
        "csi.storage.k8s.io/ephemeral": "false",
    }
    assert publish.readonly  # type: ignore[attr-defined]
    assert list(publish.volume_capability.mount.mount_flags) == ["noatime"]  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("policy", "more", "capabilities", "expected"),
    [
        (None, {}, (), True),
        (None, {"fs_type": ""}, (), False),
        (None, {"access_modes": ("ReadWriteMany",)}, (), False),
        (None, {"read_only": True}, (), False),
        ("File", {"fs_type": ""}, (), True),
        ("None", {}, (), False),
        (None, {}, (RPC.VOLUME_MOUNT_GROUP,), False),
    ],
)
async def test_who_gives_a_volume_to_the_pods_group(
    root: Path, policy: str | None, more: dict[str, Any], capabilities: tuple[int, ...], expected: bool
) -> None:
    world = World(root, Api(fs_group_policy=policy))
    driver = StorageDriver(root, "disk.example.com", *(capabilities or (RPC.GET_VOLUME_STATS,)), mounts=False)
    async with world.with_driver(driver):
        found = await world.drivers.set_up(pod(), volume(**more), 4242)
    assert found.wants_group == expected
    group = driver.requests["publish"].volume_capability.mount.volume_mount_group  # type: ignore[attr-defined]
    assert group == ("4242" if capabilities else "")


async def test_a_volume_of_the_pods_own_needs_a_driver_that_makes_such(root: Path) -> None:
    world, driver = World(root, Api()), StorageDriver(root, mounts=False)
    own = volume(handle="", name="cache")
    async with world.with_driver(driver):
        with pytest.raises(Retry, match='volume mode "Ephemeral" not supported by driver'):
            await world.drivers.set_up(pod(), own, None)
        world.api.spec = CSIDriverSpec(volume_lifecycle_modes=("Ephemeral",), pod_info_on_mount=True)
        await world.drivers.set_up(pod(), own, None)
        assert [each.partition(" ")[0] for each in driver.asked] == ["publish"]
        await world.drivers.tear_down("u1", "cache")
        assert driver.asked[-1].startswith("unpublish csi-")


@pytest.mark.parametrize(
    "wanted",
    [volume(name="../x"), volume(name=""), volume(driver="a/b"), volume(driver=".."), volume(driver="x" * 64)],
)
async def test_names_that_lead_elsewhere_are_refused(root: Path, wanted: CsiVolume) -> None:
    with pytest.raises(Invalid, match="is no name of a"):
        await World(root, Api()).drivers.set_up(pod(), wanted, None)
    assert list(root.rglob("*")) == [root / "plugins_registry"]


@pytest.mark.parametrize(
    ("name", "versions", "told"),
    [
        ("../x", ("1.0.0",), "is no name of a CSI driver"),
        ("disk.example.com", ("0.3.0",), "it takes CSI 1.x"),
        ("disk.example.com", ("2.0.0", "x"), "it takes CSI 1.x"),
        ("disk.example.com", (), "it takes CSI 1.x"),
        ("disk.example.com", ("1.0.0",), "does not answer"),
    ],
)
async def test_who_makes_no_sense_is_not_taken_in(root: Path, name: str, versions: tuple[str, ...], told: str) -> None:
    world = World(root, Api())
    with pytest.raises(PykubeletError, match=told):
        await world.drivers.register(name, str(root / "nobody.sock"), versions)
    assert world.api.installed == {}


def spoil(root: Path, uid: str, name: str) -> None:
    place = root / f"pods/{uid}/volumes/kubernetes.io~csi/{name}"
    place.mkdir(parents=True, exist_ok=True)
    (place / "vol_data.json").write_text("{")


@only_root
async def test_what_was_written_down_and_spoilt_keeps_nobody_elses_volume(root: Path) -> None:
    world, driver = World(root, Api()), StorageDriver(root)
    spoil(root, "u9", "other")
    async with world.with_driver(driver):
        for uid in ("u1", "u2"):
            await world.drivers.set_up(pod(uid), volume(), None)
        spoil(root, "u2", "pv1")  # may be of the same volume, as its folder is named after it
        await world.drivers.tear_down("u1", "pv1")
        assert driver.asked[-1] == "unpublish vol-1"
        with pytest.raises(Retry, match=r"cannot be read.*unmount .*/u2/.*/mount, and it is cleared away"):
            await world.drivers.tear_down("u2", "pv1")
        mount.unmount(f"{root}/pods/u2/volumes/kubernetes.io~csi/pv1/mount")
        for uid, name in (("u2", "pv1"), ("u9", "other")):  # nothing is mounted there
            await world.drivers.tear_down(uid, name)
        assert [each for each in world.left() if each.startswith("pods")] == []
    world.begin()
    async with world.with_driver(driver):  # what is staged for nobody is given back
        await eventually(lambda: driver.asked[-1] == "unstage vol-1")
        await eventually(lambda: world.mounts() == world.left() == [])


@only_root
async def test_an_agent_killed_after_staging_leaves_nothing_that_nobody_knows_of(root: Path) -> None:
    world, driver = World(root, Api()), StorageDriver(root)

    def killed(call: str) -> None:
        if call == "stage":
            raise Retry("the agent was killed")

    driver.trouble_after = killed
    async with world.with_driver(driver):
        with pytest.raises(Retry, match="killed"):
            await world.drivers.set_up(pod(), volume(), None)
    world.begin()
    async with world.with_driver(driver):  # its pod was deleted meanwhile
        assert world.mounts() != []
        await world.drivers.tear_down("u1", "pv1")
    assert world.mounts() == world.left() == []


async def test_what_is_staged_without_a_mount_is_staged_once(root: Path) -> None:
    world, driver = World(root, Api(requires_republish=True)), StorageDriver(root, mounts=False)
    async with world.with_driver(driver):
        for uid in ("u1", "u2", "u1"):
            await world.drivers.set_up(pod(uid), volume(), None)
        assert driver.asked.count("stage vol-1") == 1
        for uid in ("u1", "u2"):
            await world.drivers.tear_down(uid, "pv1")
        await world.drivers.set_up(pod(), volume(), None)
        assert driver.asked.count("stage vol-1") == 2


NAME = unique_name("disk.example.com", "vol-1")


@only_root
async def test_a_volume_is_told_to_be_in_use_before_it_is_mounted_and_until_it_is_gone(root: Path) -> None:
    world, driver = World(root, Api(attach_required=True)), StorageDriver(root)
    world.api.attachments[attachment_name("disk.example.com", "vol-1", "n1")] = {}
    world.is_mute = True
    async with world.with_driver(driver):
        waiting = asyncio.create_task(world.drivers.set_up(pod(), volume(), None))
        await eventually(lambda: world.in_use.names(world.shown) == (NAME,))
        world.attach(NAME)  # by a controller that does not know yet that it is used
        await asyncio.sleep(0)
        assert driver.asked == []
        world.is_mute = False
        world.report()
        await waiting
        assert driver.asked == ["stage vol-1", "publish vol-1"]
        seen: list[tuple[str, ...]] = []
        driver.trouble = lambda call: seen.append(world.shown.volumes_in_use)
        world.begin()  # by a later agent as well
        world.report()
    async with world.with_driver(driver):
        await world.drivers.tear_down("u1", "pv1")
        assert seen == [(NAME,), (NAME,)]
        assert world.shown.volumes_in_use == ()


async def test_a_pod_that_waits_for_a_volume_in_vain_gives_up_its_hold(root: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr("pykubelet.plugins.csi._PATIENCE", 0.0)
    world, driver = World(root, Api(attach_required=True)), StorageDriver(root, mounts=False)
    async with world.with_driver(driver):
        with pytest.raises(Retry, match="not in the node's list of attached volumes"):
            await world.drivers.set_up(pod(), volume(), None)
        assert NAME in world.shown.volumes_in_use
        world.drivers.forget("u1")
        assert world.shown.volumes_in_use == ()


@only_root
async def test_what_nobody_attaches_is_not_told_of(root: Path) -> None:
    world, driver = World(root, Api()), StorageDriver(root)
    async with world.with_driver(driver):
        await world.drivers.set_up(pod(), volume(), None)
        world.begin()
        world.report()
        assert world.shown.volumes_in_use == ()


async def test_who_was_stopped_while_writing_down_leaves_nothing_that_stays(root: Path) -> None:
    world = World(root, Api())
    place = root / "pods/u1/volumes/kubernetes.io~csi/pv1"
    place.mkdir(parents=True)
    draft_of(place / "vol_data.json").write_text("{")
    await world.drivers.tear_down("u1", "pv1")
    assert world.left() == []


async def test_of_volumes_that_are_gone_nothing_is_remembered(root: Path) -> None:
    world, driver = World(root, Api()), StorageDriver(root, mounts=False)
    async with world.with_driver(driver):
        await asyncio.gather(*(world.drivers.set_up(pod(uid), volume(), None) for uid in ("u1", "u2")))
        assert driver.asked.count("publish vol-1") == 2
        for uid in ("u1", "u2"):
            await world.drivers.tear_down(uid, "pv1")
    assert not world.drivers._turns
