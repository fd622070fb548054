"""What the page is made of: its files, the way in, the stream of what changes, and what is asked for besides."""

import asyncio
import hashlib
import mimetypes
from collections.abc import Mapping
from functools import cache
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from aiohttp import web
from msgspec import Struct

from pykubelet.api import codec
from pykubelet.base.errors import NotFound, PykubeletError, Retry
from pykubelet.server.application import ASKING, plain
from pykubelet.server.page.feed import Feed, Listener
from pykubelet.server.page.node_state import (
    NodeRow,
    NodeState,
    PodDetails,
    event_rows,
    node_row,
    pod_row,
    probe_rows,
)
from pykubelet.server.page.page_auth import LOCAL, PageAuth, cookie_name, is_by_key, own_port
from pykubelet.server.page.sessions import TOKEN_SECONDS, Sessions
from pykubelet.server.page.usage import NODE, UsageHistory
from pykubelet.web.guests import turned_down

if TYPE_CHECKING:
    from pykubelet.server.page.page import Shown

_FOLDER: Final = Path(__file__).parent / "static"
_STALLED: Final = 10.0
"""Seconds for which somebody may take nothing of what is sent to him."""
_LOOK_AGAIN: Final = 15.0
"""Seconds after which it is looked whether a listener is still there, and still may listen."""
_EXCHANGED: Final = 3600.0
"""Seconds for which a session lasts that was had for a credential of the API server."""


class _File(Struct, frozen=True):
    body: bytes
    kind: str
    tag: str


