from datetime import UTC, datetime, timedelta

import pytest

from pykubelet.api.struct import changed
from pykubelet.base.errors import Invalid
from pykubelet.pod.images.image_gc import ImageGcSettings, ImageRecord, excess, outdated, removable, seen
from pykubelet.pod.observed import ObservedContainer, ObservedPod, State
from pykubelet.pod.ports.runtime import Image, Storage

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
SETTINGS = ImageGcSettings()


def ago(minutes: float) -> datetime:
    return NOW - timedelta(minutes=minutes)


def record(name: str, detected: float, used: float | None = None, **fields: bool) -> ImageRecord:
    """Minutes ago."""
    last_used = None if used is None else ago(used)
    return ImageRecord(id=name, first_detected=ago(detected), last_used=last_used, size=1, **fields)


def pod(image_id: str, image: str = "", state: State = State.RUNNING) -> ObservedPod:
    container = ObservedContainer(id="c-1", name="c", state=state, image_id=image_id, image=image)
    return ObservedPod(uid="u", name="web", namespace="default", containers=(container,))


@pytest.mark.parametrize(
    ("available", "high", "low", "expected"),
    [
        (100, 85, 80, 0),
        (16, 85, 80, 0),  # 84 % in use
        (15, 85, 80, 5),  # 85 %: down to 80 %
        (0, 85, 80, 20),
        (15, 85, 85, 0),
        (10, 85, 0, 90),
        (500, 85, 80, 0),  # more than there is: a file system that counts oddly
        (0, 100, 80, 0),  # switched off
        (100, 0, 0, 0),
        (99, 0, 0, 1),
    ],
)
def test_as_much_is_freed_as_brings_the_disk_down_to_the_low_mark(
    available: int, high: int, low: int, expected: int
) -> None:
    assert excess(Storage(capacity=100, available=available), ImageGcSettings(high=high, low=low)) == expected


def test_percents_are_whole_as_upstream_counts_them() -> None:
    settings = ImageGcSettings(high=85, low=80)
    assert excess(Storage(capacity=1000, available=151), settings) == 49  # 84.9 % in use count as 85
    assert excess(Storage(capacity=1000, available=160), settings) == 0
    assert excess(Storage(capacity=0, available=0), settings) == 0


def test_the_longest_unused_go_first_and_the_never_used_before_all() -> None:
    records = [
        record("used lately", detected=90, used=10),
        record("used long ago", detected=80, used=60),
        record("never, newer", detected=20),
        record("never, older", detected=30),
        record("used long ago, older", detected=85, used=60),
    ]
    assert [each.id for each in removable(records, SETTINGS, NOW)] == [
        "never, older",
        "never, newer",
        "used long ago, older",
        "used long ago",
        "used lately",
    ]


@pytest.mark.parametrize(
    ("image", "may_go"),
    [
        (record("unused", detected=10), True),
        (record("just old enough", detected=2), True),
        (record("too young", detected=1.9), False),
        (record("new", detected=0), False),
        (record("in use", detected=10, used=0, in_use=True), False),
        (record("pinned", detected=10, pinned=True), False),
        (record("used a moment ago", detected=10, used=0.1), True),
    ],
    ids=lambda value: value.id if isinstance(value, ImageRecord) else "",
)
def test_what_is_in_use_or_pinned_or_young_stays(image: ImageRecord, may_go: bool) -> None:
    assert bool(removable([image], SETTINGS, NOW)) is may_go


@pytest.mark.parametrize(
    ("image", "goes"),
    [
        (record("unused for long", detected=100, used=61), True),
        (record("at the very age", detected=100, used=60), False),
        (record("never used and here for long", detected=61), True),
        (record("never used and new to this agent", detected=59), False),
        (record("in use", detected=100, used=0, in_use=True), False),
        (record("pinned", detected=100, used=99, pinned=True), False),
    ],
    ids=lambda value: value.id if isinstance(value, ImageRecord) else "",
)
def test_what_nobody_has_used_for_too_long_goes_however_much_room_there_is(image: ImageRecord, goes: bool) -> None:
    assert bool(outdated([image], ImageGcSettings(maximum_age=3600), NOW)) is goes
    assert outdated([image], SETTINGS, NOW) == ()


def test_an_image_counts_from_its_first_look_on() -> None:
    image = Image(id="a", names=("a:1",), size=7)
    first = seen({}, [image], [], ago(10))
    again = seen(first, [image], [], NOW)
    assert again["a"] == ImageRecord(id="a", first_detected=ago(10), size=7)
    assert seen(seen(again, [], [], NOW), [image], [], NOW)["a"].first_detected == NOW


def test_the_last_use_is_remembered_after_the_container_has_gone() -> None:
    image = Image(id="a", names=("a:1",))
    used = seen({}, [image], [pod("a")], ago(10))
    assert (used["a"].last_used, used["a"].in_use) == (ago(10), True)
    unused = seen(used, [image], [], NOW)
    assert (unused["a"].last_used, unused["a"].in_use) == (ago(10), False)


@pytest.mark.parametrize(
    "user",
    [
        pod("sha256:1"),
        pod("docker.io/library/app@sha256:2"),
        pod("mirror.local/app@sha256:2"),  # a name that the image has lost since
        pod("docker.io/library/app:1"),
        pod("", "docker.io/library/app:1"),
        pod("sha256:1", state=State.EXITED),
        pod("sha256:1", state=State.CREATED),
        changed(pod("x"), containers=(changed(pod("x").containers[0], volume_images=("sha256:1",)),)),
    ],
)
def test_containers_name_their_images_in_many_ways_and_dead_ones_count(user: ObservedPod) -> None:
    names = ("docker.io/library/app:1", "docker.io/library/app@sha256:2")
    other = Image(id="sha256:9", names=("docker.io/library/other:1", "docker.io/library/other@sha256:8"))
    records = seen({}, [Image(id="sha256:1", names=names), other], [user], NOW)
    assert {key: each.in_use for key, each in records.items()} == {"sha256:1": True, "sha256:9": False}


@pytest.mark.parametrize(
    "fields",
    [
        {"high": 101},
        {"low": -1},
        {"high": 50, "low": 60},
        {"minimum_age": -1.0},
        {"maximum_age": -1.0},
        {"minimum_age": 60.0, "maximum_age": 60.0},
    ],
)
def test_settings_that_make_no_sense_are_refused(fields: dict[str, float]) -> None:
    with pytest.raises(Invalid, match="image"):
        ImageGcSettings(**fields)  # type: ignore[arg-type]


def test_it_is_off_without_a_high_mark_and_without_a_greatest_age() -> None:
    assert ImageGcSettings(high=100).is_off
    assert not ImageGcSettings(high=100, maximum_age=3600.0).is_off
    assert not SETTINGS.is_off
