import asyncio
from collections.abc import Sequence
from contextlib import aclosing

import pytest

from kit.virtual_time import virtual_time
from pykubelet.apiserver.store import followers
from pykubelet.apiserver.store.followers import Followers
from pykubelet.apiserver.store.port import Bookmark, Event
from pykubelet.base.errors import Retry


class Log:
    """A store's log, which counts how often it is read."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.reads = 0
        self.followers = Followers(1, self.older)

    async def older(self, prefix: str, after: int, up_to: int) -> tuple[Sequence[Event], int]:
        self.reads += 1
        await asyncio.sleep(1)
        found = [event for event in self.events if after < event.revision <= up_to][:10]
        return [event for event in found if event.key.startswith(prefix)], found[-1].revision

    def write(self, *keys: str) -> None:
        first = self.followers.revision + 1
        new = [Event("put", key, b"", None, first + place, first + place) for place, key in enumerate(keys)]
        self.events += new
        self.followers.publish(new)


@virtual_time
async def test_the_past_is_read_from_the_log_and_the_present_handed_on_with_nothing_lost_in_between() -> None:
    log = Log()
    log.write(*["/a"] * 25)
    async with aclosing(log.followers.follow("/a", 1)) as told:
        found = [await anext(told)]
        log.write("/a")
        while found[-1].revision < 27:
            found.append(await anext(told))
    assert [each for each in found if isinstance(each, Event)] == log.events
    assert [each.revision for each in found if isinstance(each, Bookmark)] == [11, 21, 26]
    assert log.reads == 3


@virtual_time
async def test_changes_elsewhere_are_told_as_bookmarks() -> None:
    log = Log()
    async with aclosing(log.followers.follow("/a", 1)) as told:
        asyncio.get_running_loop().call_later(1, log.write, "/a", "/b")
        asyncio.get_running_loop().call_later(2, log.write, "/b", "/a")
        asyncio.get_running_loop().call_later(3, log.write, "/b")
        assert [await anext(told) for _ in range(4)] == [log.events[0], Bookmark(3), log.events[3], Bookmark(6)]
    assert log.reads == 0


@virtual_time
async def test_who_has_more_waiting_than_it_may_goes_on_from_the_log(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(followers, "_MOST", 5)
    log = Log()
    async with aclosing(log.followers.follow("/a", 1)) as told:
        asyncio.get_running_loop().call_later(1, log.write, "/a")
        found = [await anext(told)]
        log.write(*["/a"] * 8)
        log.write("/a")
        while found[-1].revision < 11:
            found.append(await anext(told))
        assert [each for each in found if isinstance(each, Event)] == log.events
        assert log.reads == 1


@virtual_time
async def test_a_closed_store_ends_those_that_follow_and_takes_no_more() -> None:
    log = Log()
    waiting = asyncio.ensure_future(anext(log.followers.follow("/a", 1)))
    await asyncio.sleep(1)
    log.followers.close()
    for each in (waiting, anext(log.followers.follow("/a", 1))):
        with pytest.raises(Retry, match="closed"):
            await each
