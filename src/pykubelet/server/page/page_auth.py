"""Who may come to the page: whoever may use the kubelet's API, and the people of this machine by a session.

A session is good for the page, for logs and for exec, and for nothing else of the API, whosever it is: what a browser
holds must not be worth all that its owner may. Within that, sessions of people whom the API server knows are judged as
they themselves would be, request by request.
"""

from typing import Final

from aiohttp import hdrs, web

from pykubelet.pod.ports.server import Decision, Identity
from pykubelet.server.application import Auth
from pykubelet.server.auth.kubelet_auth import protocol_token
from pykubelet.server.page.sessions import KEY_PREFIX, Sessions
from pykubelet.web.bearer import bearer_token
from pykubelet.web.origin import is_from_elsewhere

LOCAL: Final = Identity(name="pykubelet:page", groups=("pykubelet:local",))
"""Somebody who may ask at the agent's socket, and so may do on this machine whatever the agent may. Known by being this
very value: a name alone could be anybody's."""
_VISITOR: Final = Identity(name="pykubelet:visitor", groups=("system:unauthenticated",))
_ASTRAY: Final = Identity(name="pykubelet:astray", groups=("system:unauthenticated",))
"""Somebody with a session where sessions do not lead."""
ENTER: Final = "/page/enter"
FILES: Final = "/page/files/"
_USES: Final = frozenset({"page", "containerLogs", "exec"})


def cookie_name(port: int) -> str:
    """Cookies know no ports: two agents on one host must not take each other's away. The prefix keeps everybody from
    setting it who has no TLS, or only a neighbouring name."""
    return f"__Host-pykubelet-{port}"


class PageAuth:
    """In front of `auth`, which has the word on everybody else."""

    def __init__(self, auth: Auth, sessions: Sessions) -> None:
        self._auth = auth
        self._sessions = sessions

    async def identify(self, request: web.Request) -> Identity | None:
        if (request.method, request.path) == ("GET", ENTER):
            return _VISITOR  # the token in its hand is looked at there
        key = _key(request)
        cookie = request.cookies.get(cookie_name(own_port(request)), "")
        if not key and not (cookie and _is_file(request)):
            return await self._by_api(request)
        if is_from_elsewhere(request):
            return None
        identity = self._sessions.whose(cookie, key or None)
        if identity is None:
            return None if key else await self._by_api(request)
        return identity if _is_for_sessions(request.method, request.path) else _ASTRAY

    async def _by_api(self, request: web.Request) -> Identity | None:
        """The page is for somebody, however open the rest may be."""
        identity = await self._auth.identify(request)
        is_nobody = identity is not None and "system:unauthenticated" in identity.groups
        return None if is_nobody and is_page(request) else identity

    async def check(self, identity: Identity, method: str, path: str) -> Decision:
        if identity is _VISITOR:
            return Decision(allowed=(method, path) == ("GET", ENTER))
        if identity is not LOCAL and identity is not _ASTRAY:
            return await self._auth.check(identity, method, path)
        allowed = identity is LOCAL and _is_for_sessions(method, path)
        return Decision(allowed=allowed, reason="" if allowed else "a session of the page is for the page alone")


def _is_for_sessions(method: str, path: str) -> bool:
    _, first, *rest = path.split("/") if path.startswith("/") else ("", "")
    return first in _USES and (method == "GET" or path == "/page/leave") and not {".", ".."} & set(rest)


def is_page(request: web.Request) -> bool:
    return request.path == "/page" or request.path.startswith("/page/")


def is_by_key(request: web.Request) -> bool:
    """Whether it comes in a session, and not with a credential of its own."""
    return bool(_key(request))


def own_port(request: web.Request) -> int:
    """The one that it came in by."""
    place = request.get_extra_info("sockname")
    return int(place[1]) if place else 0


def _is_file(request: web.Request) -> bool:
    return request.method == "GET" and (request.path in ("/page", "/page/") or request.path.startswith(FILES))


def _key(request: web.Request) -> str:
    """Empty when there is none. Browsers cannot set headers on a WebSocket: there it is a protocol."""
    token = bearer_token(request.headers) or ""
    if not token and request.headers.get(hdrs.UPGRADE, "").lower() == "websocket":
        token = protocol_token(request.headers.getall(hdrs.SEC_WEBSOCKET_PROTOCOL, ()))
    return token if token.startswith(KEY_PREFIX) else ""
