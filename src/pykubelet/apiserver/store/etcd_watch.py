"""Watching etcd: one stream for each watch, opened again from where it was when it breaks."""

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import Final

from pykubelet.apiserver.store._gen import etcd_pb2 as etcd
from pykubelet.apiserver.store.etcd_channel import EtcdChannel
from pykubelet.apiserver.store.port import Bookmark, Event, Expired, prefix_end
from pykubelet.base.backoff import Backoff
from pykubelet.base.errors import Invalid, Retry

log = logging.getLogger(__name__)

_METHOD: Final = "etcdserverpb.Watch/Watch"
_TO_ALL: Final = -1
"""The watch that an answer to a request for progress is about."""


class Watches:
    """All that are open."""

    def __init__(self, channel: EtcdChannel) -> None:
        self._channel = channel
        self._open: set[_Watch] = set()
        self.is_closed = False
        self.trusts_requested = False
        """Whether progress that was asked for tells the truth: members before 3.4.31 and 3.5.13 could answer before
        they had told what came earlier."""

    def request_progress(self) -> None:
        for watch in self._open:
            watch.asked.set()

    def close(self) -> None:
        self.is_closed = True

    async def watch(self, prefix: str, since: int) -> AsyncGenerator[Event | Bookmark, None]:
        watch = _Watch(prefix, since)
        backoff = Backoff(0.1, 10.0, now=asyncio.get_running_loop().time)
        self._open.add(watch)
        try:
            while True:
                try:
                    async with aclosing(self._once(watch)) as told:
                        async for each in told:
                            yield each
                except Retry as error:
                    self._check_open()
                    delay = backoff.next()
                    log.warning("watch of %s: %s; trying again in %.1f s", prefix, error, delay)
                    await asyncio.sleep(delay)
                self._check_open()
        finally:
            self._open.discard(watch)

    async def _once(self, watch: "_Watch") -> AsyncGenerator[Event | Bookmark, None]:
        pending: list[Event] = []
        async with aclosing(self._channel.stream(_METHOD, watch.requests(), etcd.WatchResponse)) as answers:
            async for answer in answers:
                _check(answer, watch.at)
                pending += map(_event, answer.events)
                if answer.fragment:
                    continue  # a revision may be in several parts, and can only be gone on from as a whole
                whole, pending = pending, []
                for event in whole:
                    yield event
                if whole:
                    watch.at = max(watch.at, whole[-1].revision)
                elif self._is_progress(answer, watch):
                    watch.at = answer.header.revision
                    yield Bookmark(watch.at)
        raise Retry("etcd has ended the watch")

    def _check_open(self) -> None:
        if self.is_closed:
            raise Retry("the store is closed")

    def _is_progress(self, answer: etcd.WatchResponse, watch: "_Watch") -> bool:
        if answer.created or answer.header.revision < watch.at:
            return False
        return answer.watch_id != _TO_ALL or self.trusts_requested


class _Watch:
    """How far one has come."""

    def __init__(self, prefix: str, at: int) -> None:
        self.prefix = prefix
        self.at = at
        self.asked = asyncio.Event()

    async def requests(self) -> AsyncIterator[etcd.WatchRequest]:
        create = etcd.WatchCreateRequest(
            key=self.prefix.encode() or b"\0",
            range_end=prefix_end(self.prefix).encode() or b"\0",
            start_revision=self.at + 1,
            progress_notify=True,
            prev_kv=True,
            fragment=True,
        )
        yield etcd.WatchRequest(create_request=create)
        while True:
            await self.asked.wait()
            self.asked.clear()
            yield etcd.WatchRequest(progress_request=etcd.WatchProgressRequest())


def _check(answer: etcd.WatchResponse, at: int) -> None:
    if answer.compact_revision:
        raise Expired(f"etcd has forgotten the changes after revision {at}: list again")
    if answer.canceled and "permission denied" in answer.cancel_reason:
        raise Invalid(f"etcd refuses the watch: {answer.cancel_reason}")
    if answer.canceled:
        raise Retry(f"etcd has ended the watch: {answer.cancel_reason or 'without a reason'}")


def _event(event: etcd.Event) -> Event:
    key, before = text(event.kv.key), event.prev_kv
    previous = before.value if event.HasField("prev_kv") else None
    if event.type == etcd.Event.DELETE:
        return Event("delete", key, b"", previous, event.kv.mod_revision, before.create_revision)
    return Event("put", key, event.kv.value, previous, event.kv.mod_revision, event.kv.create_revision)


def text(key: bytes) -> str:
    return key.decode(errors="surrogateescape")
