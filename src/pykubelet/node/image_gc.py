"""Every five minutes: look at the images, and remove what nobody uses when the disk runs full."""

import logging
from collections.abc import Awaitable, Callable, Iterable
from datetime import UTC, datetime
from typing import Final, Literal

from pykubelet.api.struct import changed
from pykubelet.base.errors import NotFound, PykubeletError, Retry
from pykubelet.base.tasks import every
from pykubelet.pod.images.image_gc import ImageGcSettings, ImageRecord, excess, outdated, removable, seen
from pykubelet.pod.moments import ImageRemoved, Journal
from pykubelet.pod.observed import ObservedPod
from pykubelet.pod.ports.node import NodeRecorder
from pykubelet.pod.ports.runtime import Runtime

log = logging.getLogger(__name__)

PERIOD: Final = 300.0

Look = Callable[[], Awaitable[Iterable[ObservedPod]]]
"""Shows all pods as they are from now on."""


class ImageGc:
    """Remembers since when each image has been here, and when it was last used. `keep` wants to be told of every image
    that a container is about to be made from."""

    def __init__(
        self,
        runtime: Runtime,
        recorder: NodeRecorder | None = None,
        settings: ImageGcSettings | None = None,
        *,
        journal: Journal | None = None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._runtime = runtime
        self._journal = journal or Journal()
        self._recorder = recorder
        self.settings = settings or ImageGcSettings()
        self._now = now
        self._records: dict[str, ImageRecord] = {}
        self._has_failed = False

    async def run(self, look: Look) -> None:
        """Until cancelled."""
        async for _ in every(PERIOD):
            if self.settings.is_off:
                continue
            try:
                await self.collect(look)
            except PykubeletError as error:
                self._complain(error)
            else:
                self._has_failed = False

    async def collect(self, look: Look) -> None:
        """One round. Raises Retry when an image could not be removed, or when too little could be freed."""
        now = await self._look(look)
        failures: list[PykubeletError] = []
        await self._free(outdated(self._records.values(), self.settings, now), None, failures, "age")
        wanted = await self._bytes_to_free()
        freed = await self._free(removable(self._records.values(), self.settings, now), wanted, failures)
        if failures:
            raise Retry("; ".join(str(failure) for failure in failures))
        if freed < wanted:
            message = (
                "Failed to garbage collect required amount of images. "
                f"Attempted to free {wanted} bytes, but only found {freed} bytes eligible to free."
            )
            self._tell("FreeDiskSpaceFailed", message)
            raise Retry(message)

    async def remove_unused(self, look: Look) -> None:
        """All that may go, whatever it frees. Raises Retry when an image could not be removed."""
        failures: list[PykubeletError] = []
        now = await self._look(look)
        await self._free(removable(self._records.values(), self.settings, now), None, failures)
        if failures:
            raise Retry("; ".join(str(failure) for failure in failures))

    def keep(self, image_id: str) -> None:
        """A container is about to be made from this image, so that it is as good as new; also for a round that is
        under way. One that is not known yet will be new at the next look."""
        if image_id in self._records:
            self._records[image_id] = changed(self._records[image_id], first_detected=self._now())

    # --- inside

    async def _look(self, look: Look) -> datetime:
        images = await self._runtime.images()
        pods = await look()  # afterwards, so that what was made from them meanwhile is seen
        now = self._now()
        self._records = seen(self._records, images, pods, now)
        return now

    async def _bytes_to_free(self) -> int:
        storage = await self._runtime.image_storage()
        if storage is None:
            return 0
        if storage.capacity <= 0:
            message = "invalid capacity 0 on image filesystem"
            self._tell("InvalidDiskCapacity", message)
            raise Retry(message)
        return excess(storage, self.settings)

    async def _free(
        self,
        images: Iterable[ImageRecord],
        wanted: int | None,
        failures: list[PykubeletError],
        reason: Literal["age", "space"] = "space",
    ) -> int:
        """Remove images until `wanted` bytes are free, or all of them. -> how much that was"""
        freed = 0
        for image in images:
            if wanted is not None and freed >= wanted:
                break
            known = self._records.get(image.id)
            if known is None or known.first_detected != image.first_detected:
                continue  # somebody else removed it, or a container is about to need it
            try:
                await self._runtime.remove_image(image.id)
            except NotFound:
                pass
            except PykubeletError as error:
                failures.append(Retry(f"image {image.id} cannot be removed: {error}"))
                continue
            log.info("removed image %s, which nobody uses: %d bytes", image.id, image.size)
            self._journal.note(ImageRemoved(image.id, reason))
            self._records.pop(image.id, None)
            freed += image.size
        return freed

    def _complain(self, error: PykubeletError) -> None:
        """Once may happen, such as while a runtime starts; twice is told to everybody."""
        log.warning("image garbage collection failed: %s", error)
        if self._has_failed:
            self._tell("ImageGCFailed", str(error))
        self._has_failed = True

    def _tell(self, reason: str, message: str) -> None:
        if self._recorder is not None:
            self._recorder.node_event("Warning", reason, message)
