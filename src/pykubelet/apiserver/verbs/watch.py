"""Watch: every change to what was selected, from a given moment on. What one change looks like is made once for all.

What is there at the beginning is told piece by piece, each made when the client has taken the one before: a watcher
keeps nothing of its own but its place in a list that all of that moment share.
"""

import asyncio
import random
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import aclosing
from typing import Any, Final

import msgspec

from pykubelet.apiserver import status
from pykubelet.apiserver.backend import Backend
from pykubelet.apiserver.objects import encode
from pykubelet.apiserver.requests.calls import Answer, Call
from pykubelet.apiserver.requests.media_types import PROTOBUF
from pykubelet.apiserver.requests.options import ListOptions, list_options, revision
from pykubelet.apiserver.schema.protobuf_writing import to_protobuf, watch_frame
from pykubelet.apiserver.status import ApiError
from pykubelet.apiserver.store.port import Bookmark, Entry, Event, Expired
from pykubelet.apiserver.tables.tables import partial_metadata, table, wanted_objects
from pykubelet.apiserver.verbs.selection import Selection, selection
from pykubelet.base.errors import PykubeletError, Retry

_LAST_BOOKMARK = 2.0
"""Seconds before a watch ends in which it tells how far it has come, so that the next one starts from there."""
_MARK = "k8s.io/initial-events-end"
_PIECE: Final = 32 << 10
"""Bytes that are looked at before others have their turn."""


async def watch(backend: Backend, call: Call) -> Answer:
    options = list_options(call.query, call.info.verb)
    if call.info.name:
        fields = ",".join(filter(None, (f"metadata.name={call.info.name}", options.fields)))
        options = ListOptions(
            fields=fields,
            **{name: getattr(options, name) for name in options.__struct_fields__ if name != "fields"},
        )
    chosen = selection(backend.strategy(call.resource), options)
    watcher = _Watcher(backend, call, options, chosen)
    seconds = options.timeout or backend.settings.watch_seconds * random.uniform(1.0, 2.0)
    return Answer(200, stream=watcher.lines(await watcher.begin(), seconds))


class _Watcher:
    def __init__(self, backend: Backend, call: Call, options: ListOptions, chosen: Selection) -> None:
        self._backend = backend
        self._call = call
        self._options = options
        self._chosen = chosen
        self._folder = call.resource.folder(call.info.namespace)
        self._form = _Form(backend, call)
        self._since = 0

    async def begin(self) -> Sequence[Entry] | None:
        """Where the watch starts; what is there, if that is to be told. Raises ApiError while the answer can be one."""
        options, cache = self._options, self._backend.cache
        wanted = revision(options.version)
        if wanted and not options.initial_events:
            self._since = wanted
            return None
        try:
            if options.version == "0" or wanted:
                listing = await cache.list(self._folder, at_least=wanted)
            else:
                listing = await cache.list_newest(self._folder)
        except Retry:
            raise status.too_large_version(wanted, cache.revision) from None
        self._since = listing.revision
        if options.initial_events is False:
            return None
        await self._backend.ready(self._call.resource, listing.entries)
        return listing.entries

    async def lines(self, first: Sequence[Entry] | None, seconds: float) -> AsyncIterator[bytes]:
        if first is not None:
            for piece in self._pieces(first):
                if piece:
                    yield piece
                await asyncio.sleep(0)
            if self._options.initial_events and self._options.bookmarks:
                yield self._form.bookmark(self._since, {_MARK: "true"})
            first = None  # a watch is long, and what was there is soon not there any more
        deadline = asyncio.get_running_loop().time() + seconds
        try:
            if self._options.bookmarks and seconds > _LAST_BOOKMARK:
                async for line in self._until(deadline - _LAST_BOOKMARK):
                    yield line
                # Nothing waits to be told, or it would not have come to this.
                self._since = max(self._since, self._backend.cache.revision)
                yield self._form.bookmark(self._since, None)
            async for line in self._until(deadline):
                yield line
        except Expired:
            yield self._form.error(status.gone_410(f"too old resource version: {self._since}"))
        except ApiError as error:
            yield self._form.error(error)
        except PykubeletError:
            return  # the client watches again from where it was

    def _pieces(self, entries: Sequence[Entry]) -> Iterator[bytes]:
        """What is there, a piece at a time; an empty one where many were looked at in vain."""
        lines, looked_at = list[bytes](), 0
        for entry in entries:
            looked_at += len(entry.value)
            if self._chosen.holds(entry):
                lines.append(self._form.entry(entry))
            if looked_at >= _PIECE:
                yield b"".join(lines)
                lines, looked_at = [], 0
        yield b"".join(lines)

    async def _until(self, deadline: float) -> AsyncIterator[bytes]:
        """What changes before the deadline."""
        wanted = None if self._chosen.is_everything else self._wanted
        waits = self._backend.strategy(self._call.resource).waits
        batches = self._backend.cache.batches(self._folder, since=self._since, wanted=wanted, until=deadline)
        async with aclosing(batches):
            async for batch in batches:
                if waits:
                    await self._backend.strategy(self._call.resource).ready(_stored(batch))
                lines = [self._line(change) for change in batch]
                self._since = max(self._since, batch[-1].revision)
                if told := lines[0] if len(lines) == 1 else b"".join(lines):
                    yield told

    def _line(self, change: Event | Bookmark) -> bytes:
        if isinstance(change, Bookmark):
            return self._form.bookmark(change.revision, None) if self._options.bookmarks else b""
        kind = self._chosen.told(change)
        return self._form.event(change, kind) if kind else b""

    def _wanted(self, event: Event) -> bool:
        return bool(self._chosen.told(event))


