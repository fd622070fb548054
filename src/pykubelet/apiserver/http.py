"""From a request to a verb and back: what every request goes through, whatever it is about."""

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from contextlib import aclosing, suppress
from typing import Any, Final, cast

import msgspec
from aiohttp import web

from pykubelet.api.codec import DecodeError
from pykubelet.apiserver import status
from pykubelet.apiserver.backend import Backend
from pykubelet.apiserver.discovery.non_resource_paths import NonResourcePaths
from pykubelet.apiserver.objects import Object, encode
from pykubelet.apiserver.requests.calls import Answer, Call
from pykubelet.apiserver.requests.media_types import JSON, PROTOBUF, YAML, Accept, accepted, content_type
from pykubelet.apiserver.requests.request_info import RequestInfo, request_info
from pykubelet.apiserver.requests.surrogates import whole
from pykubelet.apiserver.requests.users import User
from pykubelet.apiserver.schema.resources import Resource
from pykubelet.apiserver.status import ApiError
from pykubelet.apiserver.store.port import Expired
from pykubelet.apiserver.tables.tables import partial_metadata, table, wanted_objects
from pykubelet.apiserver.verbs.create import create
from pykubelet.apiserver.verbs.delete import delete, delete_collection
from pykubelet.apiserver.verbs.handlers import Connect, Place, Verb
from pykubelet.apiserver.verbs.patch import patch
from pykubelet.apiserver.verbs.read import get, list_
from pykubelet.apiserver.verbs.update import update
from pykubelet.apiserver.verbs.watch import watch
from pykubelet.base.errors import PykubeletError, Retry

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
"""Seconds in which a watcher has to take what it is told."""
_BODY_SECONDS: Final = 60.0
_SHARED_PARTS: Final = ("status", "finalize", "approval", "ephemeralcontainers", "resize")
"""Parts that are read and written like the object itself."""


class RequestHandler:
    """The one handler behind every path."""

    def __init__(self, backend: Backend, plain: NonResourcePaths) -> None:
        self._backend = backend
        self._plain = plain
        self.answers: dict[Place, Verb] = {}
        self.connections: dict[Place, Connect] = {}
        self._streams: set[asyncio.Task[None]] = set()

    async def handle(self, request: web.Request) -> web.StreamResponse:
        try:
            return await self._handle(request)
        except ApiError as error:
            return _failure(error)
        except Expired as error:
            return _failure(status.gone_410(str(error)))
        except DecodeError as error:
            return _failure(status.bad_request(f"the object provided cannot be read: {error}"))
        except Retry as error:
            return _failure(status.unavailable(str(error), max(1, round(error.after or 1))))
        except PykubeletError as error:
            return _failure(status.internal(str(error)))
        except (asyncio.CancelledError, web.HTTPException, ConnectionError):
            raise
        except Exception:  # the boundary: one request's failure is not the server's
            log.exception("%s %s failed", request.method, request.path)
            return _failure(status.internal("the server has a fault; its log says which"))

    def end_streams(self) -> None:
        for task in self._streams:
            task.cancel()

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        info = request_info(request.method, request.rel_url.raw_path, request.query)
        user = await self._backend.access.check(request, info)
        if not info.is_resource:
            return await self._plain.answer(request, info.path)
        resource = self._backend.resources.find(info.group, info.version, info.resource)
        if resource is None:
            raise status.unknown_path()
        _check_place(resource, info)
        place = (resource.group, resource.plural, info.subresource)
        if place in self.connections:
            call = _call(request, info, resource, user, b"", Accept())
            return await self.connections[place](request, call, self._backend)
        accept = accepted(request.headers.get("Accept", ""))
        body = await read_body(request, self._backend.settings.most_body_bytes)
        call = _call(request, info, resource, user, body, accept)
        answer = await self._verb(place, resource, info)(self._backend, call)
        if answer.stream is not None:
            return await self._stream(request, answer.stream)
        return self._response(call, answer)

    def _verb(self, place: Place, resource: Resource, info: RequestInfo) -> Verb:
        if place in self.answers:
            return self.answers[place]
        if resource.is_stored and (not info.subresource or info.subresource in _SHARED_PARTS):
            return VERBS[info.verb]
        return _not_here

    def _response(self, call: Call, answer: Answer) -> web.Response:
        headers = [("Cache-Control", "no-cache, private")]
        headers += [("Warning", f'299 - "{_quoted(text)}"') for text in dict.fromkeys(call.warnings)]
        if answer.data is not None and call.accept.media == JSON and not call.query.get("pretty"):
            headers.append(("Content-Type", JSON))
            return web.Response(status=answer.code, body=answer.data, headers=headers)
        obj = answer.obj if answer.obj is not None else msgspec.json.decode(answer.data or b"{}")
        obj = self._transformed(call, obj)
        headers.append(("Content-Type", call.accept.media))
        body = msgspec.yaml.encode(obj) if call.accept.media == YAML else encode(obj)
        if call.accept.media == JSON and call.query.get("pretty") not in (None, "", "0", "false"):
            body = msgspec.json.format(body, indent=2)
        return web.Response(status=answer.code, body=body, headers=headers)

    def _transformed(self, call: Call, obj: Object) -> Object:
        accept, kind = call.accept, obj.get("kind", "")
        if accept.transform == "Table" and kind == f"{call.resource.kind}List":
            include = wanted_objects(call.query)
            return table(call.resource, obj["items"], obj["metadata"], accept.version, include, self._backend.now())
        if not accept.transform or kind != call.resource.kind:
            return obj
        if accept.transform == "Table":
            metadata = {"resourceVersion": obj["metadata"].get("resourceVersion", "")}
            include = wanted_objects(call.query)
            return table(call.resource, [obj], metadata, accept.version, include, self._backend.now())
        return partial_metadata(obj, accept.version)

    async def _stream(self, request: web.Request, lines: AsyncIterator[bytes]) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": JSON, "Cache-Control": "no-cache, private"})
        response.enable_chunked_encoding()
        await response.prepare(request)
        patience = _Patience()
        pump = asyncio.create_task(_pump(response, lines, patience), name=f"watch {request.path}")
        self._streams.add(pump)
        patience.watch(pump)
        try:
            await asyncio.wait({pump})
        finally:  # also when the client has gone: then this handler is cancelled
            patience.end()
            self._streams.discard(pump)
            pump.cancel()
            await asyncio.gather(pump, return_exceptions=True)
        if patience.is_lost:
            log.info("%s: its client takes nothing any more, and is let go", request.path)
            if request.transport is not None:
                request.transport.abort()
        elif pump.cancelled():  # the server is about to end, and the client may come back elsewhere
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


