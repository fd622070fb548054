# ruff: noqa: ASYNC240 - tests may block
"""Volumes of storage drivers are staged once, published to each pod, and given back by whoever comes later."""

import asyncio
import json
import os
import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from kit.csi_driver import RPC, StorageDriver, once
from kit.pods import make_pod
from kit.waiting import eventually
from pykubelet.api.pod import Pod
from pykubelet.api.storage import CSIDriverSpec, SecretReference, TokenRequest
from pykubelet.base.errors import Invalid, PykubeletError, Retry
from pykubelet.base.whole_files import draft_of
from pykubelet.host import mount
from pykubelet.plugins import csi_driver as wire
from pykubelet.plugins.csi import CsiDrivers, attachment_name
from pykubelet.plugins.registry import CSI, PluginRegistry
from pykubelet.pod.ports.csi import CsiVolume

only_root = pytest.mark.skipif(os.getuid() != 0, reason="an ordinary user mounts nothing")


class Api:
    def __init__(self, **spec: Any) -> None:
        self.spec = CSIDriverSpec(**{"attach_required": False, **spec})
        self.attachments: dict[str, Mapping[str, str]] = {}
        self.installed: dict[str, tuple[str, Mapping[str, str], int]] = {}

    async def driver(self, name: str) -> CSIDriverSpec:
        return self.spec

    async def attached(self, attachment: str) -> Mapping[str, str]:
        if attachment not in self.attachments:
            raise Retry("volume attachment is being created")
        return self.attachments[attachment]

    async def secret(self, reference: SecretReference) -> Mapping[str, str]:
        return {"of": f"{reference.namespace}/{reference.name}"}

    async def token(self, pod: Pod, audience: str, seconds: int | None) -> str:
        return f"token-for-{audience}"

    async def install(self, driver: str, node_id: str, topology: Mapping[str, str], most_volumes: int) -> None:
        self.installed[driver] = node_id, topology, most_volumes

    async def uninstall(self, driver: str) -> None:
        del self.installed[driver]


class World:
    """An agent's drivers in a folder of its own."""

    def __init__(self, root: Path, api: Api) -> None:
        self.root = root
        self.api = api
        self.registry = root / "plugins_registry"
        self.registry.mkdir(exist_ok=True)
        self.begin()

    def begin(self) -> None:
        """As an agent that has just come."""
        self.drivers = CsiDrivers(str(self.root), "n1", self.api, is_mounted=mount.is_mount_point)

    @asynccontextmanager
    async def watching(self) -> AsyncIterator[None]:
        task = asyncio.create_task(PluginRegistry(str(self.registry), {CSI: self.drivers}).run())
        try:
            yield
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    @asynccontextmanager
    async def with_driver(self, driver: StorageDriver) -> AsyncIterator[None]:
        async with driver.at(self.registry) as introduction, self.watching():
            await eventually(lambda: introduction.told == [""])
            yield

    def mounts(self) -> list[str]:
        return [os.path.relpath(path, self.root) for path in mount.mounts_below(str(self.root))]

    def left(self) -> list[str]:
        """What of volumes is on disk."""
        found = [
            *self.root.glob("pods/*/volumes/kubernetes.io~csi/*"),
            *self.root.glob("plugins/kubernetes.io/csi/*/*"),
        ]
        return [str(path.relative_to(self.root)) for path in found]


@pytest.fixture
def root() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="pykubelet-") as folder:  # the path of a socket has its limits
        yield Path(folder)
        mount.unmount_below(folder)


def volume(**more: Any) -> CsiVolume:
    return CsiVolume(**{"driver": "disk.example.com", "handle": "vol-1", "name": "pv1", "fs_type": "ext4", **more})


def pod(uid: str = "u1") -> Pod:
    return make_pod("p", uid=uid)


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
            "attachmentID": attachment_name("vol-1", "disk.example.com", "n1"),
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
    async with world.with_driver(driver):
        with pytest.raises(Retry, match="is being created"):
            await world.drivers.set_up(pod(), wanted, None)
        api.attachments[attachment_name("vol-1", "disk.example.com", "n1")] = {"device": "/dev/x"}
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


async def test_what_was_written_down_and_spoilt_is_told_and_kept(root: Path) -> None:
    place = root / "pods/u1/volumes/kubernetes.io~csi/pv1"
    place.mkdir(parents=True)
    (place / "vol_data.json").write_text("{")
    with pytest.raises(Retry, match="cannot be read"):
        await World(root, Api()).drivers.tear_down("u1", "pv1")
    assert place.is_dir()


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
