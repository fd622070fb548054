"""A store in etcd, v3. Keys are upstream's, so a real kube-apiserver can be pointed at the same etcd and the other way
round; values are what each of them writes."""

import asyncio
import logging
import re
from collections.abc import AsyncGenerator, Sequence
from typing import Final

from pykubelet.apiserver.store._gen import etcd_pb2 as etcd
from pykubelet.apiserver.store.etcd_channel import DEADLINE, EtcdChannel, EtcdTls
from pykubelet.apiserver.store.etcd_watch import Watches, text
from pykubelet.apiserver.store.port import (
    AlreadyExists,
    Bookmark,
    Entry,
    Event,
    Expired,
    Listing,
    Stale,
    check_key,
    prefix_end,
)
from pykubelet.base.errors import NotFound, PykubeletError
from pykubelet.base.tasks import every

log = logging.getLogger(__name__)

COMPACT_EVERY: Final = 300.0
_HEALTH: Final = "/registry/health"
_COMPACTED: Final = b"compact_rev_key"
"""Upstream's key, by which several API servers agree on who compacts."""
_PAGE: Final = 1_000
"""Entries asked for at once: the memory of one answer is bounded, whatever there is."""
_HEALTHY_WITHIN: Final = 2.0
_TRUE_PROGRESS: Final = ((3, 4, 31), (3, 5, 13))


