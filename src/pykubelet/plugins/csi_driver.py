"""One storage driver: the questions that it is asked."""

import asyncio
import time
from collections.abc import Mapping
from typing import Final, TypeVar

from google.protobuf.message import Message

from pykubelet.base.errors import PykubeletError, Retry
from pykubelet.plugins._gen import csi_pb2 as csi
from pykubelet.pod.container.volume_moments import DriverCalled
from pykubelet.pod.moments import Journal
from pykubelet.pod.ports.csi import CsiVolume
from pykubelet.pod.stats.stats import Disk, VolumeHealth
from pykubelet.web.grpc_channel import Channel, code_of

Reply = TypeVar("Reply", bound=Message)

_DEADLINE: Final = 120.0
_LONGEST: Final = 1024
"""Of what a driver says of a volume's health."""
_RPC: Final = csi.NodeServiceCapability.RPC
_MODE: Final = csi.VolumeCapability.AccessMode
_MODES: Final = {
    "ReadWriteOnce": _MODE.SINGLE_NODE_WRITER,
    "ReadOnlyMany": _MODE.MULTI_NODE_READER_ONLY,
    "ReadWriteMany": _MODE.MULTI_NODE_MULTI_WRITER,
    "ReadWriteOncePod": _MODE.SINGLE_NODE_WRITER,
}
_SINGLE_NODE_MODES: Final = {
    "ReadWriteOnce": _MODE.SINGLE_NODE_MULTI_WRITER,
    "ReadWriteOncePod": _MODE.SINGLE_NODE_SINGLE_WRITER,
}
"""For drivers that tell one pod from several on one node."""


