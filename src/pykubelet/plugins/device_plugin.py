"""One device plug-in: the questions that it is asked."""

from collections.abc import AsyncIterator, Collection
from typing import Final

from pykubelet.base.errors import Invalid, Retry
from pykubelet.plugins._gen.device_plugin_pb2 import (
    AllocateRequest,
    AllocateResponse,
    ContainerAllocateRequest,
    ContainerAllocateResponse,
    ContainerPreferredAllocationRequest,
    DevicePluginOptions,
    Empty,
    ListAndWatchResponse,
    PreferredAllocationRequest,
    PreferredAllocationResponse,
    PreStartContainerRequest,
    PreStartContainerResponse,
)
from pykubelet.pod.devices.choice import Device, Preference
from pykubelet.pod.ports.devices import ContainerDevices
from pykubelet.pod.ports.runtime import Device as DeviceNode
from pykubelet.pod.ports.runtime import Mount
from pykubelet.web.grpc_channel import Channel

_SERVICE: Final = "v1beta1.DevicePlugin"
_TO_CONNECT: Final = 10.0
_TO_ALLOCATE: Final = 60.0
_TO_PREPARE: Final = 30.0
_HEALTHY: Final = "Healthy"
_MOST_DEVICES: Final = 65_536


class DevicePlugin:
    """Raises base.errors, with what the plug-in says."""

    def __init__(self, resource: str, endpoint: str) -> None:
        self.endpoint = endpoint
        self._channel = Channel(endpoint, deadline=_TO_ALLOCATE, peer=f"the device plug-in of {resource}")
        self._options = DevicePluginOptions()

    async def connect(self) -> None:
        method = f"{_SERVICE}/GetDevicePluginOptions"
        self._options = await self._channel.call(method, Empty(), DevicePluginOptions, deadline=_TO_CONNECT)

    async def close(self) -> None:
        await self._channel.close()

    async def devices(self) -> AsyncIterator[dict[str, Device]]:
        """What it has, each time that this changes, until it ends."""
        async for told in self._channel.stream(f"{_SERVICE}/ListAndWatch", Empty(), ListAndWatchResponse):
            if len(told.devices) > _MOST_DEVICES:
                raise Invalid(f"{len(told.devices)} devices are too many: at most {_MOST_DEVICES} can be kept")
            yield {
                each.ID: Device(each.ID, each.health == _HEALTHY, tuple(node.ID for node in each.topology.nodes))
                for each in told.devices
            }

    async def preferred(self, asked: Preference) -> tuple[str, ...]:
        if not self._options.get_preferred_allocation_available:
            return ()
        request = ContainerPreferredAllocationRequest(
            available_deviceIDs=asked.available, must_include_deviceIDs=asked.must_include, allocation_size=asked.size
        )
        answer = await self._channel.call(
            f"{_SERVICE}/GetPreferredAllocation",
            PreferredAllocationRequest(container_requests=[request]),
            PreferredAllocationResponse,
        )
        return tuple(answer.container_responses[0].deviceIDs) if answer.container_responses else ()

    async def allocate(self, ids: Collection[str]) -> bytes:
        """-> what to do with them, in its own words."""
        request = AllocateRequest(container_requests=[ContainerAllocateRequest(devices_ids=sorted(ids))])
        answer = await self._channel.call(f"{_SERVICE}/Allocate", request, AllocateResponse)
        if not answer.container_responses:
            raise Retry("no containers return in allocation response")
        given(answer.container_responses[0].SerializeToString())  # nonsense is refused before it is kept
        return answer.container_responses[0].SerializeToString(deterministic=True)

    async def before_start(self, ids: Collection[str]) -> None:
        if self._options.pre_start_required:
            method, request = f"{_SERVICE}/PreStartContainer", PreStartContainerRequest(devices_ids=sorted(ids))
            await self._channel.call(method, request, PreStartContainerResponse, deadline=_TO_PREPARE)


def given(answer: bytes) -> ContainerDevices:
    """Raises Invalid for what nobody could do."""
    told = ContainerAllocateResponse.FromString(answer)
    for path in (*(each.container_path for each in told.mounts), *(each.container_path for each in told.devices)):
        if not path.startswith("/") or "\0" in path:
            raise Invalid(f"the device plug-in wants something at {path[:200]!r} in the container: no absolute path")
    hosts = (*(each.host_path for each in told.mounts), *(each.host_path for each in told.devices))
    if any("\0" in text for text in (*told.envs, *told.envs.values(), *hosts)) or any(
        "=" in name or not name for name in told.envs
    ):
        raise Invalid("the device plug-in wants a variable or a path that no program can be given: it has a NUL or a =")
    for each in told.devices:
        if not set(each.permissions) <= set("rwm"):
            raise Invalid(
                f"the device plug-in gives {each.host_path} the rights {each.permissions[:20]!r}: not r, w, m"
            )
    return ContainerDevices(
        env=dict(told.envs),
        mounts=tuple(
            Mount(host_path=each.host_path, container_path=each.container_path, read_only=each.read_only)
            for each in told.mounts
        ),
        devices=tuple(
            DeviceNode(host_path=each.host_path, container_path=each.container_path, permissions=each.permissions)
            for each in told.devices
        ),
        annotations=dict(told.annotations),
        cdi_devices=tuple(each.name for each in told.cdi_devices),
    )
