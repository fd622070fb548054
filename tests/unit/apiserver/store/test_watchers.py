import asyncio

import pytest

from kit.virtual_time import virtual_time
from pykubelet.apiserver.store.port import Bookmark, Event, Expired, TooSlow
from pykubelet.apiserver.store.watchers import Audience, Watcher
from pykubelet.base.errors import Conflict, PykubeletError, Retry


def event(key: str, revision: int = 5) -> Event:
    return Event("put", key, b"", None, revision, revision)


def audience(*watchers: Watcher) -> Audience:
    made = Audience()
    for watcher in watchers:
        made.add(watcher)
    return made


@virtual_time
async def test_all_that_waits_is_taken_at_once_and_who_has_nothing_waits() -> None:
    watcher = Watcher("/a", 1)
    taking = asyncio.ensure_future(watcher.next())
    await asyncio.sleep(1)
    assert not taking.done()
    first, second = event("/a/1"), event("/a/2", 6)
    watcher.put(first, 10)
    watcher.put(second, 10)
    assert await taking == [first, second]


@virtual_time
async def test_one_event_too_many_lets_the_watcher_go_with_all_that_waited() -> None:
    watcher = Watcher("/a", 1)
    for number in range(4):
        watcher.put(event("/a", number), 3)
    with pytest.raises(TooSlow, match="watch again from the last one"):
        await watcher.next()


@virtual_time
async def test_what_was_put_before_the_end_is_still_told() -> None:
    watcher, idle = Watcher("/a", 1), Watcher("/a", 1)
    watcher.put(event("/a"), 10)
    for each in (watcher, idle):
        each.end()
    assert await watcher.next() == [event("/a")]
    assert await watcher.next() == []
    assert await idle.next() == []


@virtual_time
async def test_an_event_reaches_those_whose_prefix_and_wish_it_fits_and_who_do_not_know_it_yet() -> None:
    space, single, all_, later = (Watcher(prefix, 4) for prefix in ("/a/", "/a/1", "/", "/b"))
    known, unwanted = Watcher("/a/", 5), Watcher("/a/", 4, lambda _: False)
    told = audience(space, single, all_, later, known, unwanted)
    told.tell(event("/a/1"), 10)
    assert [each.is_idle for each in (space, single, all_)] == [False] * 3
    assert [each.is_idle for each in (later, known, unwanted)] == [True] * 3
    gone = Watcher("/a/1", 4)
    told.add(gone)
    told.remove(gone)
    told.tell(event("/a/1", 6), 10)
    assert gone.is_idle
    assert len(await single.next()) == 2


@virtual_time
async def test_who_watches_one_of_a_folder_is_told_of_that_one_alone_whoever_was_told_before() -> None:
    space, single = Watcher("/a/", 4), Watcher("/a/1", 4)
    told = audience(space)
    told.tell(event("/a/1", 5), 10)
    told.add(single)
    for revision, key in enumerate(("/a/2", "/a/1", "/a/3", "/a/11"), start=6):
        told.tell(event(key, revision), 10)
    assert [each.revision for each in await space.next()] == [5, 6, 7, 8, 9]
    assert [each.revision for each in await single.next()] == [7, 9]
    told.remove(single)
    told.tell(event("/a/1", 10), 10)
    assert single.is_idle
    assert not space.is_idle


@virtual_time
async def test_who_follows_several_prefixes_is_told_of_each_and_of_nothing_else() -> None:
    several = Watcher(("/a/", "/b/"), 4)
    told = audience(several)
    for number, key in enumerate(("/a/1", "/c/1", "/b/1"), start=5):
        told.tell(event(key, number), 10)
    told.tell_idle(Bookmark(9))
    assert await several.next() == [event("/a/1", 5), event("/b/1", 7)]
    told.tell_idle(Bookmark(9))
    assert await several.next() == [Bookmark(9)]
    told.remove(several)
    told.tell(event("/b/1", 10), 10)
    assert several.is_idle


@virtual_time
async def test_a_bookmark_is_for_the_idle_and_never_goes_back() -> None:
    idle, busy, ahead = Watcher("/a", 4), Watcher("/a", 4), Watcher("/a", 9)
    busy.put(event("/a"), 10)
    audience(idle, busy, ahead).tell_idle(Bookmark(7))
    assert await idle.next() == [Bookmark(7)]
    assert await busy.next() == [event("/a")]
    assert ahead.is_idle


@pytest.mark.parametrize(("error", "kind"), [(Expired("x"), Expired), (Retry("x"), Retry), (Conflict("x"), Retry)])
@virtual_time
async def test_all_are_let_go_together_with_the_reason(error: PykubeletError, kind: type[PykubeletError]) -> None:
    watchers = [Watcher("/a", 1), Watcher("/b", 1)]
    audience(*watchers).end(error)
    for watcher in watchers:
        with pytest.raises(kind, match="x"):
            await watcher.next()
