"""The reflector: an endless, self-healing view of a collection of an API server.

List once, then follow the changes; after a dropped connection go on from the last version seen; when the server has
forgotten that version, list again. A view ends only when its reader stops reading.
"""

import asyncio
import logging
import random
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Final, Generic, Protocol, TypeVar

import msgspec

from pykubelet.api import codec
from pykubelet.api.codec import DecodeError
from pykubelet.api.meta import ListMeta, ObjectMeta, Status
from pykubelet.api.struct import Struct, written
from pykubelet.base.backoff import Backoff
from pykubelet.base.errors import PykubeletError, Retry
from pykubelet.kube.client import PAGE, ApiClient, Params
from pykubelet.kube.errors import Expired, api_error

log = logging.getLogger(__name__)

_SHORTEST_WATCH: Final = 1.0
_WATCH_SECONDS: Final = (300, 600)
_OVERTIME: Final = 30.0


class KubeObject(Protocol):
    @property
    def metadata(self) -> ObjectMeta: ...


K = TypeVar("K", bound=KubeObject)


class Relisted(msgspec.Struct, Generic[K], frozen=True):
    """Everything there is. `unread` are the uids of objects that exist but could not be understood this time."""

    items: tuple[K, ...]
    unread: frozenset[str] = frozenset()


class Changed(msgspec.Struct, Generic[K], frozen=True):
    """One object is new or different."""

    item: K


class Deleted(msgspec.Struct, frozen=True):
    """One object is gone."""

    metadata: ObjectMeta


class Lost(msgspec.Struct, frozen=True):
    """The server cannot be followed for now. What was told before may grow old until Resumed or Relisted."""

    error: PykubeletError


class Resumed(msgspec.Struct, frozen=True):
    """The server is followed again, from where it was lost."""


class _RawList(Struct, frozen=True):
    metadata: ListMeta = written(ListMeta)
    items: tuple[msgspec.Raw, ...] = ()


class WatchLine(Struct, frozen=True):
    """One line of a watch, its object not yet looked at."""

    type: str = ""
    object: msgspec.Raw = msgspec.Raw(b"{}")


class _OnlyMeta(Struct, frozen=True):
    metadata: ObjectMeta = written(ObjectMeta)


class _View:
    """How far one reader has come."""

    def __init__(self, list_from: str) -> None:
        self.version = ""
        """The last resource version seen."""
        self.listed = False
        """Whether what was seen is still a base to go on from."""
        self.is_lost = False
        self.list_from = list_from
        """At first 0 if any state will do, so that a server may answer from memory; later, none older than the last."""
        self.expiries = 0
        """How often in a row the server had forgotten our version, with no event in between."""

    def list_done(self, version: str) -> None:
        self.version = self.list_from = version
        self.listed, self.is_lost = True, False

    def saw(self, version: str) -> None:
        if version:
            self.version = self.list_from = version
        self.expiries = 0

    def expire(self) -> None:
        """The server has forgotten our version: only its newest state is sure to be there."""
        self.listed, self.list_from = False, ""
        self.expiries += 1


