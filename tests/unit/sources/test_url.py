import asyncio
import gzip
import json
import logging
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from itertools import pairwise

import pytest
from aiohttp import web
from multidict import CIMultiDictProxy

from contract.pod_source import Following, following
from kit.loopback import serving
from kit.virtual_time import virtual_time
from pykubelet.base.errors import Invalid
from pykubelet.pod.lifecycle.pod_update import Listed
from pykubelet.sources import url
from pykubelet.sources.url import UrlSource

Answer = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


def manifest(name: str = "web", image: str = "nginx:1") -> str:
    spec = f"{{containers: [{{name: c, image: '{image}'}}]}}"
    return f"apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\nspec: {spec}\n"


class Site:
    """A server that answers as it is told, again and again, and remembers what it was asked and when."""

    def __init__(self) -> None:
        self.port = 0
        self.answer: Answer = says(manifest())
        self.times: list[float] = []
        self.headers: list[CIMultiDictProxy[str]] = []
        self.paths: list[str] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/pods"

    @property
    def pauses(self) -> list[float]:
        """Between the requests. The HTTP client asks once more at once when a connection that it had kept is closed."""
        return [after - before for before, after in pairwise(self.times) if after > before]

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        self.times.append(asyncio.get_running_loop().time())
        self.headers.append(request.headers)
        self.paths.append(request.raw_path if isinstance(request, web.Request) else str(request.rel_url))
        return await self.answer(request)

    def forget(self) -> None:
        self.times.clear()
        self.headers.clear()
        self.paths.clear()


def says(body: str | bytes, *, status: int = 200, reason: str | None = None, **headers: str) -> Answer:
    fields = {name.replace("_", "-"): value for name, value in headers.items()}

    async def answer(_: web.BaseRequest) -> web.StreamResponse:
        data = body if isinstance(body, bytes) else body.encode()
        return web.Response(body=data, status=status, reason=reason, headers=fields)

    return answer


def redirects(to: str, status: int = 302) -> Answer:
    return says("elsewhere", status=status, Location=to)


async def hangs_up(request: web.BaseRequest) -> web.StreamResponse:
    assert request.transport is not None
    request.transport.abort()
    return web.Response()


async def never(_: web.BaseRequest) -> web.StreamResponse:
    await asyncio.sleep(1e6)
    raise AssertionError


async def drips(request: web.BaseRequest) -> web.StreamResponse:
    response = web.StreamResponse()
    await response.prepare(request)
    for letter in manifest():
        await response.write(letter.encode())
        await asyncio.sleep(1)
    return response


async def floods(request: web.BaseRequest) -> web.StreamResponse:
    response = web.StreamResponse()
    await response.prepare(request)
    for _ in range(200):
        await response.write(b"#" * (1 << 16))
    return response


async def breaks_off(request: web.BaseRequest) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Length": "1000"})
    await response.prepare(request)
    await response.write(manifest().encode())
    assert request.transport is not None
    request.transport.close()
    return response


def garbled(data: bytes) -> Answer:
    """Bytes of our own instead of an HTTP answer."""

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        transport = request.transport
        assert isinstance(transport, asyncio.Transport)
        transport.write(data)
        transport.close()
        return web.Response()

    return answer


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "*")


@asynccontextmanager
async def site() -> AsyncIterator[Site]:
    here = Site()
    async with serving(here.handle) as here.port:
        yield here


@asynccontextmanager
async def followed(
    *, address: str = "", headers: Mapping[str, Sequence[str]] | None = None, period: float = 20.0
) -> AsyncIterator[tuple[Site, Following]]:
    """A source of a site that has a pod, and whose first word has been heard."""
    async with site() as here:
        source = UrlSource(address.replace("PORT", str(here.port)) or here.url, "n1", headers=headers, period=period)
        async with following(source) as view:
            await view.next()
            assert view.images == {"web": "nginx:1"}
            yield here, view


# --- what is asked and answered


POD = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}}
SPEC = {"containers": [{"name": "c", "image": "i"}]}
LIST = "apiVersion: v1\nkind: PodList\nitems:\n- metadata: {name: web}\n  spec: {containers: [{name: c, image: i}]}\n"


