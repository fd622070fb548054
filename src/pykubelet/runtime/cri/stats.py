"""Where the containers of a CRI runtime are on this machine: their first processes, and the layers they write to."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Final

from msgspec import DecodeError, Struct, json

from pykubelet.base.errors import Invalid, NotFound, Retry
from pykubelet.pod.observed import ObservedPod, State
from pykubelet.pod.stats.stats import ImageStore, Place
from pykubelet.runtime.cri import images
from pykubelet.runtime.cri._gen import cri_pb2 as cri
from pykubelet.runtime.cri.observe import SERVICE
from pykubelet.web.grpc_channel import Channel

_AT_ONCE: Final = 16
_PATIENCE: Final = 5.0
"""Seconds that one question may hold up a reading."""
_LAYERS_PERIOD: Final = 10.0
"""Runtimes measure the layers of containers in periods of this kind; to ask more often shows nothing new."""


class _Info(Struct, frozen=True):
    """What we want to know of what a runtime says when it is asked for everything."""

    pid: int = 0
    image: str = ""


class CriPlaces:
    """Asks once about each container: its first process stays the same as long as it runs."""

    def __init__(self, channel: Channel, image_channel: Channel | None = None) -> None:
        self._channel = channel
        self._image_channel = image_channel or channel
        self._known: dict[str, Place] = {}
        self._layers: Mapping[str, tuple[int, int]] = {}
        self._layers_at = float("-inf")

    async def places(self, pods: Sequence[ObservedPod], *, details: bool) -> Mapping[str, Place]:
        sandboxes = {each.id for pod in pods for each in pod.sandboxes if each.ready}
        containers = {each.id for pod in pods for each in pod.containers if each.state is State.RUNNING}
        layers, _ = await asyncio.gather(self._read_layers(details), self._ask(sandboxes, containers))
        self._known = {key: place for key, place in self._known.items() if key in sandboxes or key in containers}
        return {key: _with_layer(place, layers.get(key)) for key, place in self._known.items()}

    async def images(self) -> ImageStore | None:
        request = cri.ImageFsInfoRequest()
        try:
            answer = await self._image_channel.call(
                f"{images.SERVICE}/ImageFsInfo", request, cri.ImageFsInfoResponse, deadline=_PATIENCE
            )
        except (Invalid, Retry):
            return None
        for each in answer.image_filesystems:
            if each.fs_id.mountpoint:
                return ImageStore(
                    path=each.fs_id.mountpoint,
                    used=each.used_bytes.value if each.HasField("used_bytes") else None,
                    inodes_used=each.inodes_used.value if each.HasField("inodes_used") else None,
                )
        return None

    # --- inside

    async def _ask(self, sandboxes: Iterable[str], containers: Iterable[str]) -> None:
        limit = asyncio.Semaphore(_AT_ONCE)

        async def ask(key: str, info: Callable[[str], Awaitable[Mapping[str, str]]]) -> None:
            with suppress(NotFound, Retry):
                async with limit:
                    place = place_of(await info(key))
                if place is not None:
                    self._known[key] = place

        await asyncio.gather(
            *(ask(key, self._sandbox_info) for key in sandboxes if key not in self._known),
            *(ask(key, self._container_info) for key in containers if key not in self._known),
        )

    async def _container_info(self, container_id: str) -> Mapping[str, str]:
        request = cri.ContainerStatusRequest(container_id=container_id, verbose=True)
        reply = cri.ContainerStatusResponse
        return (await self._channel.call(f"{SERVICE}/ContainerStatus", request, reply, deadline=_PATIENCE)).info

    async def _sandbox_info(self, sandbox_id: str) -> Mapping[str, str]:
        request = cri.PodSandboxStatusRequest(pod_sandbox_id=sandbox_id, verbose=True)
        reply = cri.PodSandboxStatusResponse
        return (await self._channel.call(f"{SERVICE}/PodSandboxStatus", request, reply, deadline=_PATIENCE)).info

    async def _read_layers(self, details: bool) -> Mapping[str, tuple[int, int]]:
        """Bytes and inodes in the layer of each container; those of the last time when the runtime does not say."""
        loop = asyncio.get_running_loop()
        if not details or loop.time() - self._layers_at < _LAYERS_PERIOD:
            return self._layers
        request = cri.ListContainerStatsRequest()
        try:
            answer = await self._channel.call(
                f"{SERVICE}/ListContainerStats", request, cri.ListContainerStatsResponse, deadline=_PATIENCE
            )
        except (Invalid, NotFound, Retry):
            return self._layers
        self._layers_at = loop.time()
        self._layers = {
            each.attributes.id: (each.writable_layer.used_bytes.value, each.writable_layer.inodes_used.value)
            for each in answer.stats
            if each.HasField("writable_layer")
        }
        return self._layers


def place_of(info: Mapping[str, str]) -> Place | None:
    """From what containerd and CRI-O add to a status that is asked for everything; None when there is no process."""
    try:
        found = json.decode(info.get("info", "{}"), type=_Info)
    except DecodeError:
        return None
    return Place(pid=found.pid, image=found.image) if found.pid > 0 else None


def _with_layer(place: Place, layer: tuple[int, int] | None) -> Place:
    if layer is None:
        return place
    return Place(pid=place.pid, image=place.image, written=layer[0], written_inodes=layer[1])
