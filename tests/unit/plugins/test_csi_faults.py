"""Drivers that fail, hang or lie, agents that are killed anywhere, folders that somebody has tampered with: whatever
happens, each pod gets its volume in the end, nothing is staged twice, and nothing stays mounted."""

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kit.csi_driver import RPC, StorageDriver
from kit.csi_world import Api, World, pod, short_folder, volume
from pykubelet.api.storage import CSIDriverSpec
from pykubelet.base.errors import Invalid, NotFound, PykubeletError, Retry
from pykubelet.plugins import csi as room
from pykubelet.plugins import csi_driver as wire
from pykubelet.pod.ports.csi import CsiVolume

pytestmark = pytest.mark.skipif(os.getuid() != 0, reason="an ordinary user mounts nothing")
ALL = (RPC.STAGE_UNSTAGE_VOLUME, RPC.GET_VOLUME_STATS, RPC.EXPAND_VOLUME, RPC.VOLUME_CONDITION)
LIFE = ("stage", "publish", "unpublish", "unstage")


@pytest.fixture
def root() -> Iterator[Path]:
    with short_folder() as folder:
        yield folder


async def begin(world: World) -> None:
    """As an agent that has just come, to a driver that is there already."""
    world.begin()
    await world.drivers.register("disk.example.com", str(world.root / "csi.sock"), ("1.0.0",))


async def set_up(world: World) -> None:
    await world.drivers.set_up(pod(), volume(), None)


async def tear_down(world: World) -> None:
    await world.drivers.tear_down("u1", "pv1")


# --- what the specification asks of those who call a driver


class Strict:
    """Refuses what csi-sanity expects a driver to refuse, and what is out of order."""

    def __init__(self, driver: StorageDriver, *, stages: bool) -> None:
        self._driver = driver
        self._stages = stages
        self.faults: list[str] = []
        self._staged: set[str] = set()
        self._published: set[tuple[str, str]] = set()
        driver.trouble = self

    def __call__(self, call: str) -> None:
        request: Any = self._driver.requests[call]
        handle, staged = request.volume_id, getattr(request, "staging_target_path", "")
        path = getattr(request, "target_path", getattr(request, "volume_path", staged))
        self._expect(call, bool(handle), "has no volume id")
        self._expect(call, len(handle.encode()) <= 128, "has a volume id of more than 128 bytes")
        self._expect(call, path.startswith("/"), "has no absolute path")
        if call in ("stage", "publish", "expand"):
            capability = request.volume_capability
            self._expect(call, capability.WhichOneof("access_type") is not None, "has no volume capability")
            self._expect(call, capability.access_mode.mode != 0, "has no access mode")
        if call == "stage":
            self._expect(call, handle not in self._staged, "though it is staged")
            self._expect(call, os.path.isdir(path), "where there is no folder")
            self._staged.add(handle)
        if call == "publish":
            is_own = handle.startswith("csi-")
            self._expect(call, is_own or not self._stages or handle in self._staged, "though it is not staged")
            self._expect(call, bool(staged) == (self._stages and not is_own), "with the wrong staging path")
            self._expect(call, os.path.isdir(os.path.dirname(path)), "where there is no folder to make it in")
            self._published.add((handle, path))
        if call == "unpublish":
            self._published.discard((handle, path))
        if call == "unstage":
            self._expect(call, all(handle != each[0] for each in self._published), "though it is published")
            self._staged.discard(handle)

    def _expect(self, call: str, holds: bool, what: str) -> None:
        if not holds:
            self.faults.append(f"{call} {what}")


@pytest.mark.parametrize("stages", [True, False])
@pytest.mark.parametrize(
    "wanted",
    [volume(), volume(is_block=True), volume(handle="", name="own"), volume(access_modes=("ReadWriteMany",))],
    ids=["file system", "block", "the pod's own", "shared"],
)
async def test_every_call_is_as_the_specification_wants_it(root: Path, stages: bool, wanted: CsiVolume) -> None:
    modes = ("Persistent", "Ephemeral")
    world = World(root, Api(volume_lifecycle_modes=modes, requires_republish=True))
    driver = StorageDriver(root, "disk.example.com", *(ALL if stages else ALL[1:]))
    strict = Strict(driver, stages=stages)
    async with driver.at(world.registry):
        await begin(world)
        for uid in ("u1", "u2", "u1"):
            await world.drivers.set_up(pod(uid), wanted, None)
        world.drivers._with_health = False
        with pytest.raises(Retry, match="does not say how full"):
            await world.drivers.usage("u1", wanted.name)
        for uid in ("u1", "u2", "u1"):
            await world.drivers.tear_down(uid, wanted.name)
    assert strict.faults == []
    assert world.mounts() == world.left() == []


