"""Whether a page of somebody else makes a browser ask: what a browser adds by itself must not count for such a page.

A browser sends its client certificate with whatever any page asks for, and lets every page open WebSockets. Clients
that are no browsers send no Origin; a page whose only credential is a token of its own knows a secret.
"""

import ssl
from collections.abc import Awaitable, Callable
from typing import Final
from urllib.parse import urlsplit

from aiohttp import hdrs, web

from pykubelet.web.upgrade import offered_protocols, wants_upgrade

TOKEN_PROTOCOL: Final = "base64url.bearer.authorization.k8s.io."  # noqa: S105 - the name of a protocol
"""Browsers cannot set headers on a WebSocket: they say their token as the name of a protocol."""
_PORTS: Final = {"http": 80, "https": 443}
_READING: Final = frozenset({"GET", "HEAD", "OPTIONS"})
"""Whose answers the browser itself keeps from a page of another origin."""


def is_foreign(request: web.BaseRequest) -> bool:
    """Whether it is a page of another origin that asks, in the name of the person at the browser or of nobody."""
    return is_from_elsewhere(request) and (_has_certificate(request) or not _has_token(request))


def is_from_elsewhere(request: web.BaseRequest) -> bool:
    """Whether it is a page of another origin that asks, in whosever name."""
    # Not `request.host`: without the header, the library would ask the name service who we are, and all would wait.
    here = _place(f"{request.scheme}://{request.headers.get(hdrs.HOST, '')}")
    return not all(here is not None and _place(origin) == here for origin in request.headers.getall(hdrs.ORIGIN, []))


def _has_certificate(request: web.BaseRequest) -> bool:
    """It would count before any token, be it made up."""
    tls = request.get_extra_info("ssl_object")
    return isinstance(tls, ssl.SSLObject) and tls.getpeercert(binary_form=True) is not None


def _has_token(request: web.BaseRequest) -> bool:
    offered = offered_protocols(request)
    return bool(request.headers.get(hdrs.AUTHORIZATION)) or any(text.startswith(TOKEN_PROTOCOL) for text in offered)


@web.middleware
async def refuse_foreign_pages(
    request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
) -> web.StreamResponse:
    """They may not change anything, nor hear what is said after an upgrade, which no browser keeps from them."""
    if (wants_upgrade(request) or request.method not in _READING) and is_foreign(request):
        text = f"requests of pages from {request.headers[hdrs.ORIGIN]:.100} are refused: they need a bearer token\n"
        return web.Response(status=403, text=text)
    return await handler(request)


def _place(url: str) -> tuple[str, int] | None:
    """Host and port; none for what is no place, `null` for example, which is like no other."""
    try:
        parts = urlsplit(url)
        port = parts.port or _PORTS.get(parts.scheme, 0)
    except ValueError:
        return None
    return (parts.hostname, port) if parts.hostname and port else None
