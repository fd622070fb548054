"""Which images go: those that nobody uses, the longest unused first, when the disk runs full; and those that nobody has
used for very long, if people want that."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime

from msgspec import Struct

from pykubelet.base.errors import Invalid
from pykubelet.pod.observed import ObservedPod
from pykubelet.pod.ports.runtime import Image, Storage

_NEVER = datetime.min.replace(tzinfo=UTC)


class ImageGcSettings(Struct, frozen=True, kw_only=True):
    """Percents of the disk that holds the images, and seconds."""

    high: int = 85
    """As much in use, or more, and images go. 100: never for want of room."""
    low: int = 80
    """So much may stay in use."""
    minimum_age: float = 120.0
    """Nothing goes that has been here for less: it may just have been pulled for a container that is still to be."""
    maximum_age: float = 0.0
    """What has not been used for longer goes in any case. 0: however long."""

    def __post_init__(self) -> None:
        if not 0 <= self.low <= self.high <= 100:
            raise Invalid(
                "imageGCLowThresholdPercent and imageGCHighThresholdPercent have to be between 0 and 100, the first not"
                f" above the second; they are {self.low} and {self.high}"
            )
        if self.minimum_age < 0 or self.maximum_age < 0:
            raise Invalid("imageMinimumGCAge and imageMaximumGCAge cannot be negative")
        if 0 < self.maximum_age <= self.minimum_age:
            raise Invalid("imageMaximumGCAge has to be longer than imageMinimumGCAge, or 0")

    @property
    def is_off(self) -> bool:
        return self.high == 100 and not self.maximum_age


class ImageRecord(Struct, frozen=True, kw_only=True):
    """One image, as it is remembered from look to look."""

    id: str
    first_detected: datetime
    size: int = 0
    last_used: datetime | None = None
    """The last look at which a container was made from it."""
    in_use: bool = False
    pinned: bool = False


def seen(
    before: Mapping[str, ImageRecord], images: Iterable[Image], pods: Iterable[ObservedPod], now: datetime
) -> dict[str, ImageRecord]:
    """What is known of the images after one more look. What is gone is forgotten: should it come back, it is new."""
    containers = [each for pod in pods for each in pod.containers]
    used = {name for each in containers for name in (each.image_id or each.image, *each.volume_images) if name}
    digests = _digests(used)
    records = {}
    for image in images:
        known = before.get(image.id)
        in_use = image.id in used or not used.isdisjoint(image.names) or not digests.isdisjoint(_digests(image.names))
        records[image.id] = ImageRecord(
            id=image.id,
            first_detected=known.first_detected if known else now,
            size=image.size,
            last_used=now if in_use else known.last_used if known else None,
            in_use=in_use,
            pinned=image.pinned,
        )
    return records


def removable(records: Iterable[ImageRecord], settings: ImageGcSettings, now: datetime) -> tuple[ImageRecord, ...]:
    """Those that may go, in the order in which they go."""
    unused = (
        each
        for each in records
        if not each.in_use and not each.pinned and (now - each.first_detected).total_seconds() >= settings.minimum_age
    )
    return tuple(sorted(unused, key=lambda each: (each.last_used or _NEVER, each.first_detected, each.id)))


def outdated(records: Iterable[ImageRecord], settings: ImageGcSettings, now: datetime) -> tuple[ImageRecord, ...]:
    """Those that go however much room there is. One that was never used counts from when it was first seen: only what
    this agent has watched for so long is known to have been unused so long."""
    if not settings.maximum_age:
        return ()
    return tuple(
        each
        for each in removable(records, settings, now)
        if (now - (each.last_used or each.first_detected)).total_seconds() > settings.maximum_age
    )


def excess(storage: Storage, settings: ImageGcSettings) -> int:
    """The bytes that have to be freed; 0 when there is room enough."""
    if settings.high == 100 or storage.capacity <= 0:
        return 0
    available = min(storage.available, storage.capacity)
    in_use = 100 - available * 100 // storage.capacity
    if in_use < settings.high:
        return 0
    return max(storage.capacity * (100 - settings.low) // 100 - available, 0)


def _digests(names: Iterable[str]) -> set[str]:
    """A container says what it was made from as `repository@digest`, and an image may since have lost that name."""
    return {name.rpartition("@")[2] for name in names if "@" in name}
