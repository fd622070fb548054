"""For programs on this machine that watch it: which container has which devices, processors and memory of its own."""

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from pykubelet.api.container import Container
from pykubelet.api.pod import Pod
from pykubelet.api.rules.resources import is_sidecar
from pykubelet.base.errors import NotFound
from pykubelet.base.rate_limit import TokenBucket
from pykubelet.base.timed import timed
from pykubelet.pod.claims.table import ClaimKey, PreparedDevice
from pykubelet.pod.devices.allocations import DeviceInventory
from pykubelet.pod.devices.choice import Device
from pykubelet.pod.devices.moments import Method, PodResourcesAsked, Version
from pykubelet.pod.moments import Journal
from pykubelet.pod.pinning.memory_state import Block
from pykubelet.web.socket_door import keep_door

if TYPE_CHECKING:
    from google.protobuf.message import Message

    from pykubelet.plugins._gen import pod_resources_pb2 as wire

log = logging.getLogger(__name__)

Claimed = Callable[[Pod, Container], Iterable[tuple[ClaimKey, Iterable[tuple[str, PreparedDevice]]]]]
"""What a container has: of which claim, from which driver."""

_Answer = Callable[[Any], Awaitable["Message"]]

SOCKET: Final = "kubelet.sock"
_RATE: Final = 100.0
_BURST: Final = 10
"""As upstream has them: whoever asks more often is told so."""


class Pinned(Struct, frozen=True):
    """What is handed out besides devices."""

    cpus: Callable[[str, str], Iterable[int]] = lambda uid, container: ()
    """Those that a container, by its pod's uid and its name, has for itself."""
    memory: Callable[[str, str], Iterable[Block]] = lambda uid, container: ()
    all_cpus: Callable[[], Iterable[int]] = tuple
    all_memory: Callable[[], Iterable[Block]] = tuple


