"""A storage driver for one node that follows the specification, or does not, as its test wants.

Its volumes are folders: staged by mounting them, and published by mounting them again, as real ones are.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from google.protobuf.message import Message

from kit.plugin_socket import Introduction
from pykubelet.base.errors import Invalid, Retry
from pykubelet.host import mount
from pykubelet.plugins._gen import csi_pb2 as csi
from pykubelet.plugins._gen.registration_pb2 import PluginInfo
from pykubelet.web.grpc_server import Call, answering

RPC = csi.NodeServiceCapability.RPC


class StorageDriver:
    """`asked` is what it was asked, in words; `requests` the newest of each kind. `trouble` may raise before a call is
    done, `trouble_after` when it was done."""

    def __init__(self, folder: Path, name: str = "disk.example.com", *capabilities: int, mounts: bool = True) -> None:
        self.name = name
        self.folder = folder
        self.asked: list[str] = []
        self.requests: dict[str, Message] = {}
        self.trouble: Callable[[str], None] = lambda call: None
        self.trouble_after: Callable[[str], None] = lambda call: None
        self.hangs: set[str] = set()
        self.lies: set[str] = set()
        """Calls that it says to have done, without doing anything."""
        self.node_id = "node-1"
        self.most_volumes = 7
        self.stats = csi.NodeGetVolumeStatsResponse()
        self._mounts = mounts
        self._capabilities = capabilities or (RPC.STAGE_UNSTAGE_VOLUME,)

    @asynccontextmanager
    async def at(self, registry: Path, *, endpoint: Path | None = None) -> AsyncIterator[Introduction]:
        """Registered by a socket in the registry's folder, until the end of the block."""
        place = endpoint or self.folder / "csi.sock"
        calls = {
            "NodeGetCapabilities": Call(csi.NodeGetCapabilitiesRequest, self._get_capabilities),
            "NodeGetInfo": Call(csi.NodeGetInfoRequest, self._get_info),
            "NodeStageVolume": Call(csi.NodeStageVolumeRequest, self._stage),
            "NodeUnstageVolume": Call(csi.NodeUnstageVolumeRequest, self._unstage),
            "NodePublishVolume": Call(csi.NodePublishVolumeRequest, self._publish),
            "NodeUnpublishVolume": Call(csi.NodeUnpublishVolumeRequest, self._unpublish),
            "NodeExpandVolume": Call(csi.NodeExpandVolumeRequest, self._expand),
            "NodeGetVolumeStats": Call(csi.NodeGetVolumeStatsRequest, self._get_stats),
        }
        info = PluginInfo(type="CSIPlugin", name=self.name, endpoint=str(place), supported_versions=["1.0.0"])
        introduction = Introduction(info)
        named = {f"csi.v1.Node/{name}": call for name, call in calls.items()}
        async with answering(str(place), named), introduction.at(registry / f"{self.name}-reg.sock"):
            yield introduction

    async def _get_capabilities(self, _: csi.NodeGetCapabilitiesRequest) -> csi.NodeGetCapabilitiesResponse:
        found = [csi.NodeServiceCapability(rpc=RPC(type=each)) for each in self._capabilities]  # type: ignore[arg-type]
        return csi.NodeGetCapabilitiesResponse(capabilities=found)

    async def _get_info(self, _: csi.NodeGetInfoRequest) -> csi.NodeGetInfoResponse:
        topology = csi.Topology(segments={"example.com/rack": "r1"})
        return csi.NodeGetInfoResponse(
            node_id=self.node_id, max_volumes_per_node=self.most_volumes, accessible_topology=topology
        )

    async def _stage(self, request: csi.NodeStageVolumeRequest) -> csi.NodeStageVolumeResponse:
        async with self._doing("stage", request, request.volume_id):
            if "stage" not in self.lies:
                self._mount(str(self._volume(request.volume_id)), request.staging_target_path)
        return csi.NodeStageVolumeResponse()

    async def _unstage(self, request: csi.NodeUnstageVolumeRequest) -> csi.NodeUnstageVolumeResponse:
        async with self._doing("unstage", request, request.volume_id):
            if "unstage" not in self.lies:
                self._unmount(request.staging_target_path)
        return csi.NodeUnstageVolumeResponse()

    async def _publish(self, request: csi.NodePublishVolumeRequest) -> csi.NodePublishVolumeResponse:
        async with self._doing("publish", request, request.volume_id):
            staged = request.staging_target_path
            if self._mounts and staged and "stage" not in self.lies and not mount.is_mount_point(staged):
                raise Invalid("it is not staged")
            source = staged or str(self._volume(request.volume_id))
            if request.volume_capability.HasField("block"):
                source = "/dev/null"
            if "publish" not in self.lies:
                self._make_target(request.target_path, is_block=request.volume_capability.HasField("block"))
                self._mount(source, request.target_path)
        return csi.NodePublishVolumeResponse()

    async def _unpublish(self, request: csi.NodeUnpublishVolumeRequest) -> csi.NodeUnpublishVolumeResponse:
        async with self._doing("unpublish", request, request.volume_id):
            if "unpublish" not in self.lies:
                self._unmount(request.target_path)
                self._remove_target(request.target_path)
        return csi.NodeUnpublishVolumeResponse()

    async def _expand(self, request: csi.NodeExpandVolumeRequest) -> csi.NodeExpandVolumeResponse:
        async with self._doing("expand", request, request.volume_id):
            return csi.NodeExpandVolumeResponse(capacity_bytes=request.capacity_range.required_bytes)

    async def _get_stats(self, request: csi.NodeGetVolumeStatsRequest) -> csi.NodeGetVolumeStatsResponse:
        async with self._doing("stats", request, request.volume_id):
            return self.stats

    @asynccontextmanager
    async def _doing(self, call: str, request: Message, volume: str) -> AsyncIterator[None]:
        self.asked.append(f"{call} {volume}")
        self.requests[call] = request
        if call in self.hangs:
            await asyncio.sleep(3600)
        self.trouble(call)
        yield
        self.trouble_after(call)

    def _make_target(self, path: str, *, is_block: bool) -> None:
        if is_block:
            Path(path).touch()
        else:
            os.makedirs(path, exist_ok=True)

    def _remove_target(self, path: str) -> None:
        if os.path.islink(path) or os.path.isfile(path):
            os.unlink(path)
        elif os.path.isdir(path):
            os.rmdir(path)

    def _volume(self, name: str) -> Path:
        found = self.folder / "volumes" / name
        found.mkdir(parents=True, exist_ok=True)
        return found

    def _mount(self, source: str, target: str) -> None:
        if self._mounts and not mount.is_mount_point(target):
            mount.bind(source, target)

    def _unmount(self, target: str) -> None:
        if self._mounts and mount.is_mount_point(target):
            mount.unmount(target)


def once(call: str, text: str = "not now") -> Callable[[str], None]:
    """Trouble with one call, the first time."""
    left = [call]

    def trouble(asked: str) -> None:
        if asked in left:
            left.remove(asked)
            raise Retry(text)

    return trouble
