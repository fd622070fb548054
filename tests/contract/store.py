"""What every store promises, whatever it keeps its entries in.

A store under test may hold entries of earlier promises (one etcd serves them all): each promise works below a prefix of
its own. `PROMISES` are run on each implementation.
"""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from itertools import count
from typing import Final

import pytest

from pykubelet.apiserver.store.port import (
    AlreadyExists,
    Bookmark,
    Entry,
    Event,
    Expired,
    Future,
    Stale,
    Store,
)
from pykubelet.base.errors import Conflict, Invalid, NotFound

DEADLINE: Final = 45.0
_numbers = count()

Promise = Callable[[Store], Awaitable[None]]


def fresh_prefix() -> str:
    return f"/registry/{random.randrange(16**8):08x}-{next(_numbers)}/"


class Watching:
    """The events of one watch, as they came."""

    def __init__(self, store: Store, prefix: str, since: int) -> None:
        self._told = store.watch(prefix, since=since)
        self.events: list[Event] = []

    async def next(self) -> Event:
        async with asyncio.timeout(DEADLINE):
            async for told in self._told:
                if isinstance(told, Event):
                    self.events.append(told)
                    return told
        raise AssertionError("the watch has ended")

    async def take(self, number: int) -> list[Event]:
        return [await self.next() for _ in range(number)]

    async def close(self) -> None:
        await self._told.aclose()


@asynccontextmanager
async def watching(store: Store, prefix: str, since: int) -> AsyncIterator[Watching]:
    view = Watching(store, prefix, since)
    try:
        yield view
    finally:
        await view.close()


# --- single entries


async def what_was_created_can_be_read(store: Store) -> None:
    key = f"{fresh_prefix()}a"
    assert await store.get(key) is None
    revision = await store.create(key, b'{"a": 1}')
    assert await store.get(key) == Entry(key, b'{"a": 1}', revision, revision)
    assert await store.revision() >= revision > 1
    assert store.newest is None or store.newest >= revision
    assert await store.healthy()


async def values_are_kept_byte_for_byte(store: Store) -> None:
    prefix = fresh_prefix()
    values = [b"", b"\0", bytes(range(256)), b"x" * 300_000, "für dich".encode()]
    for number, value in enumerate(values):
        await store.create(f"{prefix}{number}", value)
    assert [entry.value for entry in (await store.list(prefix)).entries] == values


async def a_key_is_created_only_once(store: Store) -> None:
    key = f"{fresh_prefix()}a"
    revision = await store.create(key, b"1")
    with pytest.raises(AlreadyExists, match="already exists") as caught:
        await store.create(key, b"2")
    assert caught.value.entry == Entry(key, b"1", revision, revision)
    assert isinstance(caught.value, Conflict)


async def an_update_needs_the_last_revision(store: Store) -> None:
    key = f"{fresh_prefix()}a"
    first = await store.create(key, b"1")
    second = await store.update(key, b"2", revision=first)
    assert second > first
    for stale in (first, second + 1000, 0):
        with pytest.raises(Stale) as caught:
            await store.update(key, b"3", revision=stale)
        assert caught.value.entry == Entry(key, b"2", second, first)
    assert await store.get(key) == Entry(key, b"2", second, first)


async def a_delete_needs_the_last_revision_and_tells_its_own(store: Store) -> None:
    key = f"{fresh_prefix()}a"
    first = await store.create(key, b"1")
    second = await store.update(key, b"2", revision=first)
    with pytest.raises(Stale):
        await store.delete(key, revision=first)
    gone = await store.delete(key, revision=second)
    assert gone == Entry(key, b"2", gone.revision, first)
    assert gone.revision > second
    assert await store.get(key) is None


async def what_is_not_there_can_be_neither_updated_nor_deleted(store: Store) -> None:
    key = f"{fresh_prefix()}a"
    for revision in (0, 1, 5):
        with pytest.raises(NotFound):
            await store.update(key, b"1", revision=revision)
        with pytest.raises(NotFound):
            await store.delete(key, revision=revision)
    first = await store.create(key, b"1")
    await store.delete(key, revision=first)
    with pytest.raises(NotFound):
        await store.update(key, b"2", revision=first)


async def a_deleted_key_begins_anew(store: Store) -> None:
    key = f"{fresh_prefix()}a"
    first = await store.create(key, b"1")
    gone = await store.delete(key, revision=first)
    again = await store.create(key, b"2")
    assert again > gone.revision > first
    assert await store.get(key) == Entry(key, b"2", again, again)


