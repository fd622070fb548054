"""The kubelet's HTTP API as an application: who may come in, and what errors look like.

Each endpoint is a module of its own that gives its routes; none of them has to think of authentication.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Final, NamedTuple, Protocol

from aiohttp import web

from pykubelet.base.errors import Conflict, Invalid, NotFound, PykubeletError, Retry
from pykubelet.pod.ports.server import Decision, Identity
from pykubelet.web.guests import recognised, turned_down

log = logging.getLogger(__name__)

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
ASKING: Final = web.RequestKey("asking", Identity)
"""Who asks, where anybody is asked for a name."""
_TOO_MANY: Final = "you have too many connections: close some of them"
_LARGEST_BODY: Final = 1 << 20
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


class Auth(Protocol):
    """Who is who, and who may what."""

    async def identify(self, request: web.Request) -> Identity | None: ...

    async def check(self, identity: Identity, method: str, path: str) -> Decision: ...


def application(routes: Iterable[Route], auth: Auth | None) -> web.Application:
    """Without `auth` it has the open routes only."""
    middlewares = [_translate, *([_guarded(auth)] if auth else [])]
    app = web.Application(middlewares=middlewares, client_max_size=_LARGEST_BODY)
    for route in routes:
        if auth is not None or route.is_open:
            app.router.add_route(route.method, route.path, route.handler)
    return app


def plain(status: int, text: str) -> web.Response:
    return web.Response(status=status, text=text)


# --- what every request goes through


def _guarded(auth: Auth) -> Any:
    @web.middleware
    async def guard(request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            identity = await auth.identify(request)
        except PykubeletError as error:
            log.warning("somebody cannot be recognised: %s", error)
            identity = None
        if identity is None:
            turned_down(request)
            return plain(401, "Unauthorized")
        if "system:unauthenticated" not in identity.groups and not recognised(request, identity.name):
            return web.Response(status=429, text=_TOO_MANY, headers={"Retry-After": "1", "Connection": "close"})
        try:
            decision = await auth.check(identity, request.method, request.path)
        except PykubeletError as error:
            log.warning("whether %s may %s %s cannot be said: %s", identity.name, request.method, request.path, error)
            return plain(500, str(error))
        if not decision.allowed:
            log.info("forbidden to %s: %s %s", identity.name, request.method, request.path)
            return plain(403, decision.reason)
        request[ASKING] = identity
        return await handler(request)

    return guard


@web.middleware
async def _translate(request: web.Request, handler: Handler) -> web.StreamResponse:
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