class EtcdStore:
    """Made by `open`. Belongs to the event loop in which that was called."""

    def __init__(self, channel: EtcdChannel) -> None:
        self._channel = channel
        self._watches = Watches(channel)
        self._compacting: asyncio.Task[None] | None = None

    @classmethod
    async def open(
        cls,
        endpoints: Sequence[str],
        tls: EtcdTls | None = None,
        *,
        deadline: float = DEADLINE,
        compact_every: float = COMPACT_EVERY,
    ) -> "EtcdStore":
        """Retry when no member answers. `compact_every` 0: somebody else compacts."""
        store = cls(EtcdChannel(endpoints, tls, deadline=deadline))
        try:
            await store._meet()
        except BaseException:
            await store.close()
            raise
        if compact_every:
            store._compacting = asyncio.create_task(store._compact_regularly(compact_every), name="etcd compaction")
        return store

    @property
    def progress_on_request(self) -> bool:
        return self._watches.trusts_requested

    @property
    def newest(self) -> int | None:
        """Others may write, too."""
        return None

    async def get(self, key: str) -> Entry | None:
        answer = await self._range(etcd.RangeRequest(key=_bytes(key)))
        return _entry(answer.kvs[0]) if answer.kvs else None

    async def list(self, prefix: str, *, limit: int = 0, start_key: str = "", revision: int = 0) -> Listing:
        start, end = _bytes(max(prefix, start_key)) or b"\0", _bytes(prefix_end(prefix)) or b"\0"
        entries: list[Entry] = []
        while True:
            size = min(_PAGE, limit - len(entries)) if limit else _PAGE
            answer = await self._range(etcd.RangeRequest(key=start, range_end=end, limit=size, revision=revision))
            entries += map(_entry, answer.kvs)
            revision = revision or answer.header.revision
            if not answer.more or len(entries) == limit:
                remaining = answer.count - len(answer.kvs)
                return Listing(tuple(entries), revision, more=answer.more, remaining=remaining)
            start = answer.kvs[-1].key + b"\0"

    async def create(self, key: str, value: bytes) -> int:
        check_key(key)
        put = etcd.RequestOp(request_put=etcd.PutRequest(key=_bytes(key), value=value))
        answer = await self._if_at(key, 0, put)
        if not answer.succeeded:
            raise AlreadyExists(_entry(answer.responses[0].response_range.kvs[0]))
        return answer.header.revision

    async def update(self, key: str, value: bytes, *, revision: int) -> int:
        put = etcd.RequestOp(request_put=etcd.PutRequest(key=_bytes(key), value=value))
        answer = await self._if_there(key, revision, put)
        return answer.header.revision

    async def delete(self, key: str, *, revision: int) -> Entry:
        gone = etcd.RequestOp(request_delete_range=etcd.DeleteRangeRequest(key=_bytes(key), prev_kv=True))
        answer = await self._if_there(key, revision, gone)
        last = answer.responses[0].response_delete_range.prev_kvs[0]
        return Entry(key, last.value, answer.header.revision, last.create_revision)

    def watch(self, prefix: str, *, since: int) -> AsyncGenerator[Event | Bookmark, None]:
        return self._watches.watch(prefix, since)

    def request_progress(self) -> None:
        if self.progress_on_request:
            self._watches.request_progress()

    async def revision(self) -> int:
        answer = await self._range(etcd.RangeRequest(key=_HEALTH.encode(), count_only=True))
        return answer.header.revision

    async def compact(self, revision: int) -> None:
        try:
            request = etcd.CompactionRequest(revision=revision)
            await self._channel.ask("etcdserverpb.KV/Compact", request, etcd.CompactionResponse)
        except Expired:
            pass  # that is what was wanted

    async def healthy(self) -> bool:
        try:
            async with asyncio.timeout(_HEALTHY_WITHIN):
                await self.get(_HEALTH)
        except (PykubeletError, TimeoutError):
            return False
        return True

    async def close(self) -> None:
        self._watches.close()
        if self._compacting is not None:
            self._compacting.cancel()
            await asyncio.gather(self._compacting, return_exceptions=True)
            self._compacting = None
        await self._channel.close()

    async def _range(self, request: etcd.RangeRequest) -> etcd.RangeResponse:
        return await self._channel.ask("etcdserverpb.KV/Range", request, etcd.RangeResponse)

    async def _if_there(self, key: str, revision: int, change: etcd.RequestOp) -> etcd.TxnResponse:
        answer = await self._if_at(key, revision or -1, change)  # what is not there is at 0, but that is not meant
        if not answer.succeeded:
            found = answer.responses[0].response_range.kvs
            if not found:
                raise NotFound(f"{key} does not exist")
            raise Stale(_entry(found[0]), revision)
        return answer

    async def _if_at(self, key: str, revision: int, change: etcd.RequestOp) -> etcd.TxnResponse:
        """The change, if the key is still at that revision (0: is not there); else what it holds."""
        is_at = etcd.Compare(result=etcd.Compare.EQUAL, target=etcd.Compare.MOD, key=_bytes(key), mod_revision=revision)
        look = etcd.RequestOp(request_range=etcd.RangeRequest(key=_bytes(key)))
        request = etcd.TxnRequest(compare=[is_at], success=[change], failure=[look])
        return await self._channel.change("etcdserverpb.KV/Txn", request, etcd.TxnResponse)

    # --- housekeeping

    async def _meet(self) -> None:
        """Learn what the members can do; one that does not answer may be an old one."""
        answers = await self._channel.ask_each(
            "etcdserverpb.Maintenance/Status", etcd.StatusRequest(), etcd.StatusResponse
        )
        failures = [answer for answer in answers if isinstance(answer, PykubeletError)]
        if len(failures) == len(answers):
            raise failures[0]
        for failure in failures:
            log.warning("%s; going on without it", failure)
        self._watches.trusts_requested = not failures and all(
            tells_true_progress(answer.version) for answer in answers if isinstance(answer, etcd.StatusResponse)
        )

    async def _compact_regularly(self, seconds: float) -> None:
        """Forget what is older than one period. Of several API servers, the one that turns the counter does it."""
        turn = old = 0
        async for _ in every(seconds):
            try:
                turn, now, is_ours = await self._turn_counter(turn, old)
                if is_ours and old:
                    await self.compact(old)
                old = now
            except PykubeletError as error:
                log.warning("etcd was not compacted: %s", error)

    async def _turn_counter(self, turn: int, old: int) -> tuple[int, int, bool]:
        is_at = etcd.Compare(result=etcd.Compare.EQUAL, target=etcd.Compare.VERSION, key=_COMPACTED, version=turn)
        put = etcd.RequestOp(request_put=etcd.PutRequest(key=_COMPACTED, value=str(old).encode()))
        look = etcd.RequestOp(request_range=etcd.RangeRequest(key=_COMPACTED))
        request = etcd.TxnRequest(compare=[is_at], success=[put], failure=[look])
        answer = await self._channel.change("etcdserverpb.KV/Txn", request, etcd.TxnResponse)
        if answer.succeeded:
            return turn + 1, answer.header.revision, True
        found = answer.responses[0].response_range.kvs
        return found[0].version if found else 0, answer.header.revision, False


def tells_true_progress(version: str) -> bool:
    """Whether this version of etcd answers a request for progress only after all that came earlier."""
    numbers = tuple(map(int, re.findall(r"\d+", version)[:3]))
    for first in _TRUE_PROGRESS:
        if numbers[:2] == first[:2]:
            return numbers >= first
    return numbers >= _TRUE_PROGRESS[-1]


def _entry(pair: etcd.KeyValue) -> Entry:
    return Entry(text(pair.key), pair.value, pair.mod_revision, pair.create_revision)


def _bytes(key: str) -> bytes:
    return key.encode(errors="surrogateescape")