async def a_key_has_to_be_one(store: Store) -> None:
    for key in ("", "a\0b"):
        with pytest.raises(Invalid):
            await store.create(key, b"1")


# --- lists


async def a_list_has_what_is_below_its_prefix_in_order(store: Store) -> None:
    prefix = fresh_prefix()
    names = ["b", "a/b", "a", "aa", "ä", "a-b", "\U0001f600", "Z"]
    for name in names:
        await store.create(prefix + name, name.encode())
    await store.create(prefix[:-1] + "0", b"the neighbour")
    listing = await store.list(prefix)
    assert [entry.key.removeprefix(prefix) for entry in listing.entries] == sorted(names, key=str.encode)
    assert (listing.more, listing.remaining) == (False, 0)
    assert listing.revision >= max(entry.revision for entry in listing.entries)
    below = await store.list(f"{prefix}a/")
    assert [entry.value for entry in below.entries] == [b"a/b"]


async def an_empty_list_has_a_revision(store: Store) -> None:
    listing = await store.list(fresh_prefix())
    assert listing.entries == ()
    assert listing.revision == await store.revision() >= 1


async def pages_are_of_one_moment_whatever_happens_in_between(store: Store) -> None:
    prefix = fresh_prefix()
    revisions = {f"{prefix}{number:02}": await store.create(f"{prefix}{number:02}", b"1") for number in range(10)}
    page = await store.list(prefix, limit=4)
    assert (len(page.entries), page.more, page.remaining) == (4, True, 6)
    await store.create(f"{prefix}05b", b"new")
    await store.update(f"{prefix}06", b"2", revision=revisions[f"{prefix}06"])
    await store.delete(f"{prefix}07", revision=revisions[f"{prefix}07"])
    entries, moment = list(page.entries), page.revision
    while page.more:
        page = await store.list(prefix, limit=4, start_key=page.next_key, revision=moment)
        assert page.revision == moment
        entries += page.entries
    assert {entry.key: entry.revision for entry in entries} == revisions
    assert {entry.value for entry in entries} == {b"1"}
    assert page.next_key == ""


async def a_page_that_is_just_full_is_the_last(store: Store) -> None:
    prefix = fresh_prefix()
    for name in "abc":
        await store.create(prefix + name, b"1")
    gone = await store.create(f"{prefix}d", b"1")
    await store.delete(f"{prefix}d", revision=gone)
    page = await store.list(prefix, limit=3)
    assert (len(page.entries), page.more, page.remaining) == (3, False, 0)


async def the_past_can_be_listed_exactly(store: Store) -> None:
    prefix = fresh_prefix()
    first = await store.create(f"{prefix}a", b"1")
    second = await store.update(f"{prefix}a", b"2", revision=first)
    other = await store.create(f"{prefix}b", b"1")
    gone = await store.delete(f"{prefix}a", revision=second)

    async def at(revision: int) -> dict[str, bytes]:
        listing = await store.list(prefix, revision=revision)
        assert listing.revision == revision
        return {entry.key[-1]: entry.value for entry in listing.entries}

    assert await at(first) == {"a": b"1"}
    assert await at(second) == {"a": b"2"}
    assert await at(other) == {"a": b"2", "b": b"1"}
    assert await at(gone.revision) == {"b": b"1"}


async def the_future_cannot_be_listed(store: Store) -> None:
    with pytest.raises(Future):
        await store.list(fresh_prefix(), revision=await store.revision() + 1000)


# --- watches


async def a_watch_tells_every_change_once_and_in_order(store: Store) -> None:
    prefix = fresh_prefix()
    since = await store.revision()
    async with watching(store, prefix, since) as view:
        first = await store.create(f"{prefix}a", b"1")
        await store.create(f"{fresh_prefix()}elsewhere", b"1")
        assert await view.next() == Event("put", f"{prefix}a", b"1", None, first, first)
        second = await store.update(f"{prefix}a", b"2", revision=first)
        other = await store.create(f"{prefix}b", b"3")
        gone = await store.delete(f"{prefix}a", revision=second)
        again = await store.create(f"{prefix}a", b"4")
        assert await view.take(4) == [
            Event("put", f"{prefix}a", b"2", b"1", second, first),
            Event("put", f"{prefix}b", b"3", None, other, other),
            Event("delete", f"{prefix}a", b"", b"2", gone.revision, first),
            Event("put", f"{prefix}a", b"4", None, again, again),
        ]
    assert [event.is_new for event in view.events] == [True, False, True, False, True]


