"""When the runtime is looked at: seldom while it tells what happens, often while it does not."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import cast

import pytest

from kit.virtual_time import virtual_time
from pykubelet.base.errors import Retry
from pykubelet.base.tasks import supervise
from pykubelet.node.messages import Message, RuntimeChanged
from pykubelet.node.pleg import RELIST, RELIST_WITH_EVENTS, Pleg
from pykubelet.pod.moments import Journal
from pykubelet.pod.observed import ObservedPod
from pykubelet.pod.ports.runtime import Runtime, RuntimeStatus


class Line:
    """A runtime whose stream of changes the test opens and breaks."""

    def __init__(self) -> None:
        self.looks: list[float] = []
        self.seen: tuple[ObservedPod, ...] = ()
        self.failure: Exception | None = None
        self.seconds = 0.0
        """How long a look takes. It shows what there was when it began."""
        self.told: asyncio.Queue[str | Exception] = asyncio.Queue()

    async def pods(self) -> tuple[ObservedPod, ...]:
        self.looks.append(asyncio.get_running_loop().time())
        seen = self.seen
        if self.seconds:
            await asyncio.sleep(self.seconds)
        if self.failure is not None:
            raise self.failure
        return seen

    async def status(self) -> RuntimeStatus:
        return RuntimeStatus(ready=True, network_ready=True)

    async def changes(self) -> AsyncGenerator[str, None]:
        while True:
            news = await self.told.get()
            if isinstance(news, Exception):
                raise news
            yield news

    def looks_in(self, begin: float, end: float) -> int:
        return sum(begin < look <= end for look in self.looks)


@asynccontextmanager
async def followed(line: Line) -> AsyncIterator[tuple[Pleg, "asyncio.Queue[Message]"]]:
    inbox: asyncio.Queue[Message] = asyncio.Queue()
    pleg = Pleg(cast(Runtime, line), inbox, Journal())
    async with asyncio.TaskGroup() as tasks:
        running = [tasks.create_task(pleg.follow_events()), tasks.create_task(pleg.relist())]
        yield pleg, inbox
        for task in running:
            task.cancel()


@virtual_time
async def test_while_the_runtime_tells_it_is_looked_at_seldom() -> None:
    line, now = Line(), asyncio.get_running_loop().time
    async with followed(line):
        await asyncio.sleep(100)
        assert line.looks_in(now() - 60, now()) == 60 / RELIST_WITH_EVENTS


@virtual_time
async def test_what_happened_while_the_stream_was_opened_is_seen_soon() -> None:
    line = Line()
    async with followed(line) as (_, inbox):
        await asyncio.sleep(0.5)
        line.seen = (ObservedPod(uid="u"),)  # told to nobody: no one was listening yet
        await asyncio.sleep(2 * RELIST)
        assert inbox.get_nowait() == RuntimeChanged("u")


@virtual_time
async def test_when_the_stream_breaks_the_runtime_is_looked_at_at_once_and_often_until_it_is_back() -> None:
    line, now = Line(), asyncio.get_running_loop().time
    async with followed(line):
        await asyncio.sleep(RELIST_WITH_EVENTS + 5)
        line.told.put_nowait(Retry("cut"))
        broken = now()
        await asyncio.sleep(0.1)
        assert line.looks_in(broken - 0.1, now()) == 1
        await asyncio.sleep(5)  # by now there is a stream again
        assert line.looks_in(broken, now()) >= 5
        await asyncio.sleep(10)
        assert line.looks_in(now() - 8, now()) <= 1


@virtual_time
async def test_a_runtime_that_does_not_answer_is_asked_often() -> None:
    line, now = Line(), asyncio.get_running_loop().time
    async with followed(line) as (pleg, _):
        line.failure = Retry("busy")
        await asyncio.sleep(30)
        assert pleg.trouble == "busy"
        assert line.looks_in(now() - 10, now()) >= 9
        line.failure = None
        await asyncio.sleep(2)
        assert pleg.trouble == ""


@virtual_time
async def test_a_runtime_that_shows_no_pods_for_three_minutes_is_complained_of_until_it_does() -> None:
    line = Line()
    async with followed(line) as (pleg, _):
        await asyncio.sleep(60)
        line.failure = Retry("its lists are broken")
        await asyncio.sleep(170)
        assert pleg.silence() == ()
        await asyncio.sleep(30)
        assert pleg.silence() == ("PLEG is not healthy: the runtime does not show its pods",)
        line.failure = None
        await asyncio.sleep(2 * RELIST)
        assert pleg.silence() == ()


@virtual_time
async def test_events_that_stay_lost_for_one_reason_are_told_of_once(caplog: pytest.LogCaptureFixture) -> None:
    line = Line()
    async with followed(line):
        for reason in ("cut", "refused", "refused", "refused"):
            line.told.put_nowait(Retry(reason))
            await asyncio.sleep(10)
    told = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert [text.rpartition(": ")[2] for text in told] == ["cut", "refused"]


@virtual_time
async def test_who_wants_to_know_what_is_there_now_gets_a_look_that_begins_now() -> None:
    line, now = Line(), asyncio.get_running_loop().time
    async with followed(line) as (pleg, _):
        await asyncio.sleep(RELIST_WITH_EVENTS + 5)
        line.seen = (ObservedPod(uid="u"),)
        assert await pleg.look() == line.seen
        assert line.looks[-1] == now()
        assert set(pleg.seen) == {"u"}


@virtual_time
async def test_a_look_that_was_under_way_is_not_enough_and_one_new_look_serves_all_who_wait() -> None:
    line = Line()
    async with followed(line) as (pleg, _):
        await asyncio.sleep(RELIST_WITH_EVENTS + 5)
        line.seconds = 3.0
        first = asyncio.create_task(pleg.look())
        await asyncio.sleep(1)
        line.seen = (ObservedPod(uid="u"),)
        others = [asyncio.create_task(pleg.look()) for _ in range(3)]
        so_far = len(line.looks)
        assert await first == ()
        assert [await each for each in others] == [line.seen] * 3
        assert len(line.looks) == so_far + 1


@virtual_time
async def test_who_wants_to_know_is_told_when_nothing_can_be_seen() -> None:
    line = Line()
    async with followed(line) as (pleg, _):
        blind = [pleg.is_blind]  # nobody has looked yet
        await asyncio.sleep(1)
        blind.append(pleg.is_blind)
        line.failure = Retry("busy")
        with pytest.raises(Retry, match="busy"):
            await pleg.look()
        blind.append(pleg.is_blind)
        line.failure = None
        await asyncio.sleep(2 * RELIST)
        blind.append(pleg.is_blind)
        assert blind == [True, False, True, False]


@virtual_time
async def test_a_pod_that_is_gone_is_not_seen_again_by_a_look_that_began_before() -> None:
    line = Line()
    line.seen = (ObservedPod(uid="gone"), ObservedPod(uid="there"))
    async with followed(line) as (pleg, inbox):
        await asyncio.sleep(RELIST_WITH_EVENTS + 5)
        pleg.forget("gone")
        assert set(pleg.seen) == {"there"}
        line.seconds = 3.0
        look = asyncio.create_task(pleg.look())
        await asyncio.sleep(1)
        pleg.forget("gone")
        while not inbox.empty():
            inbox.get_nowait()
        await look
        assert set(pleg.seen) == {"there"}
        assert inbox.empty()
        await pleg.look()  # what is there all the same, such as a sandbox that came late, the next one shows
        assert set(pleg.seen) == {"gone", "there"}


@virtual_time
async def test_a_look_that_breaks_in_a_way_that_nobody_foresaw_is_not_taken_for_one() -> None:
    line = Line()
    pleg = Pleg(cast(Runtime, line), asyncio.Queue(), Journal())
    relisting = asyncio.create_task(supervise("relist", pleg.relist))
    await asyncio.sleep(0.5)
    line.failure = KeyError("a bug")
    with pytest.raises(Retry, match="cut short"):
        await pleg.look()
    line.failure = None
    await asyncio.sleep(5)
    blind = pleg.is_blind
    relisting.cancel()
    assert not blind
