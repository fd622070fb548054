"""The page over HTTP: who gets in, by what, to what; and what every answer says to a browser."""

import asyncio
import json
import re
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from kit.kubelet_server import Inside
from kit.moments import AT
from kit.pods import make_pod
from kit.waiting import eventually
from pykubelet.base.errors import Retry
from pykubelet.base.journal import About, Noted
from pykubelet.base.tasks import supervise
from pykubelet.pod import moments as m
from pykubelet.pod.journal_rule import rule
from pykubelet.pod.ports.server import Decision, Identity
from pykubelet.pod.story.diagnosis import NodeTrouble
from pykubelet.server.application import Route, application
from pykubelet.server.explainer import Explainer
from pykubelet.server.page import visits
from pykubelet.server.page.page import Page, Shown
from pykubelet.server.page.page_auth import LOCAL
from pykubelet.web.serving import serving

HTML = {"Accept": "text/html"}
ANNA = Identity(name="anna")
RIVAL = Identity(name=LOCAL.name, groups=LOCAL.groups)
"""Somebody whom the API server knows by the name that people of the machine have here."""


class Auth:
    """The API server knows two, by bearer tokens, and lets them see the page and nothing else."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.is_withdrawn = False
        self.is_away = False
        self.is_all = False
        """They may do everything."""

    async def identify(self, request: web.Request) -> Identity | None:
        token = request.headers.get("Authorization", "").removeprefix("Bearer ")
        if token:
            self.asked.append(token)
        return {"annas": ANNA, "rivals": RIVAL}.get(token)

    async def check(self, identity: Identity, method: str, path: str) -> Decision:
        if self.is_away:
            raise Retry("the API server does not answer")
        allowed = self.is_all or (path.startswith("/page") and not self.is_withdrawn)
        return Decision(allowed=allowed, reason="no")


class Served:
    def __init__(self, session: aiohttp.ClientSession, port: int, page: Page, auth: Auth, journal: m.Journal) -> None:
        self.session = session
        self.port = port
        self.page = page
        self.auth = auth
        self.journal = journal
        self.cookie: dict[str, str] = {}
        self.key = ""

    async def get(self, path: str, *, method: str = "GET", **headers: str) -> tuple[int, str]:
        made = {name.replace("_", "-"): value for name, value in headers.items()}
        async with self.session.request(method, path, headers=made, allow_redirects=False) as answer:
            return answer.status, await answer.text()

    def token(self) -> str:
        url: str = self.page.invitation("0.0.0.0", self.port, ())["url"]
        assert url.startswith(f"https://127.0.0.1:{self.port}/page/enter?token=")
        return url.partition("token=")[2]

    async def enter(self, link: str = "") -> dict[str, str]:
        """-> the headers that a browser sends from then on"""
        async with self.session.get(link or f"/page/enter?token={self.token()}") as answer:
            text = await answer.text()
            assert answer.status == 200, text
            (set_cookie,) = answer.headers.getall("Set-Cookie")
        cookie, *flags = set_cookie.split("; ")
        assert {"HttpOnly", "Secure", "SameSite=Strict", "Path=/"} <= set(flags)
        assert cookie.startswith(f"__Host-pykubelet-{self.port}=")
        assert "Domain" not in set_cookie
        found = re.search(r'name="key" content="([^"]+)"', text)
        assert found is not None
        return {"Cookie": cookie, "Authorization": f"Bearer {found[1]}"}


@asynccontextmanager
async def served(on_disk: Sequence[m.Noted] = ()) -> AsyncIterator[Served]:
    journal, auth = m.Journal(rule), Auth()
    inside = Inside(make_pod("web", uid="u1", phase="Running"))

    async def history(*, name: str = "", uid: str = "", **_: object) -> list[m.Noted]:
        return [each for each in on_disk if each.about.uid == uid or each.about.name == name]

    explainer = Explainer(inside.pods, journal.of, history, NodeTrouble, "/nowhere", node="n1")
    shown = Shown(
        inside=inside,
        explainer=explainer,
        journal=journal,
        picture=lambda: None,
        node=lambda: None,
        trouble=NodeTrouble,
        stats=None,
        version="1.2.3",
    )
    page = Page(shown, auth, lambda: None)

    async def told(_: web.Request) -> web.Response:
        return web.Response(text="all of it")

    others = [Route("GET", place, told) for place in ("/containerLogs/{rest:.*}", "/exec/{rest:.*}", "/pods")]
    others += [Route("POST", place, told) for place in ("/run/{rest:.*}", "/checkpoint/{rest:.*}")]
    app = application((*page.routes(), *others), page.auth)
    page.attend(app)
    async with AsyncExitStack() as stack:
        port = await stack.enter_async_context(serving(app, "127.0.0.1", 0))
        jar = aiohttp.DummyCookieJar()
        session = aiohttp.ClientSession(f"http://127.0.0.1:{port}", cookie_jar=jar)
        await stack.enter_async_context(session)
        running = [asyncio.create_task(supervise(name, work)) for name, work in page.parts().items()]
        try:
            yield Served(session, port, page, auth, journal)
        finally:
            for task in running:
                task.cancel()


async def test_nobody_gets_anything() -> None:
    async with served() as server:
        for path in ("/page", "/page/", "/page/state", "/page/stream", "/page/files/main.js", "/page/pods/default/web"):
            status, text = await server.get(path)
            assert status == 401, path
            assert "web" not in text
        status, text = await server.get("/page/", **HTML)
        assert status == 401
        assert "pykubelet page" in text, "who opens it in a browser is told how to get in"


async def test_a_token_lets_one_browser_in_once() -> None:
    async with served() as server:
        mine = await server.enter()
        assert (await server.get("/page/", **mine))[0] == 200
        status, text = await server.get("/page/state", **mine)
        assert status == 200
        assert [pod["name"] for pod in json.loads(text)["pods"]] == ["web"]
        assert json.loads(text)["node"]["version"] == "1.2.3"
        token = server.token()
        assert (await server.get(f"/page/enter?token={token}"))[0] == 200
        status, text = await server.get(f"/page/enter?token={token}")
        assert status == 403
        assert "pykubelet page" in text
        assert "Set-Cookie" not in text


async def test_a_guessed_token_lets_nobody_in() -> None:
    async with served() as server:
        server.token()
        for guess in ("", "x", "0" * 43, "%00", "..%2f"):
            async with server.session.get(f"/page/enter?token={guess}") as answer:
                assert answer.status == 403
                assert "Set-Cookie" not in answer.headers


async def test_a_cookie_alone_shows_files_and_nothing_of_pods() -> None:
    """Browsers send it to every port of the host, where a pod may listen."""
    async with served() as server:
        cookie = (await server.enter())["Cookie"]
        assert (await server.get("/page/", Cookie=cookie))[0] == 200
        for path in ("/page/state", "/page/stream", "/page/pods/default/web", "/page/usage", "/page/events"):
            assert (await server.get(path, Cookie=cookie))[0] == 401, path
        for path in ("/containerLogs/default/web/c", "/exec/default/web/c?command=sh"):
            assert (await server.get(path, Cookie=cookie))[0] == 401, path


async def test_a_key_alone_is_worth_nothing_and_is_shown_to_nobody() -> None:
    async with served() as server:
        key = (await server.enter())["Authorization"]
        assert (await server.get("/page/state", Authorization=key))[0] == 401
        assert server.auth.asked == [], "the API server need not know it"


async def test_a_session_is_for_the_page_alone() -> None:
    async with served() as server:
        mine = await server.enter()
        assert await server.get("/containerLogs/default/web/c", **mine) == (200, "all of it")
        assert await server.get("/exec/default/web/c", **mine) == (200, "all of it")
        for path, method in (("/pods", "GET"), ("/run/default/web/c", "POST"), ("/checkpoint/default/web/c", "POST")):
            status, text = await server.get(path, method=method, **mine)
            assert status == 403
            assert "for the page alone" in text


async def test_who_is_known_to_the_api_server_gets_in_by_its_word() -> None:
    async with served() as server:
        assert (await server.get("/page/state", Authorization="Bearer annas"))[0] == 200
        assert (await server.get("/containerLogs/default/web/c", Authorization="Bearer annas"))[0] == 403
        assert (await server.get("/page/state", Authorization="Bearer nobodys"))[0] == 401


async def test_a_name_does_not_make_anybody_local() -> None:
    async with served() as server:
        assert (await server.get("/containerLogs/default/web/c", Authorization="Bearer rivals"))[0] == 403


async def test_a_bearer_token_can_be_exchanged_for_a_link_with_the_same_rights() -> None:
    async with served() as server:
        status, text = await server.get("/page/enter", method="POST", Authorization="Bearer annas")
        assert status == 200
        async with server.session.get(json.loads(text)["path"]) as answer:
            cookie = answer.headers["Set-Cookie"].partition(";")[0]
            found = re.search(r'name="key" content="([^"]+)"', await answer.text())
            assert found is not None
        mine = {"Cookie": cookie, "Authorization": f"Bearer {found[1]}"}
        assert (await server.get("/page/state", **mine))[0] == 200
        assert (await server.get("/containerLogs/default/web/c", **mine))[0] == 403
        again = await server.get("/page/enter", method="POST", **mine)
        assert again[0] == 403, "who was let in for an hour could stay for ever"
        server.auth.is_withdrawn = True
        assert (await server.get("/page/state", **mine))[0] == 403


async def test_a_session_of_who_may_do_everything_is_still_for_the_page_alone() -> None:
    async with served() as server:
        server.auth.is_all = True
        elsewhere = (("/pods", "GET"), ("/run/default/web/c", "POST"), ("/checkpoint/default/web/c", "POST"))
        _, text = await server.get("/page/enter", method="POST", Authorization="Bearer annas")
        mine = await server.enter(json.loads(text)["path"])
        assert await server.get("/containerLogs/default/web/c", **mine) == (200, "all of it")
        for path, method in elsewhere:
            status, text = await server.get(path, method=method, **mine)
            assert (status, "for the page alone" in text) == (403, True), path
        assert (await server.get("/run/default/web/c", method="POST", Authorization="Bearer annas"))[0] == 200


async def test_a_session_cannot_make_another() -> None:
    async with served() as server:
        assert (await server.get("/page/enter", method="POST", **await server.enter()))[0] == 403


async def test_who_leaves_is_out() -> None:
    async with served() as server:
        mine = await server.enter()
        assert (await server.get("/page/leave", method="POST", **mine))[0] == 204
        assert (await server.get("/page/state", **mine))[0] == 401


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://127.0.0.1:1"])
async def test_pages_of_others_get_nothing(origin: str) -> None:
    async with served() as server:
        mine = await server.enter()
        assert (await server.get("/page/state", Origin=origin, **mine))[0] == 401
        status, _ = await server.get("/page/leave", method="POST", Origin=origin, **mine)
        assert status in (401, 403)
        upgrade = {"Connection": "Upgrade", "Upgrade": "websocket"}
        assert (await server.get("/exec/default/web/c", Origin=origin, **upgrade, **mine))[0] in (401, 403)
        assert (await server.get("/page/state", Origin=f"http://127.0.0.1:{server.port}", **mine))[0] == 200


async def test_a_name_that_was_pointed_here_is_refused() -> None:
    async with served() as server:
        mine = await server.enter()
        for path in ("/page/", "/page/state", "/page/enter?token=x"):
            assert (await server.get(path, Host=f"evil.example:{server.port}", **mine))[0] == 421
        assert (await server.get("/page/state", Host="n1:10250", **mine))[0] == 200


async def test_every_answer_tells_browsers_to_be_strict() -> None:
    async with served() as server:
        mine = await server.enter()
        for path, headers in (("/page/", mine), ("/page/state", mine), ("/page/", {}), ("/page/enter", {})):
            async with server.session.get(path, headers=headers) as answer:
                policy = answer.headers["Content-Security-Policy"]
                assert "default-src 'none'" in policy
                assert "unsafe" not in policy
                assert "frame-ancestors 'none'" in policy
                assert answer.headers["X-Content-Type-Options"] == "nosniff"
                assert answer.headers["X-Frame-Options"] == "DENY"
                assert answer.headers["Referrer-Policy"] == "no-referrer"
                assert "no-store" in answer.headers["Cache-Control"] or path == "/page/"
        async with server.session.get("/pods", headers=mine) as answer:
            assert "Content-Security-Policy" not in answer.headers


async def test_files_outside_of_the_page_are_not_served() -> None:
    async with served() as server:
        mine = await server.enter()
        for name in ("..%2fvisits.py", "%2e%2e/visits.py", "..%2f..%2f..%2fapi%2fcodec.py", "none.js", ""):
            assert (await server.get(f"/page/files/{name}", **mine))[0] in (403, 404), name


async def test_a_file_is_sent_once() -> None:
    async with served() as server:
        mine = await server.enter()
        async with server.session.get("/page/", headers=mine) as answer:
            tag = answer.headers["ETag"]
        assert (await server.get("/page/", If_None_Match=tag, **mine))[0] == 304


async def test_the_stream_tells_what_happens() -> None:
    async with served() as server:
        mine = await server.enter()
        async with server.session.get("/page/stream", headers=mine) as answer:
            assert answer.headers["Content-Type"].startswith("text/event-stream")
            name, whole = await _event(answer)
            assert name == "state"
            assert [pod["name"] for pod in whole["pods"]] == ["web"]
            server.page._shown.inside.known = ()  # type: ignore[attr-defined]
            server.journal.note(m.PodDeleted(), About("u1", "default", "web"))
            name, change = await _event(answer)
            assert (name, change["gone"]) == ("change", ["u1"])


async def test_the_stream_ends_with_its_session(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(visits, "_LOOK_AGAIN", 0.1)
    async with served() as server:
        mine = await server.enter()
        async with server.session.get("/page/stream", headers=mine) as answer:
            assert (await _event(answer))[0] == "state"
            assert (await server.get("/page/leave", method="POST", **mine))[0] == 204
            async with asyncio.timeout(10):
                assert (await answer.content.read()).endswith(b"event: end\ndata: {}\n\n")


async def test_the_stream_ends_when_a_right_is_taken_back_or_nobody_can_say(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(visits, "_LOOK_AGAIN", 0.1)
    anna = {"Authorization": "Bearer annas"}
    for trouble in ("is_withdrawn", "is_away"):
        async with served() as server, server.session.get("/page/stream", headers=anna) as answer:
            assert (await _event(answer))[0] == "state"
            setattr(server.auth, trouble, True)
            async with asyncio.timeout(10):
                assert (await answer.content.read()).endswith(b"event: end\ndata: {}\n\n")


async def test_who_does_not_say_whom_he_means_gets_nothing() -> None:
    """And the name service is not asked who we are."""
    async with served() as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(b"GET /page/ HTTP/1.0\r\n\r\n")
        async with asyncio.timeout(10):
            assert b" 421 " in await reader.readline()
        writer.close()
        await writer.wait_closed()


async def test_more_pages_than_a_few_are_refused() -> None:
    async with served() as server, AsyncExitStack() as stack:
        mine = await server.enter()
        for _ in range(32):
            await stack.enter_async_context(server.session.get("/page/stream", headers=mine))
        status, text = await server.get("/page/stream", **mine)
        assert status == 429
        assert "too many pages" in text


async def test_who_takes_nothing_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is sent to him fills his buffers, and ours, which are small, and then his time runs."""
    monkeypatch.setattr(visits, "_STALLED", 0.2)
    crowd = tuple(make_pod(f"pod-{number}", image="x" * 2000) for number in range(3000))
    async with served() as server:
        mine = await server.enter()
        server.page._shown.inside.known = crowd  # type: ignore[attr-defined]
        deaf = socket.socket()
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        deaf.setblocking(False)
        loop = asyncio.get_running_loop()
        await loop.sock_connect(deaf, ("127.0.0.1", server.port))
        head = "".join(f"{name}: {value}\r\n" for name, value in mine.items())
        await loop.sock_sendall(deaf, f"GET /page/stream HTTP/1.1\r\nHost: 127.0.0.1\r\n{head}\r\n".encode())
        feed = server.page._loaded().feed
        await eventually(lambda: len(feed._listeners) == 1)
        await eventually(lambda: len(feed._listeners) == 0)
        heard = 0
        with deaf, suppress(ConnectionError):
            while data := await loop.sock_recv(deaf, 1 << 20):
                heard += len(data)
        assert heard < 6_000_000, "he was not told all of it"