# --- drivers that misbehave


@pytest.mark.parametrize("how", ["fails", "fails afterwards", "hangs", "says it is done"])
@pytest.mark.parametrize("call", LIFE)
async def test_a_driver_that_always_misbehaves_keeps_its_own_volume_until_it_is_mended(
    root: Path, call: str, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wire, "_DEADLINE", 0.2)
    world, driver = World(root, Api()), StorageDriver(root)
    other = World(root, Api())
    async with driver.at(world.registry):
        await begin(world)
        mend = misbehave(driver, call, how)
        errors = 0
        for step in (set_up, set_up, tear_down, tear_down):
            try:
                await step(world)
            except PykubeletError:
                errors += 1
        if how != "says it is done" or call in ("unpublish", "unstage"):
            assert errors >= 1
        mend()
        await begin(other)
        await set_up(other)
        await tear_down(other)
    assert world.mounts() == world.left() == []


def misbehave(driver: StorageDriver, call: str, how: str) -> Callable[[], None]:
    """-> what mends it."""

    def fail(asked: str) -> None:
        if asked == call:
            raise Retry("never")

    if how == "hangs":
        driver.hangs = {call}
    elif how == "says it is done":
        driver.lies = {call}
    else:
        setattr(driver, "trouble" if how == "fails" else "trouble_after", fail)

    def mend() -> None:
        driver.hangs, driver.lies = set(), set()
        driver.trouble = driver.trouble_after = lambda asked: None

    return mend


@pytest.mark.parametrize("text", ["\x00", "x" * 5000, "%s {0}\n", "\udcff"])
async def test_whatever_a_driver_says_is_only_told(root: Path, text: str) -> None:
    world, driver = World(root, Api()), StorageDriver(root, "disk.example.com", *ALL, mounts=False)

    def speak(call: str) -> None:
        raise NotFound(text.encode(errors="replace").decode())

    driver.trouble = speak
    async with driver.at(world.registry):
        await begin(world)
        with pytest.raises(PykubeletError):
            await set_up(world)


async def test_a_driver_killed_between_staging_and_publishing(root: Path) -> None:
    world, driver = World(root, Api()), StorageDriver(root)

    def refuse(call: str) -> None:
        if call == "publish":
            raise Retry("going down")

    async with driver.at(world.registry):
        await begin(world)
        driver.trouble = refuse
        with pytest.raises(Retry, match="going down"):
            await set_up(world)
    with pytest.raises(Retry, match="does not answer"):
        await set_up(world)
    driver.trouble = lambda call: None
    async with driver.at(world.registry):
        for _ in range(100):  # the connection comes back by itself
            try:
                await set_up(world)
                break
            except Retry:
                await asyncio.sleep(0.1)
        assert driver.asked.count("stage vol-1") == 1
        await tear_down(world)
    assert world.mounts() == world.left() == []


# --- agents that are killed


class Killed(BaseException):
    """Nothing is done after it."""


