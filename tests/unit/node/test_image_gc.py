import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest

from contract.runtime import sandbox_config
from kit.fake_runtime import FakeRuntime
from kit.virtual_time import virtual_time
from pykubelet.base.errors import NotFound, Retry
from pykubelet.base.tasks import supervise
from pykubelet.node.image_gc import PERIOD, ImageGc
from pykubelet.pod.images.image_gc import ImageGcSettings
from pykubelet.pod.ports.runtime import ContainerConfig, Image, Storage


class Events:
    def __init__(self) -> None:
        self.all: list[tuple[str, str]] = []

    def node_event(self, kind: str, reason: str, message: str) -> None:
        self.all.append((kind, reason))


class Node:
    """A runtime with images of ten bytes each on a disk of a hundred."""

    def __init__(self, *names: str, available: int = 0, **settings: Any) -> None:
        loop, began = asyncio.get_running_loop(), datetime(2026, 1, 1, tzinfo=UTC)
        self.runtime = FakeRuntime()
        self.runtime.storage = Storage(capacity=100, available=available)
        for name in names:
            self.add(name)
        self.events = Events()
        self.gc = ImageGc(
            self.runtime,
            self.events,
            ImageGcSettings(**settings),
            now=lambda: began + timedelta(seconds=loop.time()),
        )

    def add(self, name: str, *, pinned: bool = False) -> None:
        self.runtime.hold(Image(id=f"id-{name}", names=(name,), size=10, pinned=pinned))

    async def use(self, name: str) -> str:
        """-> the sandbox of the container that uses it"""
        sandbox_id = (await self.runtime.run_sandbox(sandbox_config(name))).id
        await self.runtime.create_container(sandbox_id, ContainerConfig(name="c", image=name, image_id=f"id-{name}"))
        return sandbox_id

    async def collect(self) -> None:
        await self.gc.collect(self.runtime.pods)

    async def names(self) -> list[str]:
        return sorted(image.names[0] for image in await self.runtime.images())

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        task = asyncio.create_task(supervise("images", partial(self.gc.run, self.runtime.pods)))
        yield
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


@virtual_time
async def test_images_that_nobody_uses_go_until_there_is_room_the_oldest_first() -> None:
    node = Node("a", available=0)
    async with node.running():
        await asyncio.sleep(PERIOD - 1)
        for name in ("b", "c", "d"):
            node.add(name)
        await asyncio.sleep(2 * PERIOD)
        assert await node.names() == ["c", "d"]
        assert node.runtime.storage == Storage(capacity=100, available=20)
        await asyncio.sleep(10 * PERIOD)
        assert await node.names() == ["c", "d"]
        assert ("Warning", "FreeDiskSpaceFailed") in node.events.all  # at first, everything was too young


@virtual_time
async def test_what_is_used_or_pinned_stays_on_the_fullest_disk() -> None:
    node = Node("used", "unused")
    node.add("pinned", pinned=True)
    await node.use("used")
    async with node.running():
        await asyncio.sleep(5 * PERIOD + 1)
        assert await node.names() == ["pinned", "used"]
        assert ("Warning", "FreeDiskSpaceFailed") in node.events.all


@virtual_time
async def test_what_was_used_last_goes_last() -> None:
    node = Node("first", "second", available=30)
    sandbox_id = await node.use("first")
    async with node.running():
        await asyncio.sleep(2 * PERIOD + 1)
        await node.runtime.remove_sandbox(sandbox_id)
        node.runtime.storage = Storage(capacity=100, available=15)
        await asyncio.sleep(PERIOD)
        assert await node.names() == ["first"]


@virtual_time
async def test_an_image_that_was_just_pulled_is_safe_until_its_container_is_there() -> None:
    """It comes between two looks: however long ago the pull was, the look that first sees it does not take it."""
    node = Node(available=0)
    async with node.running():
        await asyncio.sleep(1)
        node.add("pulled")
        await asyncio.sleep(PERIOD)
        assert await node.names() == ["pulled"]
        await node.use("pulled")
        await asyncio.sleep(5 * PERIOD)
        assert await node.names() == ["pulled"]