class Visits:
    def __init__(self, shown: "Shown", sessions: Sessions, usage: UsageHistory, auth: PageAuth) -> None:
        self._shown = shown
        self._sessions = sessions
        self._usage = usage
        self._auth = auth
        self.feed = Feed(shown.inside.pods, shown.explainer.told, self._node, shown.picture, usage)
        shown.journal.read_by(self.feed.read)

    async def serve(self, request: web.Request) -> web.StreamResponse:
        match request.method, *request.path.removeprefix("/page").split("/")[1:]:
            case ("GET",):
                raise web.HTTPSeeOther("page/")
            case "GET", "":
                return _file(request, "index.html")
            case "GET", "files", name:
                return _file(request, name)
            case "GET", "enter":
                return self._enter(request)
            case "POST", "enter":
                return self._invite(request)
            case "POST", "leave":
                return self._leave(request)
            case "GET", "state":
                return _json(await self.state())
            case "GET", "stream":
                return await self._stream(request)
            case "GET", "pods", namespace, name:
                return _json(await self._details(namespace, name))
            case "GET", "usage", *uid:
                return _json(self._usage.of("/".join(uid) or NODE))
            case "GET", "events":
                return _json({"events": event_rows(self._shown.journal.of(""))})
            case _:
                raise web.HTTPNotFound

    def stranger(self) -> web.Response:
        return _told(
            401,
            "You are not signed in here",
            "A link that lets you in is printed by <code>pykubelet page</code> on the machine, for the user that the "
            "agent runs as. Sessions end after an hour without use, and with the agent.",
        )

    async def state(self) -> NodeState:
        self._usage.look_on()
        return await self.feed.state()

    def _node(self) -> NodeRow:
        shown = self._shown
        return node_row(shown.node(), shown.inside.node_name, shown.trouble(), shown.version)

    # --- coming and going

    def _enter(self, request: web.Request) -> web.Response:
        entry = self._sessions.enter(request.query.get("token", ""))
        if entry is None:
            turned_down(request)
            return _told(
                403,
                "This link does not let anybody in",
                f"Each works once, and within {TOKEN_SECONDS / 60:.0f} minutes. <code>pykubelet page</code> on the "
                "machine prints another.",
            )
        text = _document(
            "One moment",
            f'<meta name="key" content="{escape(entry.key)}"><script type="module" src="files/enter.js"></script>',
            "<p>One moment …</p><noscript><p>The page needs JavaScript.</p></noscript>",
        )
        answer = web.Response(text=text, content_type="text/html")
        name = cookie_name(own_port(request))
        answer.set_cookie(name, entry.cookie, path="/", secure=True, httponly=True, samesite="Strict")
        return answer

    def _invite(self, request: web.Request) -> web.Response:
        """For who has a credential of the API server that a browser cannot send."""
        identity = request[ASKING]
        if identity is LOCAL or is_by_key(request):  # else it would never end
            return plain(403, "a session cannot be had for a session: ask `pykubelet page` on the machine\n")
        token = self._sessions.invite(identity, lasts=_EXCHANGED)
        return _json({"path": f"/page/enter?token={token}", "seconds": TOKEN_SECONDS})

    def _leave(self, request: web.Request) -> web.Response:
        name = cookie_name(own_port(request))
        self._sessions.leave(request.cookies.get(name, ""))
        answer = web.Response(status=204)
        answer.del_cookie(name, path="/", secure=True, httponly=True, samesite="Strict")
        return answer

    # --- what is shown

    async def _details(self, namespace: str, name: str) -> PodDetails:
        shown = self._shown
        story = await shown.explainer.one(namespace, name, None)
        pod = shown.inside.find_pod(namespace, name)
        moments = await shown.explainer.moments(story.uid)
        return PodDetails(
            story=story,
            pod=pod_row(pod, story) if pod else None,
            events=event_rows(moments),
            probes=probe_rows(pod, moments) if pod else (),
        )

    async def _stream(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream", "X-Accel-Buffering": "no"})
        try:
            with self.feed.listen(request[ASKING].name) as listener:
                await self._send(request, response, listener)
        except Retry as error:
            return web.Response(status=429, text=f"{error}\n", headers={"Retry-After": "5"})
        except ConnectionError:
            pass  # who has gone needs no more
        return response

    async def _send(self, request: web.Request, response: web.StreamResponse, listener: Listener) -> None:
        """Until he goes, is cut off, or may listen no longer."""
        transport = request.transport
        if transport is not None:
            listener.on_cut_off = transport.abort
        await response.prepare(request)
        await self.feed.greet(listener)
        loop = asyncio.get_running_loop()
        due = loop.time() + _LOOK_AGAIN
        while True:
            try:
                async with asyncio.timeout_at(due):
                    message = await listener.messages.get()
            except TimeoutError:
                message = b": nothing new\n\n"
            if loop.time() >= due:
                if not await self._may_listen(request):
                    await response.write(b"event: end\ndata: {}\n\n")
                    return
                due = loop.time() + _LOOK_AGAIN
            try:
                async with asyncio.timeout(_STALLED):
                    await response.write(message)
            except TimeoutError:
                if transport is not None:
                    transport.abort()
                return

    async def _may_listen(self, request: web.Request) -> bool:
        """Sessions end, and rights are taken back. While nobody can say, he may not."""
        try:
            identity = await self._auth.identify(request)
            return identity is not None and (await self._auth.check(identity, request.method, request.path)).allowed
        except PykubeletError:
            return False


def _json(value: Any) -> web.Response:
    return web.Response(body=codec.encode(value), content_type="application/json")


# --- files


@cache
def _files() -> Mapping[str, _File]:
    found = {}
    for path in _FOLDER.iterdir():
        body = path.read_bytes()
        kind = "text/javascript" if path.suffix == ".js" else mimetypes.guess_type(path.name)[0] or "text/plain"
        found[path.name] = _File(body, kind, f'"{hashlib.sha256(body).hexdigest()[:20]}"')
    return found


def _file(request: web.Request, name: str) -> web.Response:
    file = _files().get(name)
    if file is None:
        raise NotFound(f"the page has no file {name!r}")
    headers = {"ETag": file.tag, "Cache-Control": "private, no-cache"}
    if request.headers.get("If-None-Match") == file.tag:
        return web.Response(status=304, headers=headers)
    is_text = file.kind.startswith("text/") or file.kind.endswith("+xml")
    return web.Response(body=file.body, content_type=file.kind, charset="utf-8" if is_text else None, headers=headers)


def _told(status: int, title: str, text: str) -> web.Response:
    """For who sees nothing else, files included."""
    body = _document(title, "", f"<h1>{title}</h1><p>{text}</p>")
    return web.Response(status=status, text=body, content_type="text/html")


def _document(title: str, head: str, body: str) -> str:
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta name="color-scheme" content="light dark"><title>{title} · pykubelet</title>{head}</head>'
        f"<body><main>{body}</main></body></html>"
    )
