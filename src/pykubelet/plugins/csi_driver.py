"""One storage driver: the questions that it is asked."""

from collections.abc import Mapping
from typing import Final, TypeVar

from google.protobuf.message import Message

from pykubelet.plugins._gen import csi_pb2 as csi
from pykubelet.pod.ports.csi import CsiVolume
from pykubelet.web.grpc_channel import Channel

Reply = TypeVar("Reply", bound=Message)

_DEADLINE: Final = 120.0
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
    """Raises base.errors, with what the driver says. Calls for one volume never overlap."""

    def __init__(self, name: str, endpoint: str) -> None:
        self.endpoint = endpoint
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
        return await self._channel.call(f"csi.v1.Node/{name}", request, reply)
