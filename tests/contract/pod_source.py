"""What every source of pods promises, whatever it reads them from.

A source under test comes with its `Outside`: the world that it looks at, as a test can move it. `PROMISES` are run on
each of them. Time is virtual, so the deadlines may be as long as the slowest source takes.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import aclosing, asynccontextmanager, suppress
from typing import Protocol

from kit.waiting import eventually
from pykubelet.api.pod import Pod
from pykubelet.pod.lifecycle.pod_update import Applied, Gone, Listed
from pykubelet.pod.ports.syncer import PodSource

Event = Listed | Applied | Gone

NODE = "n1"
DEADLINE = 1000.0


class Dependencies(Protocol):
    """Where a source gets its pods. Names are those that people write; a source may make them longer."""

    @property
    def source(self) -> PodSource: ...

    async def put(self, name: str, image: str) -> None:
        """A pod is there, or is there with another image."""
        ...

    async def take(self, name: str) -> None:
        """A pod is no longer there."""
        ...

    async def spoil(self) -> None:
        """What the source is told next makes no sense, until the next `put` or `take`."""
        ...

    async def lose(self) -> None:
        """The way to the pods is cut for a while; by itself it is there again later."""
        ...


class Following:
    """The events of one call of `watch`, as they came, and the pods that they add up to."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.pods: dict[str, Pod] = {}
        self._come = asyncio.Event()
        self._read = 0

    @property
    def images(self) -> dict[str, str]:
        """Image by name of the pods, without what a source adds to a static pod's name."""
        return {pod.metadata.name.removesuffix(f"-{NODE}"): pod.spec.containers[0].image for pod in self.pods.values()}

    def take(self, event: Event) -> None:
        self.events.append(event)
        match event:
            case Listed(pods, unread):
                kept = {uid: pod for uid, pod in self.pods.items() if uid in unread}
                self.pods = {**kept, **{pod.metadata.uid: pod for pod in pods}}
            case Applied(pod):
                self.pods[pod.metadata.uid] = pod
            case Gone(uid):
                self.pods.pop(uid, None)
        self._come.set()

    async def next(self, *, within: float = DEADLINE) -> Event:
        """The oldest event that was not asked for yet."""
        async with asyncio.timeout(within):
            while self._read == len(self.events):
                self._come.clear()
                await self._come.wait()
        self._read += 1
        return self.events[self._read - 1]

    async def silence(self, seconds: float) -> None:
        """So long nothing may come."""
        event: Event | None = None
        with suppress(TimeoutError):
            event = await self.next(within=seconds)
        assert event is None, f"there should be no event, but there is {event}"

    async def until(self, images: Iterable[tuple[str, str]], *, within: float = DEADLINE) -> None:
        """Wait until the pods are these, each with its image."""
        wanted = dict(images)
        try:
            await eventually(lambda: self.images == wanted, seconds=within)
        except TimeoutError:
            raise AssertionError(f"the pods should be {wanted}, but are {self.images}") from None


@asynccontextmanager
async def following(source: PodSource) -> AsyncIterator[Following]:
    """Read a source's events as they come. An error in the source, or its end, is an error of the test."""
    view = Following()

    async def follow() -> None:
        async with aclosing(source.watch()) as events:
            async for event in events:
                view.take(event)
        raise AssertionError("the stream has ended")

    task = asyncio.create_task(follow())
    try:
        yield view
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


Promise = Callable[[Dependencies], Awaitable[None]]


async def the_first_event_is_the_list_of_what_there_is(outside: Dependencies) -> None:
    await outside.put("web", "nginx:1")
    await outside.put("db", "redis:7")
    async with following(outside.source) as view:
        first = await view.next()
        assert isinstance(first, Listed)
        assert len(first.pods) == 2
        await view.until([("web", "nginx:1"), ("db", "redis:7")])


async def a_source_with_nothing_says_so(outside: Dependencies) -> None:
    async with following(outside.source) as view:
        assert await view.next() == Listed(())


async def pods_that_come_change_and_go_are_seen(outside: Dependencies) -> None:
    async with following(outside.source) as view:
        await view.next()
        await outside.put("web", "nginx:1")
        await view.until([("web", "nginx:1")])
        await outside.put("db", "redis:7")
        await view.until([("web", "nginx:1"), ("db", "redis:7")])
        await outside.put("web", "nginx:2")
        await view.until([("web", "nginx:2"), ("db", "redis:7")])
        await outside.take("db")
        await view.until([("web", "nginx:2")])


async def nothing_is_said_when_nothing_changes(outside: Dependencies) -> None:
    await outside.put("web", "nginx:1")
    async with following(outside.source) as view:
        await view.next()
        await view.silence(DEADLINE)


async def bad_input_takes_no_pod_away_and_the_stream_goes_on(outside: Dependencies) -> None:
    await outside.put("web", "nginx:1")
    async with following(outside.source) as view:
        await view.until([("web", "nginx:1")])
        await outside.spoil()
        await asyncio.sleep(DEADLINE)
        assert view.images == {"web": "nginx:1"}
        await outside.put("web", "nginx:2")
        await view.until([("web", "nginx:2")])


async def a_lost_connection_takes_no_pod_away_and_the_stream_goes_on(outside: Dependencies) -> None:
    await outside.put("web", "nginx:1")
    async with following(outside.source) as view:
        await view.until([("web", "nginx:1")])
        await outside.lose()
        await asyncio.sleep(DEADLINE)
        assert view.images == {"web": "nginx:1"}
        await outside.put("web", "nginx:2")
        await view.until([("web", "nginx:2")])


async def a_new_watch_starts_with_the_list_again(outside: Dependencies) -> None:
    await outside.put("web", "nginx:1")
    for _ in range(3):
        async with following(outside.source) as view:
            assert isinstance(await view.next(), Listed)
            await view.until([("web", "nginx:1")])


async def a_new_watch_sees_what_happened_meanwhile(outside: Dependencies) -> None:
    await outside.put("web", "nginx:1")
    async with following(outside.source) as view:
        await view.until([("web", "nginx:1")])
    await outside.put("web", "nginx:2")
    await outside.put("db", "redis:7")
    async with following(outside.source) as view:
        await view.until([("web", "nginx:2"), ("db", "redis:7")])
        await outside.take("web")
        await view.until([("db", "redis:7")])


async def bad_input_to_a_new_watch_takes_no_pod_away(outside: Dependencies) -> None:
    await outside.put("web", "nginx:1")
    async with following(outside.source) as view:
        await view.until([("web", "nginx:1")])
    await outside.spoil()
    async with following(outside.source) as view:
        await asyncio.sleep(DEADLINE)
        assert all(isinstance(event, Listed) and (event.pods or event.unread) for event in view.events)
        await outside.put("web", "nginx:2")
        await view.until([("web", "nginx:2")])


PROMISES: tuple[Promise, ...] = (
    the_first_event_is_the_list_of_what_there_is,
    a_source_with_nothing_says_so,
    pods_that_come_change_and_go_are_seen,
    nothing_is_said_when_nothing_changes,
    bad_input_takes_no_pod_away_and_the_stream_goes_on,
    a_lost_connection_takes_no_pod_away_and_the_stream_goes_on,
    a_new_watch_starts_with_the_list_again,
    a_new_watch_sees_what_happened_meanwhile,
    bad_input_to_a_new_watch_takes_no_pod_away,
)
