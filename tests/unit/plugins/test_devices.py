"""Device plug-ins register, tell what they have, go and come back; containers keep what they were given."""

import asyncio
import json
from collections.abc import AsyncIterator, Collection
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import partial
from pathlib import Path

import pytest

from kit.device_plugin import PluginOfDevices, healthy, unhealthy
from kit.waiting import eventually
from pykubelet.api import codec
from pykubelet.api.node import Node
from pykubelet.api.pod import Pod
from pykubelet.base.errors import Invalid, PykubeletError, Retry
from pykubelet.plugins import devices as room
from pykubelet.plugins._gen import device_plugin_pb2 as wire
from pykubelet.plugins.devices import CHECKPOINT, PluginDevices
from pykubelet.pod.devices.merged import merged
from pykubelet.pod.ports.devices import ContainerDevices
from pykubelet.pod.ports.runtime import Device, Mount

THING = "example.com/thing"


def pod(uid: str = "u1", *counts: int, init: tuple[int, ...] = (), sidecar: bool = False, resource: str = THING) -> Pod:
    def container(name: str, count: int, **more: str) -> dict[str, object]:
        return {"name": name, "image": "x", "resources": {"limits": {resource: str(count), "cpu": "1"}}, **more}

    more = {"restartPolicy": "Always"} if sidecar else {}
    spec = {
        "initContainers": [container(f"i{n}", count, **more) for n, count in enumerate(init)],
        "containers": [container(f"c{n}", count) for n, count in enumerate(counts or (1,))],
    }
    return codec.convert(Pod, {"metadata": {"name": uid, "namespace": "default", "uid": uid}, "spec": spec})