@virtual_time
async def test_an_old_image_that_a_container_is_about_to_be_made_from_is_as_good_as_new() -> None:
    node = Node("old", "other", available=0)
    async with node.running():
        await asyncio.sleep(PERIOD - 1)
        node.gc.keep("id-old")
        node.gc.keep("id-unknown")
        await asyncio.sleep(2)
        assert await node.names() == ["old"]


@virtual_time
async def test_an_image_is_spared_that_is_needed_while_others_are_being_removed() -> None:
    node = Node("a", "b", "c", available=0, minimum_age=0.0)
    node.runtime.delays["remove_image"] = 5
    collecting = asyncio.create_task(node.collect())
    await asyncio.sleep(1)
    node.gc.keep("id-b")
    await collecting
    assert await node.names() == ["b"]


@virtual_time
async def test_images_that_were_unused_for_too_long_go_though_there_is_room() -> None:
    node = Node("old", "used", available=90, maximum_age=3600.0)
    await node.use("used")
    async with node.running():
        await asyncio.sleep(3600)
        assert await node.names() == ["old", "used"]
        await asyncio.sleep(PERIOD + 1)
        assert await node.names() == ["used"]
        assert node.events.all == []


@virtual_time
async def test_nothing_goes_when_it_is_switched_off() -> None:
    node = Node("a", available=0, high=100)
    async with node.running():
        await asyncio.sleep(10 * PERIOD)
        assert await node.names() == ["a"]
        assert node.events.all == []


@virtual_time
async def test_one_failure_is_a_matter_for_the_log_and_a_second_one_for_everybody() -> None:
    node = Node("a", available=0, minimum_age=0.0)
    node.runtime.failures["remove_image"] = [Retry("busy"), Retry("busy"), Retry("busy")]
    async with node.running():
        await asyncio.sleep(1)
        assert node.events.all == []
        await asyncio.sleep(2 * PERIOD)
        assert node.events.all == [("Warning", "ImageGCFailed")] * 2
        assert await node.names() == ["a"]


@virtual_time
async def test_a_failure_stops_neither_the_other_images_nor_the_next_round() -> None:
    node = Node("a", "b", available=10, minimum_age=0.0)
    node.runtime.failures["remove_image"] = [Retry("busy")]
    with pytest.raises(Retry, match="id-a cannot be removed: busy"):
        await node.collect()
    assert await node.names() == ["a"]
    await node.collect()


@virtual_time
async def test_an_image_that_somebody_else_has_removed_is_gone_all_the_same() -> None:
    node = Node("a", available=10, minimum_age=0.0)
    node.runtime.failures["remove_image"] = [NotFound("no such image")]
    await node.collect()


@virtual_time
async def test_without_a_word_on_the_disk_nothing_goes_and_one_without_any_room_is_told() -> None:
    node = Node("a", minimum_age=0.0)
    node.runtime.storage = None
    await node.collect()
    node.runtime.storage = Storage(capacity=0, available=0)
    with pytest.raises(Retry):
        await node.collect()
    assert node.events.all == [("Warning", "InvalidDiskCapacity")]
    assert await node.names() == ["a"]


@virtual_time
async def test_for_a_node_that_runs_short_all_go_that_may_however_much_room_there_is() -> None:
    node = Node("a", "b", "used", available=90)
    node.add("pinned", pinned=True)
    await node.use("used")
    await node.gc.remove_unused(node.runtime.pods)
    assert await node.names() == ["a", "b", "pinned", "used"], "they are new to this agent"
    await asyncio.sleep(121)
    node.add("new")
    node.runtime.failures["remove_image"] = [Retry("it is busy")]
    with pytest.raises(Retry, match="it is busy"):
        await node.gc.remove_unused(node.runtime.pods)
    assert len(await node.names()) == 4, "one could not be removed, the other was"
    await node.gc.remove_unused(node.runtime.pods)
    assert await node.names() == ["new", "pinned", "used"]