def killing(monkeypatch: pytest.MonkeyPatch, step: int, *, before: bool) -> list[str]:
    """Kill whoever does the so many-th thing that can be seen from outside. -> what was done"""
    done: list[str] = []

    def counted(what: str, work: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        async def doing(*args: Any, **more: Any) -> Any:
            done.append(what)
            if len(done) == step and before:
                raise Killed
            found = await work(*args, **more)
            if len(done) == step:
                raise Killed
            return found

        return doing

    threads = type("threads", (), {"to_thread": staticmethod(counted("disk", asyncio.to_thread))})
    for name in ("Lock", "get_running_loop", "sleep", "CancelledError"):
        setattr(threads, name, staticmethod(getattr(asyncio, name)))
    monkeypatch.setattr(room, "asyncio", threads)
    for call in LIFE:
        monkeypatch.setattr(wire.CsiDriver, call, counted(call, getattr(wire.CsiDriver, call)))
    return done


@pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
@pytest.mark.parametrize("work", [set_up, tear_down])
@pytest.mark.parametrize("goes_on", [True, False], ids=["the pod goes on", "the pod is deleted"])
async def test_an_agent_killed_at_every_step(
    root: Path, monkeypatch: pytest.MonkeyPatch, work: Callable[[World], Awaitable[None]], before: bool, goes_on: bool
) -> None:
    world, driver = World(root, Api()), StorageDriver(root)
    async with driver.at(world.registry):
        for step in range(1, 40):
            await begin(world)
            if work is tear_down:
                await set_up(world)
            driver.asked.clear()
            with monkeypatch.context() as patched:
                done = killing(patched, step, before=before)
                try:
                    await work(world)
                    killed = False
                except Killed:
                    killed = True
            await begin(world)
            if goes_on and work is set_up:
                await set_up(world)
                staged = [each for each in driver.asked if each == "stage vol-1"]
                assert len(staged) <= 1 or done[-1] == "stage" or not world.mounts(), step
                assert len(world.mounts()) == 2, step
            await tear_down(world)
            assert world.mounts() == world.left() == [], (step, done)
            if not killed:
                break
        assert step > 5


# --- what somebody has tampered with


async def test_links_in_the_folders_of_volumes_are_not_followed(root: Path) -> None:
    world, driver = World(root, Api()), StorageDriver(root)
    outside = root / "outside"
    (outside / "mount").mkdir(parents=True)
    (outside / "vol_data.json").write_text('{"driverName": "disk.example.com", "volumeHandle": "vol-1"}')
    (outside / "mount/precious").write_text("x")
    place = root / "pods/u1/volumes/kubernetes.io~csi"
    place.mkdir(parents=True)
    (place / "pv1").symlink_to(outside)
    async with driver.at(world.registry):
        await begin(world)
        await tear_down(world)
        assert driver.asked == []
        assert sorted(each.name for each in outside.iterdir()) == ["mount", "vol_data.json"]
        assert world.left() == []
        (place / "pv1").mkdir()
        (place / "pv1/vol_data.json").write_text((outside / "vol_data.json").read_text())
        (place / "pv1/mount").symlink_to(outside / "mount")
        driver.trouble = lambda call: None
        await tear_down(world)
    assert (outside / "mount/precious").read_text() == "x"
    assert world.left() == []


@pytest.mark.parametrize("what", ["file", "folder", "link to nowhere"])
async def test_an_endpoint_that_is_no_socket_is_told(root: Path, what: str) -> None:
    place, world = root / "csi.sock", World(root, Api())
    if what == "file":
        place.write_text("x")
    elif what == "folder":
        place.mkdir()
    else:
        place.symlink_to("/nonexistent")
    with pytest.raises(PykubeletError, match="does not answer"):
        await begin(world)
    assert world.api.installed == {}


async def test_a_driver_of_another_kind_of_volume_is_refused(root: Path) -> None:
    world, driver = World(root, Api(volume_lifecycle_modes=("Ephemeral",))), StorageDriver(root, mounts=False)
    async with driver.at(world.registry):
        await begin(world)
        with pytest.raises(Retry, match='volume mode "Persistent" not supported'):
            await set_up(world)


@pytest.mark.parametrize(
    ("policy", "modes", "is_refused"),
    [
        (None, ("ReadWriteOncePod",), True),
        ("Recursive", ("ReadWriteOncePod",), False),
        (None, ("ReadWriteOnce",), False),
    ],
)
async def test_a_mount_with_a_label_is_refused_clearly(
    root: Path, policy: str | None, modes: tuple[str, ...], is_refused: bool
) -> None:
    world, driver = World(root, Api()), StorageDriver(root, mounts=False)
    world.api.spec = CSIDriverSpec(attach_required=False, se_linux_mount=True)
    async with driver.at(world.registry):
        await begin(world)
        world.drivers._has_selinux = True
        options = {"seLinuxOptions": {"level": "s0:c1,c2"}, "seLinuxChangePolicy": policy}
        labelled = pod(spec={"securityContext": options})
        if is_refused:
            with pytest.raises(Invalid, match=r"SELinux label .*set seLinuxChangePolicy: Recursive"):
                await world.drivers.set_up(labelled, volume(access_modes=modes), None)
        else:
            await world.drivers.set_up(labelled, volume(access_modes=modes), None)