@pytest.mark.parametrize(
    ("body", "images"),
    [
        (manifest(), {"web": "nginx:1"}),
        (json.dumps({**POD, "spec": SPEC}), {"web": "i"}),
        (f"{manifest()}---\n{manifest('db', 'redis')}", {"web": "nginx:1", "db": "redis"}),
        (LIST, {"web": "i"}),
        (json.dumps({"apiVersion": "v1", "kind": "PodList", "items": []}), {}),
    ],
    ids=["YAML", "JSON", "documents", "PodList", "empty PodList"],
)
@virtual_time
async def test_pods_come_as_yaml_or_json_alone_or_in_lists(body: str, images: dict[str, str]) -> None:
    async with site() as here:
        here.answer = says(body)
        async with following(UrlSource(here.url, "n1")) as view:
            assert isinstance(await view.next(within=1), Listed)
            assert view.images == images


@pytest.mark.parametrize("content_type", ["text/html", "application/octet-stream", "text/plain; charset=utf-16"])
@virtual_time
async def test_what_the_server_calls_its_answer_does_not_matter(content_type: str) -> None:
    async with site() as here:
        here.answer = says(manifest(), Content_Type=content_type)
        async with following(UrlSource(here.url, "n1")) as view:
            await view.next(within=1)
            assert view.images == {"web": "nginx:1"}


@virtual_time
async def test_the_url_is_asked_once_a_period_and_only_changes_are_told() -> None:
    async with followed(period=30) as (here, view):
        await view.silence(100)
        assert here.times == pytest.approx([0, 30, 60, 90])
        here.answer = says(manifest(image="nginx:2"))
        await view.next(within=30)
        assert view.images == {"web": "nginx:2"}
        here.answer = says(f"# a remark\n{manifest(image='nginx:2')}")
        await view.silence(100)


@virtual_time
async def test_an_empty_list_takes_the_pods_away() -> None:
    async with followed() as (here, view):
        here.answer = says("apiVersion: v1\nkind: PodList\n")
        assert await view.next(within=21) == Listed(())


@virtual_time
async def test_the_configured_headers_are_sent_each_with_all_its_values() -> None:
    headers = {"Authorization": ("Bearer s3cret",), "X-Team": ("blue", "green")}
    async with followed(headers=headers) as (here, _):
        (sent,) = here.headers
        assert sent["Authorization"] == "Bearer s3cret"
        assert sent.getall("X-Team") == ["blue", "green"]


@virtual_time
async def test_user_and_password_of_the_url_are_sent_as_basic_authorization() -> None:
    async with followed(address="http://me:pw@127.0.0.1:PORT/pods?a=b%20c") as (here, _):
        assert here.headers[0]["Authorization"] == "Basic bWU6cHc="
        assert here.paths == ["/pods?a=b%20c"]


@virtual_time
async def test_cookies_are_not_kept() -> None:
    async with site() as here:
        here.answer = says(manifest(), Set_Cookie="a=b")
        async with following(UrlSource(here.url, "n1")):
            await asyncio.sleep(50)
        assert len(here.headers) == 3
        assert not any("Cookie" in sent for sent in here.headers)


@virtual_time
async def test_a_compressed_answer_is_read() -> None:
    async with site() as here:
        here.answer = says(gzip.compress(manifest().encode()), Content_Encoding="gzip")
        async with following(UrlSource(here.url, "n1")) as view:
            await view.next(within=1)
            assert view.images == {"web": "nginx:1"}


# --- not modified


@virtual_time
async def test_a_server_that_marks_its_answers_need_not_repeat_them() -> None:
    bodies = {'"v1"': manifest(), '"v2"': manifest(image="nginx:2")}
    current = '"v1"'

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        if request.headers.get("If-None-Match") == current:
            return web.Response(status=304, headers={"ETag": current})
        return web.Response(text=bodies[current], headers={"ETag": current})

    async with site() as here:
        here.answer = answer
        async with following(UrlSource(here.url, "n1")) as view:
            await view.next(within=1)
            await view.silence(50)
            assert [sent.get("If-None-Match") for sent in here.headers] == [None, '"v1"', '"v1"']
            current = '"v2"'
            await view.next(within=21)
            assert view.images == {"web": "nginx:2"}
            await view.silence(50)
            assert here.headers[-1]["If-None-Match"] == '"v2"'
            assert here.pauses == pytest.approx([20] * len(here.pauses))


