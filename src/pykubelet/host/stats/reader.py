"""One reading of everything: the runtime says what runs and where it is, one thread asks the kernel, and for a moment
all who ask get the same answer."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Final

from pykubelet.api.pod import Pod
from pykubelet.api.struct import changed
from pykubelet.base.errors import PykubeletError
from pykubelet.host.dirs import PodDirs
from pykubelet.host.stats.asked import Ask, AskedMeter, Measured, mounted_usage
from pykubelet.host.stats.disks import PressureReader
from pykubelet.host.stats.pods import PodReader, StatsSettings
from pykubelet.host.stats.storage import FolderMeter
from pykubelet.host.stats.volumes import FoundVolume, VolumeSources, measured_folders, pod_volumes
from pykubelet.host.threads import in_thread
from pykubelet.pod.observed import ObservedPod
from pykubelet.pod.resize.actions import MemoryUse
from pykubelet.pod.stats.stats import (
    ContainerPlaces,
    Disk,
    ImageStore,
    NodeReading,
    Place,
    PodReading,
    Reading,
)

log = logging.getLogger(__name__)

_PATIENCE: Final = 0.1
"""Seconds that a first answer waits for volumes to be measured."""
_URGENT_PATIENCE: Final = 5.0
"""Seconds that it waits where pods have to go for what they have written, so that the right one does."""
_URGENT_AGE: Final = 2.0
_DISK_PATIENCE: Final = 3.0
"""Seconds that a disk may take to say how full it is."""


class StatsReader:
    """The Stats port. `observe` says what the runtime holds, `wanted` which pods the node knows, with their specs,
    `volumes` what has to be asked of others.

    Everything it remembers goes with the pods that it is about. Belongs to one event loop; `close` it.
    """

    def __init__(
        self,
        observe: Callable[[], Awaitable[Sequence[ObservedPod]]],
        places: ContainerPlaces,
        dirs: PodDirs,
        *,
        wanted: Callable[[], Sequence[Pod]] = tuple,
        volumes: VolumeSources | None = None,
        settings: StatsSettings | None = None,
        now: Callable[[], int] = time.time_ns,
    ) -> None:
        self._observe = observe
        self._places = places
        self._dirs = dirs
        self._wanted = wanted
        self._volumes = volumes or VolumeSources()
        self._settings = settings or StatsSettings()
        self._now = now
        self._meter = FolderMeter(period=self._settings.volume_period)
        self._asked = AskedMeter(period=self._settings.volume_period)
        self._pods = PodReader(dirs, self._settings, self._known)
        own = self._settings
        self._machine = PressureReader(dirs.root, own.pods_group, own.proc, own.sys)
        self._image_store: ImageStore | None = None
        self._asking_disks: asyncio.Task[tuple[Disk | None, Disk | None]] | None = None
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

    async def node(self) -> NodeReading:
        """Disks are asked in a task that is kept: one that does not answer costs one thread, however often it is
        asked."""
        reading = await in_thread(self._machine.machine, self._now())
        if self._asking_disks is None or self._asking_disks.done():
            self._asking_disks = asyncio.create_task(self._disks())
        await asyncio.wait([self._asking_disks], timeout=_DISK_PATIENCE)
        if not self._asking_disks.done():
            log.warning("a disk has not said for %g s how full it is", _DISK_PATIENCE)
            return reading
        disk, images = self._asking_disks.result()
        return changed(reading, disk=disk, images=images)

    async def pods(self, *, files: bool) -> tuple[PodReading, ...]:
        async with self._turn:
            return (await self._read(details=True, is_urgent=files)).pods

    async def _disks(self) -> tuple[Disk | None, Disk | None]:
        if self._image_store is None:
            try:
                self._image_store = await self._places.images()
            except PykubeletError as error:
                log.debug("the runtime does not say where its images are: %s", error)
        return await asyncio.to_thread(self._machine.disks, self._image_store, self._now())

    async def memory_use(self, pod: ObservedPod) -> MemoryUse:
        """Of one pod, this moment."""
        async with self._turn:
            places = await self._places.places([pod], details=False)
            found = await in_thread(self._pods.one, pod, places, self._now())
        if found is None:
            return MemoryUse()
        used = {each.name: each.usage.memory.usage if each.usage.memory else None for each in found.containers}
        return MemoryUse(pod=found.usage.memory.usage if found.usage.memory else None, containers=used)

    async def close(self) -> None:
        if self._asking_disks is not None:
            self._asking_disks.cancel()
            await asyncio.wait([self._asking_disks], timeout=_DISK_PATIENCE)
        await self._meter.close()
        await self._asked.close()

    def _fresh(self, details: bool) -> Reading | None:
        newest = self._newest
        if newest is None or asyncio.get_running_loop().time() - self._read_at >= self._settings.fresh:
            return None
        return newest if newest.has_details or not details else None

    async def _read(self, details: bool, *, is_urgent: bool = False) -> Reading:
        observed = [pod for pod in await self._observe() if pod.is_running]
        places, images = await self._find_places(observed, details)
        volumes = await self._measure(observed, places, is_urgent=is_urgent) if details else {}
        read = partial(self._pods.read, details=details, hidden=is_urgent)
        return await in_thread(read, observed, places, images, volumes, self._now())

    async def _measure(
        self, observed: Sequence[ObservedPod], places: Mapping[str, Place], *, is_urgent: bool = False
    ) -> Mapping[str, Sequence[FoundVolume]]:
        """See to it that all volumes and layers of these pods are measured. -> the volumes, by uid"""
        if self._settings.volume_period < 0:
            return {}
        layers = [place.layer for place in places.values() if place.layer]
        specs = {pod.metadata.uid: pod for pod in self._wanted()}
        volumes = await in_thread(pod_volumes, self._dirs, observed, specs, self._volumes.claimed)
        await self._asked.refresh(self._asks(volumes, specs), patience=_PATIENCE)
        folders = {*measured_folders(volumes), *layers}
        if is_urgent:
            await self._meter.refresh(folders, patience=_URGENT_PATIENCE, at_most=_URGENT_AGE)
        else:
            await self._meter.refresh(folders, patience=_PATIENCE)
        return volumes

    def _known(self, place: str) -> Measured | None:
        disk = self._meter.known(place)
        return (disk, None) if disk is not None else self._asked.known(place)

    def _asks(self, volumes: Mapping[str, Sequence[FoundVolume]], specs: Mapping[str, Pod]) -> dict[str, Ask]:
        found: dict[str, Ask] = {}
        for uid, of_pod in volumes.items():
            for each in of_pod:
                if each.sort == "driver's":
                    found[each.path] = partial(self._drivers_usage, uid, each, specs.get(uid))
                elif each.sort == "file system":
                    found[each.path] = partial(mounted_usage, each.path)
        return found

    async def _drivers_usage(self, uid: str, volume: FoundVolume, pod: Pod | None) -> Measured | None:
        """Where a driver does not tell, its file system does."""
        told = await self._volumes.usage(uid, volume.folder)
        if told is not None and told[1] is not None and told[1].is_abnormal and pod is not None:
            self._volumes.tell_abnormal(pod, f"Volume {volume.name}: {told[1].message}")
        return told or (await mounted_usage(volume.path) if volume.is_mounted else None)

    async def _find_places(
        self, observed: Sequence[ObservedPod], details: bool
    ) -> tuple[Mapping[str, Place], ImageStore | None]:
        if not details:
            return await self._places.places(observed, details=False), None
        return await asyncio.gather(self._places.places(observed, details=True), self._places.images())
