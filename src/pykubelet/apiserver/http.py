"""From a request to a verb and back: what every request goes through, whatever it is about."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, suppress
from functools import partial
from typing import Any, Final, cast

from aiohttp import web

from pykubelet.apiserver import status
from pykubelet.apiserver.aggregation.aggregator import Aggregator
from pykubelet.apiserver.backend import LIGHT, Backend
from pykubelet.apiserver.discovery.non_resource_paths import NonResourcePaths
from pykubelet.apiserver.requests.audit_id import named
from pykubelet.apiserver.requests.calls import Answer, Call
from pykubelet.apiserver.requests.fair_turns import FairTurns
from pykubelet.apiserver.requests.in_flight import LASTING, READING, WRITING, InFlight
from pykubelet.apiserver.requests.media_types import JSON, PROTOBUF, YAML, Accept, accepted, content_type
from pykubelet.apiserver.requests.request_body import read_body
from pykubelet.apiserver.requests.request_info import RequestInfo, request_info
from pykubelet.apiserver.requests.surrogates import whole
from pykubelet.apiserver.requests.users import UNAUTHENTICATED, User
from pykubelet.apiserver.schema.resources import Resource
from pykubelet.apiserver.status import ApiError
from pykubelet.apiserver.telemetry.observer import Observer
from pykubelet.apiserver.telemetry.seen import REASON, Seen
from pykubelet.apiserver.verbs.bodies import read_ahead
from pykubelet.apiserver.verbs.connect import admit_connection
from pykubelet.apiserver.verbs.create import create
from pykubelet.apiserver.verbs.delete import delete, delete_collection
from pykubelet.apiserver.verbs.failures import failure
from pykubelet.apiserver.verbs.handlers import Connect, Place, Verb
from pykubelet.apiserver.verbs.patch import patch
from pykubelet.apiserver.verbs.payload import Payload, payload, payload_weight
from pykubelet.apiserver.verbs.read import get, list_
from pykubelet.apiserver.verbs.scale import scale
from pykubelet.apiserver.verbs.update import update
from pykubelet.apiserver.verbs.watch import watch
from pykubelet.web.guests import recognised, turned_down

log = logging.getLogger(__name__)

VERBS: Final[dict[str, Verb]] = {
    "create": create,
    "delete": delete,
    "deletecollection": delete_collection,
    "get": get,
    "list": list_,
    "patch": patch,
    "update": update,
    "watch": watch,
}
_PATIENCE: Final = 30.0
"""Seconds in which a client has to take what it is told."""
_PIECE: Final = 256 << 10
"""Of an answer."""
_HELD: Final = 64 << 10
"""Bytes that may wait for one watcher to take them: there can be a thousand."""
_TOO_MANY: Final = "you have too many connections: close some of them"
_READING: Final = ("get", "list", "watch")
_UNSPEAKABLE: Final = frozenset("/%\0")
"""What no name in a path may have."""
_SHARED_PARTS: Final = ("status", "finalize", "approval", "ephemeralcontainers", "resize")
"""Parts that are read and written like the object itself."""


class RequestHandler:
    """The one handler behind every path."""

    def __init__(self, backend: Backend, plain: NonResourcePaths, observer: Observer) -> None:
        self._backend = backend
        self._plain = plain
        self._observer = observer
        self.answers: dict[Place, Verb] = {}
        self.connections: dict[Place, Connect] = {}
        self._streams: dict[asyncio.Task[None], Resource] = {}
        self.aggregator: Aggregator | None = None
        backend.on_change = self._end_streams_of
        self.in_flight = InFlight()
        self._turns = FairTurns()

    async def handle(self, request: web.Request) -> web.StreamResponse:
        seen = self._observer.begin(request)
        response = None
        try:
            response = await self._handle(request, seen)
        except (asyncio.CancelledError, web.HTTPException, ConnectionError):
            raise
        except Exception as error:  # the boundary: one request's failure is not the server's
            deprecation = seen.resource.deprecation if seen.resource is not None else ""
            response = failure(request, error, [*filter(None, [deprecation]), *seen.warnings])
        finally:
            self._observer.end(seen, response)
        return response

    def _end_streams_of(self, resource: Resource) -> None:
        """Whoever watches what is no longer the same has to ask anew."""
        for task, its in self._streams.items():
            if its.path == resource.path:
                task.cancel()

    def end_streams(self) -> None:
        for task in self._streams:
            task.cancel()

    async def _handle(self, request: web.Request, seen: Seen) -> web.StreamResponse:
        info = seen.info = request_info(request.method, request.rel_url.raw_path, request.query)
        user = await self._identified(request, seen, info)
        if self._observer.is_auditing:
            await self._observer.known(seen)
        if self.aggregator is not None and (remote := self.aggregator.remote(info.path)) is not None:
            with self.in_flight.enter(user, LASTING):
                self._observer.lasts(seen)
                return await self.aggregator.pass_on(request, remote, user)
        if not info.is_resource:
            return await self._plain.answer(request, info.path)
        resource = self._backend.resources.find(info.group, info.version, info.resource)
        if resource is None:
            raise status.unknown_path()
        _check_place(resource, info)
        if request.method == "HEAD":
            raise status.method_not_allowed()
        seen.resource = resource
        place = (resource.group, resource.plural, info.subresource)
        if place in self.connections:
            call = _call(request, info, resource, user, b"", Accept(), seen)
            with self.in_flight.enter(user, LASTING):
                self._observer.lasts(seen)
                await admit_connection(self._backend, call, request.query)
                return await self.connections[place](request, call, self._backend)
        kind = LASTING if info.verb == "watch" else READING if info.verb in _READING else WRITING
        with self.in_flight.enter(user, kind, _body_size(request, self._backend.settings.most_body_bytes)):
            return await self._serve(request, seen, info, resource, place, user)

    async def _identified(self, request: web.Request, seen: Seen, info: RequestInfo) -> User:
        """Raises 401, 403, and 429 for one who has too many connections."""
        access = self._backend.access
        try:
            user = await access.identify(request)
        except ApiError as error:
            if error.code == 401:
                turned_down(request)
            raise
        is_known = UNAUTHENTICATED not in user.groups
        if is_known and not recognised(request, user.name):
            raise ApiError(429, "TooManyRequests", _TOO_MANY, {}, {"Retry-After": "1", "Connection": "close"})
        try:
            seen.notes[REASON] = await access.check(user, info)
        except ApiError:
            if not is_known:
                turned_down(request)
            raise
        return user

    async def _serve(
        self, request: web.Request, seen: Seen, info: RequestInfo, resource: Resource, place: Place, user: User
    ) -> web.StreamResponse:
        accept = accepted(request.headers.get("Accept", ""))
        if accept.media == PROTOBUF and resource.is_custom:
            raise status.not_acceptable((JSON, YAML))
        body = await read_body(request, self._backend.settings.most_body_bytes)
        body = seen.body = b"" if info.verb in _READING else body
        seen.content_type = request.content_type if body else ""
        ask = partial(_call, request, info, resource, user, body, accept, seen)
        await self._turns.turn(user, info)
        done = await self._answer(self._verb(place, resource, info), ask, user.name, len(body), place, resource)
        if isinstance(done, Payload):
            seen.size = len(done.body)
            if self._observer.wants_answer(seen):
                seen.answer = done.body
            return await _response(request, done)
        self._observer.lasts(seen)
        media = f"{PROTOBUF};stream=watch" if accept.media == PROTOBUF else JSON
        return await self._stream(request, resource, done, media)

    async def _answer(
        self, verb: Verb, ask: Callable[[], Call], who: str, weight: int, place: Place, resource: Resource
    ) -> Payload | AsyncIterator[bytes]:
        """What is large is worked on beside the loop, from the first look at the text to the last byte to send; but for
        what may have to wait for others, or knows more than the backend that goes there."""
        backend = self._backend
        if (unread := resource.unread) > LIGHT:
            await backend.aside(who, unread, lambda _: resource.read())
        if weight <= LIGHT:
            return await _done(backend, verb, ask(), weight)
        waits = place in self.answers or backend.admission.waits(resource) or backend.strategy(resource).waits
        if not waits:
            return await backend.aside(who, weight, lambda there: _done(there, verb, ask(), weight))
        call = await backend.aside(who, weight, lambda _: read_ahead(ask()))
        return await _done(backend, verb, call, weight)

    def _verb(self, place: Place, resource: Resource, info: RequestInfo) -> Verb:
        if place in self.answers:
            return self.answers[place]
        if resource.is_stored and (not info.subresource or info.subresource in _SHARED_PARTS):
            return VERBS[info.verb]
        if resource.scale is not None and info.subresource == "scale":
            return scale
        return _not_here

    async def _stream(
        self, request: web.Request, resource: Resource, lines: AsyncIterator[bytes], media: str
    ) -> web.StreamResponse:
        headers = {"Content-Type": media, "Cache-Control": "no-cache, private", **named(request)}
        response = web.StreamResponse(headers=headers)
        response.enable_chunked_encoding()
        await response.prepare(request)
        if request.transport is not None:
            request.transport.set_write_buffer_limits(_HELD)
        patience = _Patience()
        pump = asyncio.create_task(_pump(response, lines, patience), name=f"watch {request.path}")
        self._streams[pump] = resource
        patience.watch(pump)
        try:
            await asyncio.wait({pump})
        finally:  # also when the client has gone: then this handler is cancelled
            patience.end()
            del self._streams[pump]
            pump.cancel()
            await asyncio.gather(pump, return_exceptions=True)
        if patience.is_lost:
            log.info("%s: its client takes nothing any more, and is let go", request.path)
            if request.transport is not None:
                request.transport.abort()
        elif pump.cancelled():  # the server or the resource is about to end, and the client may come back elsewhere
            with suppress(ConnectionError):
                await response.write_eof()
        elif (error := pump.exception()) is not None and not isinstance(error, ConnectionError):
            log.error("%s broke off", request.path, exc_info=error)
        return response


class _Patience:
    """With a client that has to take what it is told. It is looked at now and then: a timer for each line would cost as
    much as the line."""

    def __init__(self) -> None:
        self.is_lost = False
        self.writes_since: float | None = None
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None

    def watch(self, task: asyncio.Task[None]) -> None:
        since = self.writes_since
        if since is not None and self._loop.time() - since >= _PATIENCE:
            self.is_lost = True
            task.cancel()
        else:
            self._timer = self._loop.call_later(_PATIENCE / 2, self.watch, task)

    def end(self) -> None:
        if self._timer is not None:
            self._timer.cancel()


async def _pump(response: web.StreamResponse, lines: AsyncIterator[bytes], patience: _Patience) -> None:
    now = asyncio.get_running_loop().time
    async with aclosing(cast(Any, lines)) as each:
        async for line in each:
            patience.writes_since = now()
            await response.write(line)
            patience.writes_since = None
    await response.write_eof()


async def _done(backend: Backend, verb: Verb, call: Call, weight: int) -> Payload | AsyncIterator[bytes]:
    answer = await verb(backend, call)
    if answer.stream is not None:
        return answer.stream
    weight = max(weight, payload_weight(call, answer))
    if weight <= LIGHT:
        return payload(backend, call, answer)

    async def made(there: Backend) -> Payload:
        return payload(there, call, answer)

    return await backend.aside(call.user.name, weight, made)


async def _response(request: web.Request, made: Payload) -> web.StreamResponse:
    if len(made.body) <= _PIECE:
        return web.Response(status=made.code, body=made.body, headers=made.headers)
    response = web.StreamResponse(status=made.code, headers=[*made.headers, *named(request).items()])
    response.content_length = len(made.body)
    await response.prepare(request)
    for start in range(0, len(made.body), _PIECE):  # encrypted and kept for a slow client piece by piece
        try:
            async with asyncio.timeout(_PATIENCE):
                await response.write(made.body[start : start + _PIECE])
        except TimeoutError:
            log.info("%s: its client does not take the answer, and is let go", request.path)
            if request.transport is not None:
                request.transport.abort()
            break
    return response


async def _not_here(backend: Backend, call: Call) -> Answer:
    """A part that this server does not serve by itself, of an object that may not even exist."""
    if call.info.name:
        await backend.read(call.resource, call.info.namespace, call.info.name)
    what = f"{call.resource.plural}/{call.info.subresource}" if call.info.subresource else call.resource.plural
    raise ApiError(501, "NotImplemented", f"{what} is not served here", {})


def _check_place(resource: Resource, info: RequestInfo) -> None:
    """That the path can be one of this resource. Raises 404 and 405."""
    for name in (info.namespace, info.name):
        if not _UNSPEAKABLE.isdisjoint(name) or name in (".", ".."):
            raise status.bad_request(
                f'invalid resource name "{name}": it may not contain "/", "%" or a zero, nor be "." or ".."'
            )
    if info.subresource and resource.subresource(info.subresource) is None:
        raise status.unknown_path()
    if info.rest and info.subresource != "proxy":
        raise status.unknown_path()
    verbs = resource.verbs_of(info.subresource)
    if resource.namespaced and not info.namespace:
        if info.name:
            raise status.unknown_path()
        if info.verb not in ("list", "watch"):
            raise status.method_not_allowed()
    if not resource.namespaced and info.namespace and resource.plural != "namespaces":
        raise status.unknown_path()
    is_misplaced = (
        (info.verb in ("update", "patch") and not info.name)
        or (info.verb == "create" and bool(info.name) and not info.subresource)
        or (info.verb == "watch" and info.subresource)
    )
    if is_misplaced or info.verb not in verbs:
        raise status.method_not_allowed()


def _body_size(request: web.Request, most: int) -> int:
    """What has to be reckoned with: all that may come, where nobody says how much will. Raises 413."""
    size = request.content_length
    if size is None:
        return most if request.can_read_body else 0
    if size > most:
        raise status.too_large(most)
    return size


def _call(
    request: web.Request,
    info: RequestInfo,
    resource: Resource,
    user: User,
    body: bytes,
    accept: Accept,
    seen: Seen,
) -> Call:
    media = content_type(request.headers.get("Content-Type", ""))
    return Call(
        info=info,
        resource=resource,
        query=dict(request.query),
        dry_run=tuple(request.query.getall("dryRun", [])),
        body=body if media == PROTOBUF else whole(body),
        content_type=media,
        accept=accept,
        user=user,
        user_agent=request.headers.get("User-Agent", ""),
        warnings=seen.warnings,
        notes=seen.notes,
    )