@virtual_time
async def test_an_answer_without_a_mark_ends_the_marking() -> None:
    async with site() as here:
        here.answer = says(manifest(), ETag='"v1"')
        async with following(UrlSource(here.url, "n1")) as view:
            await view.next(within=1)
            here.answer = says(manifest(image="nginx:2"))
            await view.next(within=21)
            await asyncio.sleep(21)
            assert [sent.get("If-None-Match") for sent in here.headers] == [None, '"v1"', None]


@virtual_time
async def test_not_modified_to_who_did_not_ask_for_it_is_a_failure() -> None:
    async with site() as here:
        here.answer = says("", status=304)
        async with following(UrlSource(here.url, "n1")) as view:
            await view.silence(100)


@virtual_time
async def test_a_bad_answer_that_is_not_modified_is_still_bad() -> None:
    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        if request.headers.get("If-None-Match") == '"bad"':
            return web.Response(status=304)
        return web.Response(text="kind: Nonsense", headers={"ETag": '"bad"'})

    async with followed() as (here, view):
        here.answer = answer
        await view.silence(1000)
        assert view.images == {"web": "nginx:1"}


# --- an empty answer


@virtual_time
async def test_an_empty_answer_keeps_the_pods() -> None:
    async with followed() as (here, view):
        here.answer = says("")
        await view.silence(1000)


@virtual_time
async def test_a_first_empty_answer_makes_the_source_ready() -> None:
    async with site() as here:
        here.answer = says("")
        async with following(UrlSource(here.url, "n1")) as view:
            assert await view.next(within=1) == Listed(())
            await view.silence(100)
            here.answer = says(manifest())
            await view.next(within=300)
            assert view.images == {"web": "nginx:1"}


@virtual_time
async def test_an_empty_answer_to_a_new_watch_keeps_the_pods_of_the_last() -> None:
    async with site() as here:
        source = UrlSource(here.url, "n1")
        async with following(source) as view:
            first = await view.next(within=1)
        here.answer = says("")
        async with following(source) as view:
            assert await view.next(within=1) == first


# --- failures


FAILURES: dict[str, Answer] = {
    "500": says("oops", status=500),
    "404": says("what?", status=404),
    "204": says("", status=204),
    "401": says("who?", status=401, WWW_Authenticate="Basic"),
    "redirect to nowhere": says("", status=302),
    "hangs up": hangs_up,
    "never answers": never,
    "drips": drips,
    "breaks off": breaks_off,
    "not HTTP": garbled(b"SSH-2.0-OpenSSH_9.6\r\n"),
    "half a head": garbled(b"HTTP/1.1 200 OK\r\nContent-"),
    "long head": garbled(b"HTTP/1.1 200 OK\r\nX: " + b"x" * 100_000 + b"\r\n\r\n"),
    "wrong encoding": says(manifest(), Content_Encoding="gzip"),
    "endless": floods,
    "too large": says(b"#" * ((10 << 20) + 1)),
    "too large when unpacked": says(gzip.compress(bytes(50_000_000)), Content_Encoding="gzip"),
}


@pytest.mark.parametrize("answer", FAILURES.values(), ids=FAILURES)
@virtual_time
async def test_a_failure_takes_no_pod_away_and_is_tried_again_after_growing_pauses(
    answer: Answer, caplog: pytest.LogCaptureFixture
) -> None:
    async with followed() as (here, view):
        here.answer = answer
        await view.silence(1000)
        assert view.images == {"web": "nginx:1"}
        first, *pauses = here.pauses
        assert first == pytest.approx(20)
        took = 10 if answer in (never, drips) else 0
        late = 1 if took else 0  # the HTTP client rounds a time limit up to a whole second
        for pause, least, most in zip(pauses, (20, 40, 80, 160, 272), (22, 44, 88, 176, 300), strict=False):
            assert least <= pause - took <= most + late
        assert len(pauses) >= 4

        here.forget()
        here.answer = says(manifest(image="nginx:2"))
        await view.next(within=300 + took + late)  # a try may just have begun, and the longest pause comes after it
        assert view.images == {"web": "nginx:2"}
        await view.silence(50)
        assert here.pauses == pytest.approx([20, 20])

        here.forget()
        here.answer = answer
        await view.silence(100)
        assert 20 <= here.pauses[0] - took <= 22 + late  # it works again, so it is asked soon again
    assert not [record for record in caplog.records if record.exc_info]