async def a_watch_goes_on_from_any_revision(store: Store) -> None:
    prefix = fresh_prefix()
    since = await store.revision()
    revision = await store.create(f"{prefix}a", b"0")
    for number in range(1, 12):
        await store.create(f"{fresh_prefix()}between", b"1")
        revision = await store.update(f"{prefix}a", str(number).encode(), revision=revision)
    async with watching(store, prefix, since) as view:
        whole = await view.take(12)
    assert [event.value for event in whole] == [str(number).encode() for number in range(12)]
    for place in range(since, revision):
        rest = [event for event in whole if event.revision > place]
        async with watching(store, prefix, place) as view:
            assert await view.take(len(rest)) == rest


async def a_list_and_a_watch_from_its_revision_add_up(store: Store) -> None:
    prefix = fresh_prefix()
    stop = asyncio.Event()

    async def write() -> None:
        draw = random.Random(7)
        known: dict[str, int] = {}
        for _ in range(150):
            key = f"{prefix}{draw.randrange(8)}"
            if key not in known:
                known[key] = await store.create(key, b"new")
            elif draw.random() < 0.3:
                await store.delete(key, revision=known.pop(key))
            else:
                known[key] = await store.update(key, draw.randbytes(8), revision=known[key])
        await store.create(f"{prefix}end", b"")
        stop.set()

    async def follow() -> None:
        listing = await store.list(prefix)
        held = {entry.key: entry for entry in listing.entries}
        last = listing.revision
        async with watching(store, prefix, last) as view:
            while f"{prefix}end" not in held:
                event = await view.next()
                assert event.revision > last
                last = event.revision
                before = held.pop(event.key, None)
                assert event.previous == (before.value if before else None)
                if event.kind == "put":
                    held[event.key] = Entry(event.key, event.value, event.revision, event.created)
        assert sorted(held) == [entry.key for entry in (await store.list(prefix)).entries]
        assert tuple(held[key] for key in sorted(held)) == (await store.list(prefix)).entries

    async with asyncio.TaskGroup() as group:
        group.create_task(write())
        for _ in range(4):
            group.create_task(follow())
            await asyncio.sleep(0)
    assert stop.is_set()


async def a_watch_of_the_future_tells_only_that(store: Store) -> None:
    prefix = fresh_prefix()
    first = await store.create(f"{prefix}a", b"1")
    async with watching(store, prefix, first + 1) as view:
        second = await store.update(f"{prefix}a", b"2", revision=first)
        third = await store.update(f"{prefix}a", b"3", revision=second)
        fourth = await store.update(f"{prefix}a", b"4", revision=third)
        assert (await view.next()).revision == (third if second == first + 1 else second)
    assert fourth > third


async def a_watch_tells_its_progress(store: Store) -> None:
    """Soon when it is asked, where the store can do that; else by itself, after some time."""
    prefix = fresh_prefix()
    since = await store.revision()
    async with aclosing(store.watch(prefix, since=since)) as told:
        first = await store.create(f"{prefix}a", b"1")
        event = await anext(told)
        while isinstance(event, Bookmark):
            assert event.revision < first
            event = await anext(told)
        assert event.revision == first
        elsewhere = await store.create(f"{fresh_prefix()}b", b"1")

        async def come_to(revision: int) -> None:
            async for each in told:
                assert isinstance(each, Bookmark)
                if each.revision >= revision:
                    return

        async with asyncio.timeout(DEADLINE), asyncio.TaskGroup() as group:
            reading = group.create_task(come_to(elsewhere))
            while not reading.done():
                store.request_progress()
                await asyncio.sleep(0.05)
        assert await store.get(f"{prefix}a") is not None


# --- many at once


async def of_many_updates_from_one_revision_exactly_one_wins(store: Store) -> None:
    key = f"{fresh_prefix()}a"
    revision = await store.create(key, b"0")
    for _ in range(3):
        tries = (store.update(key, str(number).encode(), revision=revision) for number in range(100))
        outcomes = await asyncio.gather(*tries, return_exceptions=True)
        won = [(number, each) for number, each in enumerate(outcomes) if isinstance(each, int)]
        assert len(won) == 1
        assert all(isinstance(each, Stale) for each in outcomes if not isinstance(each, int))
        entry = await store.get(key)
        assert entry is not None
        assert (entry.revision, entry.value) == (won[0][1], str(won[0][0]).encode())
        revision = entry.revision


