"""One reading of everything: the runtime says what runs and where it is, one thread asks the kernel, and for a moment
all who ask get the same answer."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Final

from pykubelet.api.pod import Pod
from pykubelet.host.dirs import PodDirs
from pykubelet.host.stats.pods import PodReader, StatsSettings
from pykubelet.host.stats.storage import FolderMeter
from pykubelet.host.stats.volumes import FoundVolume, measured_folders, pod_volumes
from pykubelet.host.threads import in_thread
from pykubelet.pod.observed import ObservedPod
from pykubelet.pod.stats.stats import ContainerPlaces, ImageStore, Place, Reading

_PATIENCE: Final = 0.1
"""Seconds that a first answer waits for volumes to be measured."""


class StatsReader:
    """The Stats port. `observe` says what the runtime holds, `wanted` which pods the node knows, with their specs.

    Everything it remembers goes with the pods that it is about. Belongs to one event loop; `close` it.
    """

    def __init__(
        self,
        observe: Callable[[], Awaitable[Sequence[ObservedPod]]],
        places: ContainerPlaces,
        dirs: PodDirs,
        *,
        wanted: Callable[[], Sequence[Pod]] = tuple,
        settings: StatsSettings | None = None,
        now: Callable[[], int] = time.time_ns,
    ) -> None:
        self._observe = observe
        self._places = places
        self._dirs = dirs
        self._wanted = wanted
        self._settings = settings or StatsSettings()
        self._now = now
        self._meter = FolderMeter(period=self._settings.volume_period)
        self._pods = PodReader(dirs, self._settings, self._meter.known)
        self._turn = asyncio.Lock()
        self._newest: Reading | None = None
        self._read_at = float("-inf")

    async def read(self, *, details: bool = True) -> Reading:
        if (fresh := self._fresh(details)) is not None:
            return fresh
        async with self._turn:  # who comes meanwhile takes what the first one brings
            if (fresh := self._fresh(details)) is not None:
                return fresh
            reading = await self._read(details)
            self._newest, self._read_at = reading, asyncio.get_running_loop().time()
            return reading

    async def storage(self, pods: Sequence[ObservedPod], uids: Collection[str]) -> Reading:
        """All pods count for what is remembered, so that nobody's volumes are measured more often for this."""
        observed = [pod for pod in pods if pod.is_running]
        async with self._turn:
            places, images = await self._find_places(observed, details=True)
            volumes = await self._measure(observed, places)
            asked = [pod for pod in observed if pod.uid in uids]
            return await in_thread(self._pods.storage, asked, places, images, volumes, self._now())

    async def close(self) -> None:
        await self._meter.close()

    def _fresh(self, details: bool) -> Reading | None:
        newest = self._newest
        if newest is None or asyncio.get_running_loop().time() - self._read_at >= self._settings.fresh:
            return None
        return newest if newest.has_details or not details else None

    async def _read(self, details: bool) -> Reading:
        observed = [pod for pod in await self._observe() if pod.is_running]
        places, images = await self._find_places(observed, details)
        volumes = await self._measure(observed, places) if details else {}
        return await in_thread(self._pods.read, observed, places, images, volumes, self._now(), details=details)

    async def _measure(
        self, observed: Sequence[ObservedPod], places: Mapping[str, Place]
    ) -> Mapping[str, Sequence[FoundVolume]]:
        """See to it that all volumes and layers of these pods are measured. -> the volumes, by uid"""
        if self._settings.volume_period < 0:
            return {}
        layers = {place.layer: True for place in places.values() if place.layer}
        specs = {pod.metadata.uid: pod for pod in self._wanted()}
        volumes = await in_thread(pod_volumes, self._dirs, observed, specs)
        await self._meter.refresh({**measured_folders(volumes), **layers}, patience=_PATIENCE)
        return volumes

    async def _find_places(
        self, observed: Sequence[ObservedPod], details: bool
    ) -> tuple[Mapping[str, Place], ImageStore | None]:
        if not details:
            return await self._places.places(observed, details=False), None
        return await asyncio.gather(self._places.places(observed, details=True), self._places.images())
