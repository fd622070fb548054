"""Exec, attach and port-forward that the runtime's own streaming server serves: the connection is handed on to it."""

import math
from collections.abc import Iterator
from typing import Final
from urllib.parse import urlsplit

from aiohttp import web

from pykubelet.base.errors import Invalid, Retry
from pykubelet.web.bearer import without_tokens
from pykubelet.web.tunnel import Destination, Refusal, tunnel
from pykubelet.web.upgrade import wants_upgrade

_ANSWERING: Final = 30.0
_NOT_HANDED_ON: Final = frozenset({"host", "authorization", "cookie"})
"""Who somebody is to us is not the runtime's business."""


async def tunnel_to_runtime(request: web.Request, url: str, *, idle: float) -> web.StreamResponse:
    """Until either side ends it, or nothing was said for `idle` seconds. Raises base.errors before it has begun."""
    if not wants_upgrade(request):
        raise Invalid("Upgrade request required")
    parts = urlsplit(url)
    if parts.scheme != "http" or not parts.hostname or not parts.port:
        raise Invalid(f"the runtime's streaming server has an address that we cannot use: {parts.scheme}://...")
    target = parts.path + (f"?{parts.query}" if parts.query else "")
    to = Destination(host=parts.hostname, port=parts.port, target=target)
    try:
        return await tunnel(
            request, to, _handed_on(request), answering=_ANSWERING, idle=idle, patience=idle or math.inf
        )
    except Refusal as refusal:
        return refusal.response()
    except Retry as error:
        raise Retry(f"the runtime's streaming server does not answer: {error}") from None


def _handed_on(request: web.Request) -> Iterator[tuple[str, str]]:
    return (
        (name, value) for name, value in without_tokens(request.headers.items()) if name.lower() not in _NOT_HANDED_ON
    )