async def _not_here(backend: Backend, call: Call) -> Answer:
    """A part that this server does not serve by itself, of an object that may not even exist."""
    if call.info.name:
        await backend.read(call.resource, call.info.namespace, call.info.name)
    what = f"{call.resource.plural}/{call.info.subresource}" if call.info.subresource else call.resource.plural
    raise ApiError(501, "NotImplemented", f"{what} is not served here", {})


def _check_place(resource: Resource, info: RequestInfo) -> None:
    """That the path can be one of this resource. Raises 404 and 405."""
    for name in (info.namespace, info.name):
        if any(each in name for each in "/%\0") or name in (".", ".."):
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


async def read_body(request: web.Request, most: int) -> bytes:
    """Raises 400, 408 and 413."""
    if (request.content_length or 0) > most:
        raise status.too_large(most)
    parts, size = [], 0
    try:
        if request.content.is_eof():  # as most are by now: there is nothing to wait for
            body = request.content.read_nowait()
            if len(body) > most:
                raise status.too_large(most)
            return body
        async with asyncio.timeout(_BODY_SECONDS):
            async for part in request.content.iter_any():
                size += len(part)
                if size > most:
                    raise status.too_large(most)
                parts.append(part)
    except TimeoutError:
        raise ApiError(408, "Timeout", f"the body has not come within {_BODY_SECONDS:g} s", {}) from None
    except web.RequestPayloadError as error:
        raise status.bad_request(f"the body cannot be read: {error}") from None
    return b"".join(parts)


def _call(request: web.Request, info: RequestInfo, resource: Resource, user: User, body: bytes, accept: Accept) -> Call:
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
        warnings=[],
    )


def _failure(error: ApiError) -> web.Response:
    headers = {"Content-Type": JSON, "Cache-Control": "no-cache, private", **error.headers}
    try:
        body = encode(error.status())
    except UnicodeEncodeError:  # it quotes what a client sent
        body = json.dumps(error.status()).encode()
    return web.Response(status=error.code, body=body, headers=headers)


def _quoted(text: str) -> str:
    plain = "".join(each if " " <= each <= "~" else "?" for each in text)
    return plain.replace("\\", "\\\\").replace('"', '\\"')
