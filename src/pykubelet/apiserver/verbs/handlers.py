"""What answers a request about a resource: a verb, or a connection that is handed over as it is."""

from collections.abc import Awaitable, Callable

from aiohttp import web

from pykubelet.apiserver.backend import Backend
from pykubelet.apiserver.requests.calls import Answer, Call

Verb = Callable[[Backend, Call], Awaitable[Answer]]
Connect = Callable[[web.Request, Call, Backend], Awaitable[web.StreamResponse]]
Place = tuple[str, str, str]
"""group, plural, subresource"""