class Reflector(Generic[K]):
    """One collection, such as the pods of a node. Each call of `events` is a view of its own.

    `fresh`: the first list has to be as new as the server's own. `quiet`: trouble is not news to the log.
    """

    def __init__(
        self,
        server: ApiClient,
        path: str,
        kind: type[K],
        *,
        params: Params | None = None,
        fresh: bool = False,
        quiet: bool = False,
    ) -> None:
        self._server = server
        self._path = path
        self._kind = kind
        self._params = dict(params or {})
        self._list_from = "" if fresh else "0"
        self._level = logging.DEBUG if quiet else logging.WARNING

    async def events(self) -> AsyncGenerator[Relisted[K] | Changed[K] | Deleted | Lost | Resumed, None]:
        """The first event is a Relisted, if need be after a Lost. Never ends by itself, and raises nothing that this
        program foresaw."""
        view = _View(self._list_from)
        backoff = Backoff(0.8, 30.0, now=asyncio.get_running_loop().time, reset_after=120.0)
        while True:
            try:
                if not view.listed:
                    yield await self._list(view)
                async with aclosing(self._watch(view)) as events:
                    async for event in events:
                        yield event
            except PykubeletError as error:
                if isinstance(error, Expired):
                    view.expire()
                    if view.expiries == 1:  # a server that forgets what it has just told us is not asked without end
                        log.info("%s: %s; listing again", self._path, error)
                        continue
                delay = max(backoff.next(), getattr(error, "after", None) or 0.0)
                log.log(self._level, "%s: %s; trying again in %.1f s", self._path, error, delay)
                if not view.is_lost:
                    view.is_lost = True
                    yield Lost(error)
                await asyncio.sleep(delay)

    async def _list(self, view: _View) -> Relisted[K]:
        items: list[K] = []
        unread: set[str] = set()
        params = {**self._params, "resourceVersion": view.list_from or None, "limit": PAGE}
        while True:
            answer = await self._server.get(self._path, _RawList, params=params)
            for raw in answer.items:
                if (item := self._understood(raw)) is not None:
                    items.append(item)
                else:
                    unread.add(_metadata(raw).uid)
            if not answer.metadata.continue_:
                break
            params = {**self._params, "continue": answer.metadata.continue_, "limit": PAGE}
        view.list_done(answer.metadata.resource_version)
        return Relisted(tuple(items), frozenset(unread))

    async def _watch(self, view: _View) -> AsyncGenerator[Changed[K] | Deleted | Resumed, None]:
        seconds = random.randint(*_WATCH_SECONDS)
        params = {
            **self._params,
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": view.version,
            "timeoutSeconds": seconds,
        }
        now = asyncio.get_running_loop().time
        started, lines = now(), 0
        async with self._server.stream(self._path, params, idle=seconds + _OVERTIME) as stream:
            if view.is_lost:
                view.is_lost = False
                yield Resumed()
            async for line in stream:
                lines += 1
                event = self._event(line, view)
                if event is not None:
                    yield event
        if not lines and now() - started < _SHORTEST_WATCH:
            raise Retry("the watch ended at once and told nothing")

    def _event(self, line: bytes, view: _View) -> Changed[K] | Deleted | None:
        try:
            event = codec.decode(WatchLine, line)
        except DecodeError as error:
            # Something between us spoiled the stream. What was in this line will be told again when we go on from here.
            raise Retry(f"the watch holds a line that is not an event ({error})") from None
        match event.type:
            case "ADDED" | "MODIFIED":
                item = self._understood(event.object)
                view.saw((item.metadata if item is not None else _metadata(event.object)).resource_version)
                return None if item is None else Changed(item)
            case "DELETED":
                meta = _metadata(event.object)
                view.saw(meta.resource_version)
                return Deleted(meta)
            case "BOOKMARK":
                view.saw(_metadata(event.object).resource_version)
                return None
            case "ERROR":
                raise api_error(_status(event.object))
            case other:
                log.error("%s: an event of the unknown type %.40r is skipped", self._path, other)
                return None

    def _understood(self, raw: msgspec.Raw) -> K | None:
        try:
            return codec.decode(self._kind, raw)
        except DecodeError as error:
            meta = _metadata(raw)
            which = f"{meta.namespace}/{meta.name}" if meta.name else "an object"
            log.error("%s: %s cannot be understood and stays as it was: %s", self._path, which, error)
            return None


def _metadata(raw: msgspec.Raw) -> ObjectMeta:
    """As much of an object's metadata as can be had."""
    try:
        return codec.decode(_OnlyMeta, raw).metadata
    except DecodeError:
        return ObjectMeta()


def _status(raw: msgspec.Raw) -> Status:
    try:
        return codec.decode(Status, raw)
    except DecodeError:
        return Status(message="the watch ended with an error that cannot be understood", code=500)
