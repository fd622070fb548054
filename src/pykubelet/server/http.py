"""The web server under the kubelet's HTTP API: who may come in, what errors look like, and how much anybody may ask.

Each endpoint is a module of its own that gives its routes; none of them has to think of authentication.
"""

import asyncio
import logging
import os
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any, Final, NamedTuple, Protocol

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from pykubelet.base.errors import Conflict, Invalid, NotFound, PykubeletError, Retry
from pykubelet.pod.ports.server import Decision, Identity
from pykubelet.web.door import Door, listening_socket

log = logging.getLogger(__name__)

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
_HEAD_SECONDS: Final = 10.0
"""For TLS, and again for the first request's headers: who needs longer only wants to keep us busy."""
_IDLE_SECONDS: Final = 90.0
_LARGEST_BODY: Final = 1 << 20
_LONGEST_FIELD: Final = 64 << 10
"""A token may be long; everything else is short."""
_MOST_CONNECTIONS: Final = 1024
_STATUS: Final[tuple[tuple[type[PykubeletError], int], ...]] = (
    (NotFound, 404),
    (Conflict, 409),
    (Invalid, 400),
    (Retry, 503),
)


class Route(NamedTuple):
    method: str
    path: str
    handler: Handler
    is_open: bool = False
    """Whether a read-only port, where nobody is asked for a name, has it too."""


class Gate(Protocol):
    """Who is who, and who may what."""

    async def identify(self, request: web.Request) -> Identity | None: ...

    async def check(self, identity: Identity, method: str, path: str) -> Decision: ...


def application(routes: Iterable[Route], gate: Gate | None) -> web.Application:
    """Without a gate it has the open routes only."""
    middlewares = [_translated, *([_guarded(gate)] if gate else [])]
    app = web.Application(middlewares=middlewares, client_max_size=_LARGEST_BODY)
    for route in routes:
        if gate is not None or route.is_open:
            app.router.add_route(route.method, route.path, route.handler)
    return app


@asynccontextmanager
async def serving(
    app: web.Application,
    address: str,
    port: int,
    *,
    tls: ssl.SSLContext | None = None,
    most: int = 0,
    longest: int = 0,
) -> AsyncIterator[int]:
    """Serve until the end of the block. -> the port. Raises Invalid when the address cannot be had.

    `most` connections at a time, and the `longest` first line or header of a request: 0 for what suits a kubelet.
    """
    runner = web.AppRunner(
        app,
        access_log=None,
        auto_decompress=False,  # a small body must not become a large one
        logger=_Library(log),
        handler_cancellation=True,  # who has gone needs no answer
        keepalive_timeout=_IDLE_SECONDS,
        max_line_size=longest or _LONGEST_FIELD,
        max_field_size=longest or _LONGEST_FIELD,
        shutdown_timeout=1.0,
    )
    try:
        listening = listening_socket(address, port)
    except OSError as error:
        why = os.strerror(error.errno) if error.errno else str(error)
        raise Invalid(f"cannot serve on {address} port {port}: {why}") from None
    with listening:
        await runner.setup()
        assert runner.server is not None
        door = Door(runner.server, tls, most=most or _MOST_CONNECTIONS, patience=_HEAD_SECONDS)
        accepting = asyncio.create_task(door.accept(listening))
        try:
            yield listening.getsockname()[1]
        finally:
            accepting.cancel()
            await asyncio.wait([accepting])
            await runner.cleanup()


class _Library(logging.LoggerAdapter[logging.Logger]):
    """What the library has to say. That strangers send what is no HTTP is no fault of ours, and worth a line."""

    def exception(self, msg: object, *args: object, exc_info: Any = True, **extra: Any) -> None:
        if isinstance(exc_info, HttpProcessingError):
            what = " ".join(str(exc_info.message).split())
            self.info("a request%s cannot be read: %.100s", f" from {args[0]}" if args else "", what)
        else:
            self.error(msg, *args, exc_info=exc_info, **extra)


def plain(status: int, text: str) -> web.Response:
    return web.Response(status=status, text=text)


# --- what every request goes through


def _guarded(gate: Gate) -> Any:
    @web.middleware
    async def guard(request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            identity = await gate.identify(request)
        except PykubeletError as error:
            log.warning("somebody cannot be recognised: %s", error)
            identity = None
        if identity is None:
            return plain(401, "Unauthorized")
        try:
            decision = await gate.check(identity, request.method, request.path)
        except PykubeletError as error:
            log.warning("whether %s may %s %s cannot be said: %s", identity.name, request.method, request.path, error)
            return plain(500, str(error))
        if not decision.allowed:
            log.info("forbidden to %s: %s %s", identity.name, request.method, request.path)
            return plain(403, decision.reason)
        return await handler(request)

    return guard


@web.middleware
async def _translated(request: web.Request, handler: Handler) -> web.StreamResponse:
    try:
        return await handler(request)
    except web.HTTPException as answer:
        if answer.status == 404:
            return plain(404, "404 page not found\n")
        raise
    except PykubeletError as error:
        status = next((code for kind, code in _STATUS if isinstance(error, kind)), 500)
        return plain(status, str(error))
    except (ConnectionError, asyncio.CancelledError):
        raise
    except Exception:
        log.exception("%s %s failed", request.method, request.path)
        return plain(500, "internal error: the agent's log has more")