async def of_many_creators_exactly_one_wins(store: Store) -> None:
    key = f"{fresh_prefix()}a"
    outcomes = await asyncio.gather(*(store.create(key, b"1") for _ in range(50)), return_exceptions=True)
    assert sum(isinstance(each, int) for each in outcomes) == 1
    assert sum(isinstance(each, AlreadyExists) for each in outcomes) == 49


async def counting_together_loses_nothing(store: Store) -> None:
    key = f"{fresh_prefix()}a"
    await store.create(key, b"0")

    async def add() -> None:
        for _ in range(5):
            while True:
                entry = await store.get(key)
                assert entry is not None
                try:
                    await store.update(key, str(int(entry.value) + 1).encode(), revision=entry.revision)
                    break
                except Stale:
                    continue

    await asyncio.gather(*(add() for _ in range(8)))
    entry = await store.get(key)
    assert entry is not None
    assert entry.value == b"40"


async def revisions_are_one_sequence(store: Store) -> None:
    prefix = fresh_prefix()
    since = await store.revision()
    revisions = await asyncio.gather(*(store.create(f"{prefix}{number}", b"1") for number in range(60)))
    assert len(set(revisions)) == 60
    assert min(revisions) > since
    async with watching(store, prefix, since) as view:
        assert [event.revision for event in await view.take(60)] == sorted(revisions)


# --- forgetting


async def what_was_compacted_is_expired_and_the_present_stays(store: Store) -> None:
    prefix = fresh_prefix()
    first = await store.create(f"{prefix}a", b"1")
    second = await store.update(f"{prefix}a", b"2", revision=first)
    other = await store.create(f"{prefix}b", b"1")
    gone = await store.delete(f"{prefix}b", revision=other)
    last = await store.create(f"{prefix}c", b"1")
    await store.compact(last)
    await store.compact(first)  # that was done before: nothing happens
    for past in (first, other):
        with pytest.raises(Expired):
            await store.list(prefix, revision=past)
        with pytest.raises(Expired):
            async with watching(store, prefix, past) as view:
                await view.next()
    now = await store.list(prefix, revision=last)
    assert now.entries == (
        Entry(f"{prefix}a", b"2", second, first),
        Entry(f"{prefix}c", b"1", last, last),
    )
    async with watching(store, prefix, last) as view:
        again = await store.create(f"{prefix}b", b"2")
        assert await view.next() == Event("put", f"{prefix}b", b"2", None, again, again)
    assert again > gone.revision


async def the_past_after_the_compaction_can_still_be_read(store: Store) -> None:
    prefix = fresh_prefix()
    first = await store.create(f"{prefix}a", b"1")
    second = await store.update(f"{prefix}a", b"2", revision=first)
    third = await store.update(f"{prefix}a", b"3", revision=second)
    await store.compact(second)
    assert [entry.value for entry in (await store.list(prefix, revision=second)).entries] == [b"2"]
    async with watching(store, prefix, second) as view:
        assert await view.next() == Event("put", f"{prefix}a", b"3", b"2", third, first)


async def the_future_cannot_be_compacted(store: Store) -> None:
    with pytest.raises(Future):
        await store.compact(await store.revision() + 1000)


PROMISES: Final[tuple[Promise, ...]] = (
    what_was_created_can_be_read,
    values_are_kept_byte_for_byte,
    a_key_is_created_only_once,
    an_update_needs_the_last_revision,
    a_delete_needs_the_last_revision_and_tells_its_own,
    what_is_not_there_can_be_neither_updated_nor_deleted,
    a_deleted_key_begins_anew,
    a_key_has_to_be_one,
    a_list_has_what_is_below_its_prefix_in_order,
    an_empty_list_has_a_revision,
    pages_are_of_one_moment_whatever_happens_in_between,
    a_page_that_is_just_full_is_the_last,
    the_past_can_be_listed_exactly,
    the_future_cannot_be_listed,
    a_watch_tells_every_change_once_and_in_order,
    a_watch_goes_on_from_any_revision,
    a_list_and_a_watch_from_its_revision_add_up,
    a_watch_of_the_future_tells_only_that,
    a_watch_tells_its_progress,
    of_many_updates_from_one_revision_exactly_one_wins,
    of_many_creators_exactly_one_wins,
    counting_together_loses_nothing,
    revisions_are_one_sequence,
    what_was_compacted_is_expired_and_the_present_stays,
    the_past_after_the_compaction_can_still_be_read,
    the_future_cannot_be_compacted,
)
