"""A device plug-in that follows the protocol, or does not, as its test wants."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from pykubelet.base.errors import Retry
from pykubelet.plugins._gen import device_plugin_pb2 as wire
from pykubelet.web.grpc_channel import Channel
from pykubelet.web.grpc_server import Call, Stream, answering

SERVICE = "v1beta1.DevicePlugin"


class PluginOfDevices:
    """`devices` is what it tells of: change it with `tell`. `asked` is what it was asked, in words."""

    def __init__(self, resource: str = "example.com/thing", *, options: wire.DevicePluginOptions | None = None) -> None:
        self.resource = resource
        self.options = options or wire.DevicePluginOptions()
        self.asked: list[str] = []
        self.preferred: tuple[str, ...] = ()
        self.failure = ""
        self.hangs = False
        self.answer: Callable[[list[str]], wire.ContainerAllocateResponse] = plain_answer
        self._devices: list[wire.Device] = []
        self._changed = asyncio.Event()

    def tell(self, *devices: wire.Device) -> None:
        self._devices = list(devices)
        self._changed.set()

    @asynccontextmanager
    async def at(self, socket: Path) -> AsyncIterator[None]:
        calls: dict[str, Call | Stream] = {
            f"{SERVICE}/GetDevicePluginOptions": Call(wire.Empty, self._options),
            f"{SERVICE}/ListAndWatch": Stream(wire.Empty, self._list),
            f"{SERVICE}/GetPreferredAllocation": Call(wire.PreferredAllocationRequest, self._prefer),
            f"{SERVICE}/Allocate": Call(wire.AllocateRequest, self._allocate),
            f"{SERVICE}/PreStartContainer": Call(wire.PreStartContainerRequest, self._pre_start),
        }
        async with answering(str(socket), calls):
            yield

    async def register(self, folder: Path, endpoint: str, *, version: str = "v1beta1") -> None:
        """With the agent whose folder of plug-ins this is. Raises base.errors."""
        channel = Channel(str(folder / "kubelet.sock"), deadline=20, peer="the agent")
        try:
            request = wire.RegisterRequest(version=version, endpoint=endpoint, resource_name=self.resource)
            await channel.call("v1beta1.Registration/Register", request, wire.Empty)
        finally:
            await channel.close()

    async def _options(self, _: wire.Empty) -> wire.DevicePluginOptions:
        await self._before("options")
        return self.options

    async def _list(self, _: wire.Empty) -> AsyncIterator[wire.ListAndWatchResponse]:
        while True:
            self._changed.clear()
            yield wire.ListAndWatchResponse(devices=self._devices)
            await self._changed.wait()

    async def _prefer(self, request: wire.PreferredAllocationRequest) -> wire.PreferredAllocationResponse:
        (one,) = request.container_requests
        await self._before(f"prefer {one.allocation_size} of {' '.join(one.available_deviceIDs)}")
        answer = wire.ContainerPreferredAllocationResponse(deviceIDs=self.preferred)
        return wire.PreferredAllocationResponse(container_responses=[answer])

    async def _allocate(self, request: wire.AllocateRequest) -> wire.AllocateResponse:
        (one,) = request.container_requests
        await self._before(f"allocate {' '.join(one.devices_ids)}")
        return wire.AllocateResponse(container_responses=[self.answer(list(one.devices_ids))])

    async def _pre_start(self, request: wire.PreStartContainerRequest) -> wire.PreStartContainerResponse:
        await self._before(f"start {' '.join(request.devices_ids)}")
        return wire.PreStartContainerResponse()

    async def _before(self, asked: str) -> None:
        self.asked.append(asked)
        if self.hangs:
            await asyncio.sleep(3600)
        if self.failure:
            raise Retry(self.failure)


def plain_answer(ids: list[str]) -> wire.ContainerAllocateResponse:
    return wire.ContainerAllocateResponse(envs={"THINGS": ",".join(ids)})


def healthy(*ids: str, nodes: tuple[int, ...] = ()) -> list[wire.Device]:
    topology = wire.TopologyInfo(nodes=[wire.NUMANode(ID=each) for each in nodes]) if nodes else None
    return [wire.Device(ID=each, health="Healthy", topology=topology) for each in ids]


def unhealthy(*ids: str) -> list[wire.Device]:
    return [wire.Device(ID=each, health="Unhealthy") for each in ids]