def _stored(changes: Sequence[Event | Bookmark]) -> list[tuple[bytes, int]]:
    """What the changes will be shown as: what goes, as it was."""
    events = [each for each in changes if isinstance(each, Event)]
    return [((each.previous or b"{}") if each.kind == "delete" else each.value, each.revision) for each in events]


class _Form:
    """One line for each change, in the form that the client asked for."""

    def __init__(self, backend: Backend, call: Call) -> None:
        self._backend = backend
        self._resource = call.resource
        self._transform = call.accept.transform
        self._version = call.accept.version
        self._include = wanted_objects(call.query)
        self._is_first = True
        self._is_protobuf = call.accept.media == PROTOBUF
        self._key = f"{call.resource.group}/{call.resource.version} {call.accept.media}"

    def entry(self, entry: Entry) -> bytes:
        if self._transform:
            return self._transformed("ADDED", entry.value, entry.revision)
        return self._line("ADDED", self._backend.wire(self._resource, entry.value, entry.revision))

    def event(self, event: Event, kind: str) -> bytes:
        value = event.value
        if kind == "DELETED":
            value = event.previous if event.previous is not None else b"{}"
        if self._transform:
            return self._transformed(kind, value, event.revision)
        name = f"{self._key} {kind}"
        line: bytes | None = event.cache.get(name)
        if line is None:
            line = event.cache[name] = self._line(kind, self._backend.wire(self._resource, value, event.revision))
        return line

    def _transformed(self, kind: str, value: bytes, at: int) -> bytes:
        obj = self._backend.object_of(self._resource, value, at)
        if self._transform == "Table":
            metadata = {"resourceVersion": str(at)}
            shown = table(self._resource, [obj], metadata, self._version, self._include, self._backend.now())
            if not self._is_first:
                shown["columnDefinitions"] = None
            self._is_first = False
            return self._line(kind, encode(shown))
        return self._line(kind, encode(partial_metadata(obj, self._version)))

    def bookmark(self, at: int, annotations: dict[str, str] | None) -> bytes:
        metadata: dict[str, Any] = {"resourceVersion": str(at), "creationTimestamp": None}
        if annotations:
            metadata["annotations"] = annotations
        shown: dict[str, Any] = {
            "kind": self._resource.kind,
            "apiVersion": self._resource.api_version,
            "metadata": metadata,
        }
        if self._transform:
            shown = partial_metadata(shown, self._version)
        if self._transform == "Table":
            rows = [{"cells": [], "object": shown}]
            head = {"kind": "Table", "apiVersion": shown["apiVersion"]}
            shown = {**head, "metadata": {"resourceVersion": str(at)}, "columnDefinitions": None, "rows": rows}
        return self._line("BOOKMARK", encode(shown))

    def error(self, error: ApiError) -> bytes:
        return self._line("ERROR", encode(error.status()))

    def _line(self, kind: str, obj: bytes) -> bytes:
        if self._is_protobuf:
            return watch_frame(kind, to_protobuf(msgspec.json.decode(obj)))
        return b'{"type":"%s","object":%s}\n' % (kind.encode(), obj)