class Room:
    """The agent's part, in a folder, with the plug-ins that a test starts."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.devices = PluginDevices(str(folder))
        self.stack = AsyncExitStack()

    async def plug_in(self, plugin: PluginOfDevices, name: str = "p.sock") -> AsyncExitStack:
        """Registered, until the stack is closed."""
        stack = AsyncExitStack()
        await stack.enter_async_context(plugin.at(self.folder / name))
        self.stack.push_async_callback(stack.aclose)
        await plugin.register(self.folder, name)
        return stack

    async def counts(self, expected: tuple[int, int], resource: str = THING) -> None:
        await eventually(lambda: self.devices.counts().get(resource) == expected)

    def held(self, uid: str) -> dict[str, list[str]]:
        return {
            holder.container: sorted(given.all)
            for holder, given in self.devices.inventory.held.items()
            if holder.uid == uid
        }


@asynccontextmanager
async def running(folder: Path) -> AsyncIterator[Room]:
    made = Room(folder)
    made.devices.load()
    task = asyncio.create_task(made.devices.run())
    try:
        await eventually((folder / "kubelet.sock").exists)
        async with made.stack:
            yield made
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def test_devices_are_counted_given_and_given_back(tmp_path: Path) -> None:
    async with running(tmp_path) as here:
        plugin = PluginOfDevices()
        plugin.tell(*healthy("a", "b"), *unhealthy("c"))
        await here.plug_in(plugin)
        await here.counts((3, 2))
        await here.devices.allocate(pod("u1", 1, 1))
        assert here.held("u1") == {"c0": ["a"], "c1": ["b"]}
        with pytest.raises(Invalid, match="Requested: 1, Available: 0"):
            await here.devices.allocate(pod("u2"))
        given = await here.devices.prepared(pod("u1", 1, 1), pod("u1", 1, 1).spec.containers[1])
        assert given.env == {"THINGS": "b"}
        here.devices.release("u1")
        await here.devices.allocate(pod("u2"))
        assert here.held("u2") == {"c0": ["a"]}
        plugin.tell(*unhealthy("a", "b"))
        await here.counts((2, 0))
        with pytest.raises(Invalid, match="no healthy devices present"):
            await here.devices.allocate(pod("u3"))
        with pytest.raises(Retry, match="a cannot be used"):
            await here.devices.prepared(pod("u2"), pod("u2").spec.containers[0])


async def test_init_containers_hand_their_devices_on_but_sidecars_keep_them(tmp_path: Path) -> None:
    async with running(tmp_path) as here:
        plugin = PluginOfDevices()
        plugin.tell(*healthy("a", "b", "c"))
        await here.plug_in(plugin)
        await here.counts((3, 3))
        await here.devices.allocate(pod("u1", 1, 1, init=(2,)))
        assert here.held("u1") == {"i0": ["a", "b"], "c0": ["a"], "c1": ["b"]}
        here.devices.release("u1")
        await here.devices.allocate(pod("u2", 1, 1, init=(1,), sidecar=True))
        assert here.held("u2") == {"i0": ["a"], "c0": ["b"], "c1": ["c"]}


async def test_the_plug_in_chooses_and_is_asked_before_each_start(tmp_path: Path) -> None:
    options = wire.DevicePluginOptions(pre_start_required=True, get_preferred_allocation_available=True)
    async with running(tmp_path) as here:
        plugin = PluginOfDevices(options=options)
        plugin.preferred = ("c",)
        plugin.tell(*healthy("a", "b", "c"))
        await here.plug_in(plugin)
        await here.counts((3, 3))
        await here.devices.allocate(pod())
        await here.devices.prepared(pod(), pod().spec.containers[0])
        assert plugin.asked == ["options", "prefer 1 of a b c", "allocate c", "start c"]


async def test_devices_come_from_where_the_rest_of_the_container_is(tmp_path: Path) -> None:
    async with running(tmp_path) as here:
        plugin = PluginOfDevices()
        plugin.tell(*healthy("a0", "b0", nodes=(0,)), *healthy("c1", "d1", nodes=(1,)))
        await here.plug_in(plugin)
        await here.counts((4, 4))
        (container,) = pod().spec.containers
        found = here.devices.hints(pod(), container, (0, 1))[THING]
        assert found is not None
        assert [(hint.affinity, hint.preferred) for hint in found] == [(1, True), (2, True), (3, False)]
        here.devices.keep_to("u1", "c0", (1,))
        await here.devices.allocate(pod())
        assert here.held("u1") == {"c0": ["c1"]}
        again = here.devices.hints(pod(), container, (0, 1))[THING]
        assert again is not None
        assert [hint.affinity for hint in again] == [2, 3]
        here.devices.release("u1")
        await here.devices.allocate(pod())
        assert here.held("u1") == {"c0": ["a0"]}


async def test_where_devices_were_to_come_from_is_forgotten_with_the_pod(tmp_path: Path) -> None:
    async with running(tmp_path) as here:
        plugin = PluginOfDevices()
        plugin.tell(*healthy("a0", nodes=(0,)), *healthy("b1", nodes=(1,)))
        await here.plug_in(plugin)
        await here.counts((2, 2))
        here.devices.keep_to("u1", "c0", (1,))
        here.devices.retain(())  # it was turned away, and never had any
        await here.devices.allocate(pod())
        assert here.held("u1") == {"c0": ["a0"]}


async def test_an_agent_that_comes_later_knows_who_has_what(tmp_path: Path) -> None:
    plugin = PluginOfDevices()
    plugin.tell(*healthy("a"))
    async with running(tmp_path) as here:
        await here.plug_in(plugin)
        await here.counts((1, 1))
        await here.devices.allocate(pod())
    async with running(tmp_path) as later:
        assert later.held("u1") == {"c0": ["a"]}
        assert later.devices.counts() == {THING: (0, 0)}
        assert not later.devices.wants(pod(), is_running=True)
        await later.devices.allocate(pod())  # it has it: nobody is asked, and nobody fails
        node = later.devices.admitting(Node())
        assert node is not None
        assert node.status.allocatable[THING].value == 1
        assert later.devices.admitting(None) is None
        with pytest.raises(Retry, match="its plug-in is away"):
            await later.devices.prepared(pod(), pod().spec.containers[0])
        await later.plug_in(plugin)
        await later.counts((1, 1))
        assert (await later.devices.prepared(pod(), pod().spec.containers[0])).env == {"THINGS": "a"}
        assert plugin.asked.count("allocate a") == 1
        later.devices.retain({"u2"})
        assert later.held("u1") == {}
    assert json.loads((tmp_path / CHECKPOINT).read_text())["Data"]["PodDeviceEntries"] == []


async def test_a_plug_in_that_goes_leaves_nothing_to_be_given_and_after_a_while_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running(tmp_path) as here:
        plugin = PluginOfDevices()
        plugin.tell(*healthy("a", "b"))
        stack = await here.plug_in(plugin)
        await here.counts((2, 2))
        await stack.aclose()
        await here.counts((2, 0))
        monkeypatch.setattr(room, "_PATIENCE", 0.0)
        await here.counts((0, 0))
        await here.plug_in(plugin, "q.sock")
        await here.counts((2, 2))


async def test_who_did_not_outlive_the_agent_is_not_sure_of_devices(tmp_path: Path) -> None:
    async with running(tmp_path) as here:
        plugin = PluginOfDevices()
        plugin.tell(*healthy("a", "b"))
        await here.plug_in(plugin)
        await here.counts((2, 2))
        await here.devices.allocate(pod("runs"))
        await here.devices.allocate(pod("ended"))
    async with running(tmp_path) as here:
        assert not here.devices.wants(pod("runs"), is_running=True)
        assert not here.devices.wants(pod("runs"), is_running=False)  # it ended while we looked: its plug-in is awaited
        assert here.devices.wants(pod("ended"), is_running=False)
        with pytest.raises(Invalid, match=f"no healthy devices present; cannot allocate unhealthy devices {THING}"):
            await here.devices.allocate(pod("ended"))
    async with running(tmp_path) as here:
        await here.plug_in(plugin)
        await here.counts((2, 2))
        await here.devices.allocate(pod("ended"))
        assert here.held("ended") == {"c0": ["b"]}


async def test_a_plug_in_that_registers_again_takes_the_place_of_the_old_one(tmp_path: Path) -> None:
    async with running(tmp_path) as here:
        first, second = PluginOfDevices(), PluginOfDevices()
        first.tell(*healthy("a"))
        second.tell(*healthy("a", "b"))
        await here.plug_in(first, "1.sock")
        await here.counts((1, 1))
        await here.devices.allocate(pod())
        await here.plug_in(second, "2.sock")
        await here.counts((2, 2))
        assert here.held("u1") == {"c0": ["a"]}
        await here.devices.allocate(pod("u2"))
        assert second.asked == ["options", "allocate b"]


def _said(answer: wire.ContainerAllocateResponse, ids: Collection[str]) -> wire.ContainerAllocateResponse:
    return answer


async def test_a_failure_is_told_and_the_device_stays_free(tmp_path: Path) -> None:
    async with running(tmp_path) as here:
        plugin = PluginOfDevices()
        plugin.tell(*healthy("a"))
        await here.plug_in(plugin)
        await here.counts((1, 1))
        plugin.failure = "the thing is on fire"
        with pytest.raises(Invalid, match="the thing is on fire"):
            await here.devices.allocate(pod())
        plugin.failure = ""
        plugin.answer = lambda ids: wire.ContainerAllocateResponse(mounts=[wire.Mount(container_path="../etc")])
        with pytest.raises(Invalid, match="no absolute path"):
            await here.devices.allocate(pod())
        plugin.answer = lambda ids: wire.ContainerAllocateResponse(
            devices=[wire.DeviceSpec(container_path="/dev/x", host_path="/dev/x", permissions="rwmx")]
        )
        with pytest.raises(Invalid, match="not r, w, m"):
            await here.devices.allocate(pod())
        for nonsense in (
            wire.ContainerAllocateResponse(envs={"A": "1\0B=2"}),
            wire.ContainerAllocateResponse(envs={"A=B": "1"}),
            wire.ContainerAllocateResponse(mounts=[wire.Mount(container_path="/x", host_path="/x\0")]),
        ):
            plugin.answer = partial(_said, nonsense)
            with pytest.raises(Invalid, match="no program can be given"):
                await here.devices.allocate(pod())
        assert here.held("u1") == {}


async def test_one_that_hangs_keeps_only_those_waiting_who_want_it(tmp_path: Path) -> None:
    async with running(tmp_path) as here:
        stuck, well = PluginOfDevices(), PluginOfDevices("example.com/other")
        stuck.tell(*healthy("a"))
        well.tell(*healthy("b"))
        await here.plug_in(stuck, "1.sock")
        await here.plug_in(well, "2.sock")
        await here.counts((1, 1))
        await here.counts((1, 1), "example.com/other")
        stuck.hangs = True
        waiting = asyncio.create_task(here.devices.allocate(pod()))
        await eventually(lambda: "allocate a" in stuck.asked)
        await here.devices.allocate(pod("u2", resource="example.com/other"))
        assert here.held("u2") == {"c0": ["b"]}
        waiting.cancel()
        with suppress(asyncio.CancelledError):
            await waiting


@pytest.mark.parametrize(
    ("resource", "endpoint", "version", "told"),
    [
        ("cpu", "p.sock", "v1beta1", 'the ResourceName "cpu" is invalid'),
        ("kubernetes.io/x", "p.sock", "v1beta1", "is invalid"),
        (THING, "p.sock", "v2", "is not supported by kubelet"),
        (THING, "../p.sock", "v1beta1", "is no name of a socket"),
        (THING, "kubelet.sock", "v1beta1", "is no name of a socket"),
        (THING, "", "v1beta1", "is no name of a socket"),
        (THING, "nobody.sock", "v1beta1", "does not answer"),
    ],
)
async def test_who_makes_no_sense_is_refused(
    tmp_path: Path, resource: str, endpoint: str, version: str, told: str
) -> None:
    async with running(tmp_path) as here:
        with pytest.raises(PykubeletError, match=told):
            await PluginOfDevices(resource).register(here.folder, endpoint, version=version)
        assert here.devices.counts() == {}


async def test_a_spoilt_memory_is_put_aside(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / CHECKPOINT).write_text('{"Data": {}, "Checksum": 1}')
    async with running(tmp_path) as here:
        assert here.devices.counts() == {}
    assert "its checksum does not fit" in caplog.text
    assert (tmp_path / f"{CHECKPOINT}.bad").exists()


async def test_a_path_that_is_too_long_for_a_socket_is_told_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    task = asyncio.create_task(PluginDevices(str(tmp_path / ("x" * 100))).run())
    await eventually(lambda: "device plug-ins cannot register" in caplog.text)
    assert "too long for a socket by" in caplog.text
    assert not task.done()
    task.cancel()


async def test_several_plug_ins_for_one_container_are_put_together() -> None:
    one = ContainerDevices(
        env={"A": "1", "B": "1"},
        mounts=(Mount(host_path="/1", container_path="/m"),),
        devices=(Device(host_path="/dev/1", container_path="/dev/x"),),
        cdi_devices=("a/b=c",),
    )
    other = ContainerDevices(
        env={"B": "2", "C": "2"},
        mounts=(Mount(host_path="/2", container_path="/m"), Mount(host_path="/2", container_path="/n")),
        devices=(Device(host_path="/dev/2", container_path="/dev/x"),),
        cdi_devices=("a/b=c", "a/b=d"),
    )
    found = merged([one, other])
    assert found.env == {"A": "1", "B": "1", "C": "2"}
    assert {each.container_path: each.host_path for each in found.mounts} == {"/m": "/1", "/n": "/2"}
    assert [each.host_path for each in found.devices] == ["/dev/1"]
    assert found.cdi_devices == ("a/b=c", "a/b=d")
