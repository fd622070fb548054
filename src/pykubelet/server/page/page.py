"""The front of the page: who may come in is decided here; what is behind it is loaded for the first visitor."""

import asyncio
import hashlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from aiohttp import hdrs, web
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from msgspec import Struct

from pykubelet.api.node import Node
from pykubelet.base.tasks import Work
from pykubelet.pod.moments import Journal
from pykubelet.pod.ports.server import Inside
from pykubelet.pod.stats.loop_picture import LoopPicture
from pykubelet.pod.stats.stats import Stats
from pykubelet.pod.story.diagnosis import NodeTrouble
from pykubelet.server.application import Auth, Handler, Route
from pykubelet.server.explainer import Explainer
from pykubelet.server.page.hosts import OwnNames
from pykubelet.server.page.page_auth import ENTER, LOCAL, PageAuth, is_page
from pykubelet.server.page.sessions import TOKEN_SECONDS, Sessions
from pykubelet.server.page.usage import UsageHistory

if TYPE_CHECKING:
    from pykubelet.server.page.visits import Visits

_HEADERS: Final = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
        "require-trusted-types-for 'script'; trusted-types 'none'"
    ),
    "X-Frame-Options": "DENY",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}
_WILDCARDS: Final = ("", "0.0.0.0", "::")  # noqa: S104 - what somebody asks for


class Shown(Struct, frozen=True, kw_only=True):
    """What the page shows, each as it is at the moment."""

    inside: Inside
    explainer: Explainer
    journal: Journal
    picture: Callable[[], LoopPicture | None]
    node: Callable[[], Node | None]
    trouble: Callable[[], NodeTrouble]
    stats: Stats | None
    version: str


class Page:
    """`certificate` is the one that the agent shows to clients."""

    def __init__(self, shown: Shown, auth: Auth, certificate: Callable[[], x509.Certificate | None]) -> None:
        self._shown = shown
        self._sessions = Sessions(asyncio.get_running_loop().time)
        self._usage = UsageHistory(shown.stats)
        self._certificate = certificate
        self._names = OwnNames(self._own_names, certificate)
        self._visits: Visits | None = None
        self._is_visited = asyncio.Event()
        self.auth = PageAuth(auth, self._sessions)

    def routes(self) -> tuple[Route, ...]:
        async def serve(request: web.Request) -> web.StreamResponse:
            return await self._loaded().serve(request)

        places = ("/page", "/page/{rest:.*}")
        return tuple(Route(method, place, serve) for place in places for method in ("GET", "POST"))

    def parts(self) -> dict[str, Work]:
        """What has to run, by name."""
        return {"usage of the last hour": self._usage.run, "page": self._run}

    def attend(self, app: web.Application) -> None:
        """What holds for every answer of the page, also for those to who may not see it."""

        @web.middleware
        async def only_as_ourselves(request: web.Request, handler: Handler) -> web.StreamResponse:
            if not is_page(request):
                return await handler(request)
            if not self._names.is_ours(request.headers.get(hdrs.HOST, "")):
                text = "The page is not served under this name: use the address or the name of the node.\n"
                return web.Response(status=421, text=text)
            answer = await handler(request)
            if answer.status == 401 and request.method == "GET" and "text/html" in request.headers.get("Accept", ""):
                return self._loaded().stranger()
            return answer

        async def add_headers(request: web.Request, response: web.StreamResponse) -> None:
            if is_page(request):
                response.headers.update(_HEADERS)
                response.headers.setdefault("Cache-Control", "no-store")

        app.middlewares.insert(0, only_as_ourselves)
        app.on_response_prepare.append(add_headers)

    def invitation(self, address: str, port: int, ips: Sequence[str]) -> dict[str, Any]:
        """For who asks at the agent's socket: where the page is, once. `address` is what the agent serves on."""
        host = (*ips, "127.0.0.1")[0] if address in _WILDCARDS else address
        host = f"[{host}]" if ":" in host else host
        certificate = self._certificate()
        return {
            "url": f"https://{host}:{port}{ENTER}?token={self._sessions.invite(LOCAL)}",
            "seconds": TOKEN_SECONDS,
            "fingerprint": _fingerprint(certificate) if certificate else "",
        }

    async def state(self) -> Any:
        """For who asks at the agent's socket: what `/page/state` says."""
        return await self._loaded().state()

    async def _run(self) -> None:
        await self._is_visited.wait()
        await self._loaded().feed.run()

    def _loaded(self) -> "Visits":
        if self._visits is None:
            from pykubelet.server.page.visits import Visits  # few agents are ever visited

            self._visits = Visits(self._shown, self._sessions, self._usage, self.auth)
            self._is_visited.set()
        return self._visits

    def _own_names(self) -> tuple[str, ...]:
        node = self._shown.node()
        addresses = node.status.addresses if node else ()
        return (self._shown.inside.node_name, *(each.address for each in addresses))


def _fingerprint(certificate: x509.Certificate) -> str:
    """As browsers show it."""
    return hashlib.sha256(certificate.public_bytes(Encoding.DER)).digest().hex(":").upper()