class CsiDriver:
    """Raises base.errors, with what the driver says. Calls for one volume never overlap, but for its statistics."""

    def __init__(self, name: str, endpoint: str, journal: Journal | None = None) -> None:
        self.endpoint = endpoint
        self._name = name
        self._journal = journal or Journal()
        self._channel = Channel(endpoint, deadline=_DEADLINE, peer=f"the CSI driver {name}")
        self._can: frozenset[int] = frozenset()

    async def connect(self) -> csi.NodeGetInfoResponse:
        told = await self._call(
            "NodeGetCapabilities", csi.NodeGetCapabilitiesRequest(), csi.NodeGetCapabilitiesResponse
        )
        self._can = frozenset(each.rpc.type for each in told.capabilities)
        return await self._call("NodeGetInfo", csi.NodeGetInfoRequest(), csi.NodeGetInfoResponse)

    async def close(self) -> None:
        await self._channel.close()

    @property
    def stages(self) -> bool:
        return _RPC.STAGE_UNSTAGE_VOLUME in self._can

    @property
    def gives_to_groups(self) -> bool:
        return _RPC.VOLUME_MOUNT_GROUP in self._can

    @property
    def expands(self) -> bool:
        return _RPC.EXPAND_VOLUME in self._can

    @property
    def tells_usage(self) -> bool:
        return _RPC.GET_VOLUME_STATS in self._can

    @property
    def tells_health(self) -> bool:
        return _RPC.VOLUME_CONDITION in self._can

    async def stage(
        self,
        volume: CsiVolume,
        path: str,
        *,
        context: Mapping[str, str],
        secrets: Mapping[str, str],
        group: int | None,
    ) -> None:
        request = csi.NodeStageVolumeRequest(
            volume_id=volume.handle,
            publish_context=context,
            staging_target_path=path,
            volume_capability=self._capability(volume, group),
            secrets=secrets,
            volume_context=volume.attributes,
        )
        await self._call("NodeStageVolume", request, csi.NodeStageVolumeResponse)

    async def publish(
        self,
        volume: CsiVolume,
        handle: str,
        path: str,
        *,
        staged: str,
        context: Mapping[str, str],
        attributes: Mapping[str, str],
        secrets: Mapping[str, str],
        group: int | None,
    ) -> None:
        request = csi.NodePublishVolumeRequest(
            volume_id=handle,
            publish_context=context,
            staging_target_path=staged,
            target_path=path,
            volume_capability=self._capability(volume, group),
            readonly=volume.read_only,
            secrets=secrets,
            volume_context=attributes,
        )
        await self._call("NodePublishVolume", request, csi.NodePublishVolumeResponse)

    async def unpublish(self, handle: str, path: str) -> None:
        request = csi.NodeUnpublishVolumeRequest(volume_id=handle, target_path=path)
        await self._call("NodeUnpublishVolume", request, csi.NodeUnpublishVolumeResponse)

    async def unstage(self, handle: str, path: str) -> None:
        request = csi.NodeUnstageVolumeRequest(volume_id=handle, staging_target_path=path)
        await self._call("NodeUnstageVolume", request, csi.NodeUnstageVolumeResponse)

    async def expand(self, volume: CsiVolume, path: str, *, staged: str, size: int, secrets: Mapping[str, str]) -> None:
        request = csi.NodeExpandVolumeRequest(
            volume_id=volume.handle,
            volume_path=path,
            capacity_range=csi.CapacityRange(required_bytes=size),
            staging_target_path=staged,
            volume_capability=self._capability(volume, None),
            secrets=secrets,
        )
        await self._call("NodeExpandVolume", request, csi.NodeExpandVolumeResponse)

    async def usage(self, handle: str, path: str, *, with_health: bool) -> tuple[Disk, VolumeHealth | None]:
        """What it does not tell is 0, as with the Go kubelet. Retry for an answer that says nothing."""
        request = csi.NodeGetVolumeStatsRequest(volume_id=handle, volume_path=path)
        told = await self._call("NodeGetVolumeStats", request, csi.NodeGetVolumeStatsResponse)
        condition = told.volume_condition if with_health and self.tells_health else None
        if not told.usage and condition is None:
            raise Retry(f"the CSI driver {self._name} does not say how full {handle} is")
        size = {each.unit: (each.total, each.available, each.used) for each in told.usage}
        (total, available, used), (inodes, inodes_free, inodes_used) = (
            (max(0, each) for each in size.get(unit, (0, 0, 0)))
            for unit in (csi.VolumeUsage.BYTES, csi.VolumeUsage.INODES)
        )
        disk = Disk(
            at=time.time_ns(),
            capacity=total,
            available=available,
            used=used,
            inodes=inodes,
            inodes_free=inodes_free,
            inodes_used=inodes_used,
        )
        return disk, VolumeHealth(condition.abnormal, condition.message[:_LONGEST]) if condition else None

    def _capability(self, volume: CsiVolume, group: int | None) -> csi.VolumeCapability:
        modes = _MODES | (_SINGLE_NODE_MODES if _RPC.SINGLE_NODE_MULTI_WRITER in self._can else {})
        wanted = volume.access_modes[0] if volume.access_modes else "ReadWriteOnce"
        mode = csi.VolumeCapability.AccessMode(mode=modes.get(wanted, _MODE.UNKNOWN))
        if volume.is_block:
            return csi.VolumeCapability(block=csi.VolumeCapability.BlockVolume(), access_mode=mode)
        mount = csi.VolumeCapability.MountVolume(
            fs_type=volume.fs_type,
            mount_flags=volume.mount_options,
            volume_mount_group=str(group) if group is not None and self.gives_to_groups else "",
        )
        return csi.VolumeCapability(mount=mount, access_mode=mode)

    async def _call(self, name: str, request: Message, reply: type[Reply]) -> Reply:
        began, code = asyncio.get_running_loop().time(), "Canceled"
        try:
            answer = await self._channel.call(f"csi.v1.Node/{name}", request, reply)
            code = "OK"
            return answer
        except PykubeletError as error:
            code = code_of(error) or "Unknown"
            raise
        finally:
            seconds = asyncio.get_running_loop().time() - began
            self._journal.note(DriverCalled(self._name, name, code, seconds))