class PodResources:
    """`pods` are those that run here."""

    def __init__(
        self,
        folder: str,
        pods: Callable[[], Collection[Pod]],
        devices: Callable[[], DeviceInventory],
        pinned: Pinned,
        *,
        claims: Claimed = lambda pod, container: (),
        journal: Journal | None = None,
    ) -> None:
        self._folder = folder
        self._pods = pods
        self._devices = devices
        self._pinned = pinned
        self._claims = claims
        self._journal = journal or Journal()
        self._bucket = TokenBucket(_RATE, _BURST)

    async def run(self) -> None:
        """Answer for ever."""
        os.makedirs(self._folder, 0o750, exist_ok=True)
        await keep_door(f"{self._folder}/{SOCKET}", self._answering, otherwise="nobody can ask for pod resources")

    @asynccontextmanager
    async def _answering(self, path: str) -> AsyncIterator[None]:
        """Loaded when the first one asks."""
        from pykubelet.plugins._gen import pod_resources_pb2 as wire
        from pykubelet.web.grpc_server import Call, Exhausted, answering

        def list_(_: wire.ListPodResourcesRequest) -> wire.ListPodResourcesResponse:
            return wire.ListPodResourcesResponse(pod_resources=[self._of(pod) for pod in self._pods()])

        def get(asked: wire.GetPodResourcesRequest) -> wire.GetPodResourcesResponse:
            for pod in self._pods():
                if (pod.metadata.namespace, pod.metadata.name) == (asked.pod_namespace, asked.pod_name):
                    return wire.GetPodResourcesResponse(pod_resources=self._of(pod))
            raise NotFound(f"pod {asked.pod_name} in namespace {asked.pod_namespace} not found")

        def admitted(version: Version, method: Method, answer: Callable[[Any], "Message"]) -> _Answer:
            async def of(asked: Any) -> "Message":
                if self._bucket.reserve(asyncio.get_running_loop().time()) > 0:
                    self._bucket.give_back()
                    raise Exhausted("rejected by rate limit")
                with timed(self._journal, lambda _, error: PodResourcesAsked(version, method, error)):
                    return answer(asked)

            return of

        service = "PodResourcesLister"
        allocatable = admitted("v1", "get_allocatable", lambda _: self._allocatable())
        calls = {
            f"v1.{service}/List": Call(wire.ListPodResourcesRequest, admitted("v1", "list", list_)),
            f"v1.{service}/Get": Call(wire.GetPodResourcesRequest, admitted("v1", "get", get)),
            f"v1.{service}/GetAllocatableResources": Call(wire.AllocatableResourcesRequest, allocatable),
            # The older form has the same fields under the same numbers, and fewer: who asks for it skips the rest.
            f"v1alpha1.{service}/List": Call(wire.ListPodResourcesRequest, admitted("v1alpha1", "list", list_)),
        }
        async with answering(path, calls):
            yield

    def _of(self, pod: Pod) -> "wire.PodResources":
        from pykubelet.plugins._gen import pod_resources_pb2 as wire

        uid, inventory, pinned = pod.metadata.uid, self._devices(), self._pinned
        lasting = (*(each for each in pod.spec.init_containers if is_sidecar(each)), *pod.spec.containers)
        containers = [
            wire.ContainerResources(
                name=each.name,
                devices=[
                    entry
                    for resource, given in inventory.of(uid, each.name).items()
                    for entry in _devices(resource, given.all, inventory.devices.get(resource, {}))
                ],
                cpu_ids=sorted(pinned.cpus(uid, each.name)),
                memory=[_memory(block) for block in pinned.memory(uid, each.name)],
                dynamic_resources=[_claimed(key, found) for key, found in self._claims(pod, each)],
            )
            for each in lasting
        ]
        return wire.PodResources(name=pod.metadata.name, namespace=pod.metadata.namespace, containers=containers)

    def _allocatable(self) -> "wire.AllocatableResourcesResponse":
        from pykubelet.plugins._gen import pod_resources_pb2 as wire

        known = self._devices().devices
        devices = [
            entry
            for resource, each in sorted(known.items())
            for entry in _devices(resource, [device.id for device in each.values() if device.is_healthy], each)
        ]
        return wire.AllocatableResourcesResponse(
            devices=devices,
            cpu_ids=sorted(self._pinned.all_cpus()),
            memory=[_memory(block) for block in self._pinned.all_memory()],
        )


def _devices(resource: str, ids: Iterable[str], known: Mapping[str, Device]) -> "list[wire.ContainerDevices]":
    from pykubelet.plugins._gen import pod_resources_pb2 as wire

    return [
        wire.ContainerDevices(
            resource_name=resource,
            device_ids=[each],
            topology=_topology(known[each].nodes if each in known else ()),
        )
        for each in sorted(ids)
    ]


def _claimed(claim: ClaimKey, devices: Iterable[tuple[str, PreparedDevice]]) -> "wire.DynamicResource":
    from pykubelet.plugins._gen import pod_resources_pb2 as wire

    resources = [
        wire.ClaimResource(
            cdi_devices=[wire.CDIDevice(name=id_) for id_ in each.cdi_ids],
            driver_name=driver,
            pool_name=each.pool,
            device_name=each.device,
        )
        for driver, each in devices
    ]
    return wire.DynamicResource(claim_name=claim.name, claim_namespace=claim.namespace, claim_resources=resources)


def _memory(block: Block) -> "wire.ContainerMemory":
    from pykubelet.plugins._gen import pod_resources_pb2 as wire

    return wire.ContainerMemory(memory_type=block.type, size=block.size, topology=_topology(block.nodes))


def _topology(nodes: Iterable[int]) -> "wire.TopologyInfo | None":
    from pykubelet.plugins._gen import pod_resources_pb2 as wire

    found = [wire.NUMANode(ID=each) for each in nodes]
    return wire.TopologyInfo(nodes=found) if found else None