@virtual_time
async def test_a_server_that_is_not_there_is_asked_again_after_growing_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    loop = asyncio.get_running_loop()
    times: list[float] = []
    monkeypatch.setattr(url.log, "log", lambda *_: times.append(loop.time()))
    async with following(UrlSource(f"http://127.0.0.1:{port}/", "n1")) as view:
        await view.silence(500)
    pauses = [after - before for before, after in pairwise(times)]
    assert len(pauses) == 4
    for pause, least in zip(pauses, (20, 40, 80, 160), strict=True):
        assert least <= pause <= 1.1 * least


@virtual_time
async def test_the_pauses_grow_up_to_five_minutes_or_the_period() -> None:
    for period, longest, seconds in ((20, 300, 3000), (1000, 1000, 8000)):
        async with site() as here:
            here.answer = says("", status=500)
            async with following(UrlSource(here.url, "n1", period=period)) as view:
                await view.silence(seconds)
            assert max(here.pauses) <= longest
            assert min(here.pauses[5:]) >= longest / 1.1


@pytest.mark.parametrize("body", ["{", "<html>", "kind: Service", "\0", manifest("Bad_Name"), "[]"])
@virtual_time
async def test_a_bad_manifest_takes_no_pod_away_and_is_told_once(body: str, caplog: pytest.LogCaptureFixture) -> None:
    async with followed() as (here, view):
        here.answer = says(body)
        await view.silence(1000)
        (record,) = caplog.records
        assert record.levelno == logging.ERROR
        assert record.getMessage().startswith(f"http://127.0.0.1:{here.port}/pods:")
        here.answer = says(manifest(image="nginx:2"))
        await view.next(within=21)
        assert view.images == {"web": "nginx:2"}


@virtual_time
async def test_a_long_failure_is_told_three_times_and_its_end_once(caplog: pytest.LogCaptureFixture) -> None:
    async with followed() as (here, view):
        here.answer = says("", status=503, reason="Out For Lunch")
        await view.silence(5000)
        here.answer = says(manifest())
        await view.silence(1000)
        place = here.url
        failed = f"{place}: answered 503 Out For Lunch"
        told = [record.getMessage() for record in caplog.records if record.levelno > logging.DEBUG]
        silent = f"{place}: still failing; no further word of it until it works again"
        assert [text for text in told if text.startswith(place)] == [failed] * 3 + [silent]


@virtual_time
async def test_that_it_works_again_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="pykubelet")
    async with followed() as (here, view):
        here.answer = says("", status=503)
        await view.silence(100)
        here.answer = says(manifest())
        await view.silence(1000)
        assert [record.getMessage() for record in caplog.records].count(f"{here.url}: works again") == 1


# --- redirects


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@virtual_time
async def test_redirects_are_followed(status: int) -> None:
    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        here = str(request.rel_url)
        return await (says(manifest()) if here == "/new?x=1" else redirects("/new?x=1", status))(request)

    async with site() as there:
        there.answer = answer
        async with following(UrlSource(there.url, "n1", headers={"X-Key": ["s3cret"]})) as view:
            await view.next(within=1)
            assert view.images == {"web": "nginx:1"}
        assert there.paths == ["/pods", "/new?x=1"]
        assert [sent.get("X-Key") for sent in there.headers] == ["s3cret", "s3cret"]


@virtual_time
async def test_headers_and_passwords_are_not_sent_to_another_origin() -> None:
    async with site() as here, site() as there:
        here.answer = redirects(there.url)
        there.answer = says(manifest(), ETag='"theirs"')
        with_password = here.url.replace("//", "//me:pw@")
        headers = {"X-Key": ["s3cret"], "Cookie": ["session=1"]}
        async with following(UrlSource(with_password, "n1", headers=headers)) as view:
            await view.next(within=1)
            await view.silence(50)
        assert len(there.headers) == 3
        for sent in there.headers:
            assert not sent.keys() & {"X-Key", "Cookie", "Authorization", "If-None-Match", "Referer"}
            assert "s3cret" not in str(sent)
        assert all(sent["X-Key"] == "s3cret" for sent in here.headers)


@virtual_time
async def test_the_uid_of_a_pod_comes_from_the_url_that_was_configured() -> None:
    async with site() as here, site() as there:
        uids = []
        for answer in (says(manifest()), redirects(there.url)):
            here.answer = answer
            async with following(UrlSource(here.url, "n1")) as view:
                await view.next(within=1)
                uids += list(view.pods)
        assert uids[0] == uids[1]