async def test_a_pod_tells_all_that_is_known_of_it() -> None:
    async with served() as server:
        mine = await server.enter()
        server.journal.note(m.EventRecorded("Warning", "Failed", "<script>"), About("u1", "default", "web"))
        status, text = await server.get("/page/pods/default/web", **mine)
        details = json.loads(text)
        assert status == 200
        assert details["story"]["name"] == details["pod"]["name"] == "web"
        assert [(each["reason"], each["message"]) for each in details["events"]] == [("Failed", "<script>")]
        assert (await server.get("/page/pods/default/nobody", **mine))[0] == 404


async def test_a_pod_that_is_gone_for_long_is_shown_from_disk() -> None:
    noted: m.Noted = Noted(AT, About("u0", "default", "old"), m.EventRecorded("Warning", "Failed", "no such image"))
    async with served([noted]) as server:
        status, text = await server.get("/page/pods/default/old", **await server.enter())
        details = json.loads(text)
        assert (status, details["story"]["state"], details["pod"]) == (200, "Gone", None)
        assert [each["message"] for each in details["events"]] == ["no such image"]


async def _event(answer: aiohttp.ClientResponse) -> tuple[str, dict[str, Any]]:
    async with asyncio.timeout(10):
        text = b""
        while not text.endswith(b"\n\n"):
            text += await answer.content.readline()
    event, data = text.decode().strip().split("\n")
    return event.removeprefix("event: "), json.loads(data.removeprefix("data: "))
