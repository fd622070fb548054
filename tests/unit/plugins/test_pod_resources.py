"""Whoever watches a machine is told who has what of it, and not more often than is good for it."""

import asyncio
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from kit.pods import make_pod
from kit.waiting import eventually
from pykubelet.api.container import Container
from pykubelet.api.pod import Pod
from pykubelet.base.errors import NotFound, PykubeletError
from pykubelet.plugins._gen import pod_resources_pb2 as wire
from pykubelet.plugins.pod_resources import Pinned, PodResources
from pykubelet.pod.claims.table import ClaimKey, PreparedDevice
from pykubelet.pod.devices.allocations import DeviceInventory, Holder
from pykubelet.pod.devices.choice import Device
from pykubelet.pod.devices.moments import PodResourcesAsked
from pykubelet.pod.moments import Journal, Noted
from pykubelet.pod.pinning.memory_state import Block
from pykubelet.web.grpc_channel import Channel

LISTER = "v1.PodResourcesLister"
THING = "example.com/thing"


def inventory() -> DeviceInventory:
    found = DeviceInventory()
    found.devices[THING] = {"a": Device("a", True, (0,)), "b": Device("b", True), "c": Device("c", False)}
    found.give(Holder("u1", "c", THING), frozenset("a"), b"")
    return found


PINNED = Pinned(
    cpus=lambda uid, container: {3, 2} if uid == "u1" else (),
    memory=lambda uid, container: (Block(nodes=(0,), type="memory", size=64),) if uid == "u1" else (),
    all_cpus=lambda: (1, 2, 3),
    all_memory=lambda: (Block(nodes=(0,), type="memory", size=1024),),
)


def claimed(pod: Pod, container: Container) -> list[tuple[ClaimKey, list[tuple[str, PreparedDevice]]]]:
    device = PreparedDevice("pool", "gpu-0", ("gpu",), ("example.com/gpu=0",))
    return [(ClaimKey("default", "one"), [("gpu.example.com", device)])] if pod.metadata.uid == "u1" else []


@asynccontextmanager
async def asking(journal: Journal | None = None) -> AsyncIterator[Channel]:
    with tempfile.TemporaryDirectory(prefix="pykubelet-") as folder:
        pods = (make_pod("p", uid="u1"), make_pod("q", uid="u2"))
        here = PodResources(folder, lambda: pods, inventory, PINNED, claims=claimed, journal=journal)
        task = asyncio.create_task(here.run())
        await eventually(Path(folder, "kubelet.sock").exists)
        channel = Channel(f"{folder}/kubelet.sock", deadline=20)
        try:
            yield channel
        finally:
            await channel.close()
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task


@pytest.mark.parametrize("lister", [LISTER, "v1alpha1.PodResourcesLister"])
async def test_every_pod_is_told_with_what_its_containers_have(lister: str) -> None:
    async with asking() as channel:
        found = await channel.call(f"{lister}/List", wire.ListPodResourcesRequest(), wire.ListPodResourcesResponse)
    first, second = found.pod_resources
    assert (first.namespace, first.name, second.name) == ("default", "p", "q")
    (container,) = first.containers
    (device,) = container.devices
    assert (device.resource_name, list(device.device_ids), device.topology.nodes[0].ID) == (THING, ["a"], 0)
    assert list(container.cpu_ids) == [2, 3]
    assert [(each.memory_type, each.size) for each in container.memory] == [("memory", 64)]
    assert not second.containers[0].devices
    assert not second.containers[0].dynamic_resources
    (claim,) = container.dynamic_resources
    assert (claim.claim_namespace, claim.claim_name) == ("default", "one")
    (found_device,) = claim.claim_resources
    assert (found_device.driver_name, found_device.pool_name, found_device.device_name) == (
        "gpu.example.com",
        "pool",
        "gpu-0",
    )
    assert [each.name for each in found_device.cdi_devices] == ["example.com/gpu=0"]


async def test_one_pod_is_told_by_its_name() -> None:
    async with asking() as channel:
        asked = wire.GetPodResourcesRequest(pod_name="p", pod_namespace="default")
        found = await channel.call(f"{LISTER}/Get", asked, wire.GetPodResourcesResponse)
        assert found.pod_resources.name == "p"
        asked = wire.GetPodResourcesRequest(pod_name="x", pod_namespace="default")
        with pytest.raises(NotFound, match="pod x in namespace default not found"):
            await channel.call(f"{LISTER}/Get", asked, wire.GetPodResourcesResponse)


async def test_what_there_is_in_all_is_told_without_what_is_unwell() -> None:
    async with asking() as channel:
        asked, method = wire.AllocatableResourcesRequest(), f"{LISTER}/GetAllocatableResources"
        found = await channel.call(method, asked, wire.AllocatableResourcesResponse)
    assert [list(each.device_ids) for each in found.devices] == [["a"], ["b"]]
    assert list(found.cpu_ids) == [1, 2, 3]
    assert found.memory[0].size == 1024


async def test_questions_are_written_down() -> None:
    noted: list[Noted] = []
    journal = Journal()
    journal.read_by(noted.append)
    async with asking(journal) as channel:
        for version in ("v1", "v1alpha1"):
            asked = wire.ListPodResourcesRequest()
            await channel.call(f"{version}.PodResourcesLister/List", asked, wire.ListPodResourcesResponse)
        nobody = wire.GetPodResourcesRequest(pod_name="nobody", pod_namespace="default")
        with pytest.raises(NotFound):
            await channel.call(f"{LISTER}/Get", nobody, wire.GetPodResourcesResponse)
    assert [each.moment for each in noted] == [
        PodResourcesAsked("v1", "list"),
        PodResourcesAsked("v1alpha1", "list"),
        PodResourcesAsked("v1", "get", "pod nobody in namespace default not found"),
    ]


async def test_who_asks_too_often_is_told_so() -> None:
    async with asking() as channel:

        async def ask() -> str:
            try:
                await channel.call(f"{LISTER}/List", wire.ListPodResourcesRequest(), wire.ListPodResourcesResponse)
            except PykubeletError as error:
                return str(error)
            return ""

        told = await asyncio.gather(*(ask() for _ in range(80)))
        assert "rejected by rate limit" in told
        assert "" in told
        async with asyncio.timeout(30):
            while await ask():  # noqa: ASYNC110
                await asyncio.sleep(0.05)