@pytest.mark.parametrize("to", ["/pods", "", "ftp://example.com/", "file:///etc/passwd", "http://[::1", "//"])
@virtual_time
async def test_a_redirect_that_leads_nowhere_is_a_failure_like_any_other(
    to: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with followed() as (here, view):
        here.answer = redirects(to)
        await view.silence(1000)
        here.answer = says(manifest(image="nginx:2"))
        await view.next(within=300)
        assert view.images == {"web": "nginx:2"}
    assert caplog.records
    assert not [record for record in caplog.records if record.exc_info]


@virtual_time
async def test_a_redirect_loop_ends_after_ten_redirects(caplog: pytest.LogCaptureFixture) -> None:
    async with site() as here:
        here.answer = redirects("/pods")
        async with following(UrlSource(here.url, "n1")) as view:
            await view.silence(10)
        assert len(here.times) == 11
    assert caplog.records[0].getMessage() == f"{here.url}: redirects more than 10 times"


# --- secrets

SECRETS = ("u5er", "pa55", "t0ken", "he4der", "se%63ret", "secret")


def echoes(status: int) -> Answer:
    """A server that repeats what it was told wherever it can."""

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        told = f"{request.rel_url} {request.headers['X-Key']} {request.headers['Authorization']}"
        return web.Response(status=status, reason=told, text=told, headers={"X-Told": told})

    return answer


LEAKS: dict[str, Callable[[Site], Answer]] = {
    **{name: lambda _, answer=answer: answer for name, answer in FAILURES.items()},  # type: ignore[misc]
    "echo 500": lambda _: echoes(500),
    "echo 200": lambda _: echoes(200),
    "bad status line": lambda _: garbled(b"HTTP/1.1 t0ken=secret OK\r\n\r\n"),
    "redirect to itself": lambda here: redirects(f"http://u5er:pa55@127.0.0.1:{here.port}/pods?t0ken=secret"),
    "redirect to garbage": lambda here: redirects(f"http://u5er:pa55@127.0.0.1:{here.port}x/pods?t0ken=secret"),
    "redirect to another scheme": lambda _: redirects("ftp://u5er:pa55@example.com/pods?t0ken=secret"),
    "redirect to no host": lambda _: redirects("mailto:u5er:pa55@example.com?t0ken=secret"),
    "redirect to a dead end": lambda _: redirects("http://u5er:pa55@127.0.0.1:1/pods?t0ken=secret"),
    "bad manifest": lambda _: says("kind: Service"),
}


@pytest.mark.parametrize("leak", LEAKS.values(), ids=LEAKS)
@virtual_time
async def test_secrets_are_in_no_log(leak: Callable[[Site], Answer], caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    async with site() as here:
        here.answer = leak(here)
        address = f"http://u5er:pa55@127.0.0.1:{here.port}/pods?t0ken=se%63ret"
        source = UrlSource(address, "n1", headers={"X-Key": ["he4der"]})
        async with following(source):
            await asyncio.sleep(1000)
    ours = [record for record in caplog.records if record.name.startswith("pykubelet")]
    assert ours
    for record in caplog.records:
        text = f"{record.getMessage()} {record.exc_info} {record.args}"
        assert not [secret for secret in SECRETS if secret in text], text


@pytest.mark.parametrize(
    "address",
    [
        "",
        "pods.yaml",
        "/etc/pods.yaml",
        "file:///etc/pods.yaml",
        "ftp://u5er:pa55@example.com/pods?t0ken=secret",
        "u5er:pa55@example.com/pods?t0ken=secret",
        "//u5er:pa55@example.com/pods?t0ken=secret",
        "http://u5er:pa55@/pods?t0ken=secret",
        "http:///pods",
        "http://u5er:pa55@example.com:99999/?t0ken=secret",
        "http://u5er:pa55@example.com:port/?t0ken=secret",
        "http://u5er:pa55@[::1/?t0ken=secret",
    ],
)
def test_a_url_that_cannot_be_asked_is_refused_without_showing_its_secrets(address: str) -> None:
    with pytest.raises(Invalid) as caught:
        UrlSource(address, "n1")
    assert str(caught.value).startswith("the manifest URL")
    assert not [secret for secret in SECRETS if secret in str(caught.value)]
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__ or caught.value.__context__ is None
