"""The web server under the kubelet's API: who comes in, what errors look like, and what nobody may do to it."""

import io
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from pykubelet.base.errors import Conflict, Invalid, NotFound, Retry
from pykubelet.pod.ports.server import Decision, Identity
from pykubelet.server.application import Route, application, plain
from pykubelet.server.metrics.metrics import Metrics
from pykubelet.web.serving import serving


class Doorman:
    """Knows everybody who says a name, and lets only `root` in."""

    async def identify(self, request: web.Request) -> Identity | None:
        name = request.headers.get("X-Name", "")
        if name == "ghost":
            raise Retry("nobody can say")
        return Identity(name=name) if name else None

    async def check(self, identity: Identity, method: str, path: str) -> Decision:
        if identity.name == "maybe":
            raise Retry("nobody can say")
        return Decision(allowed=identity.name == "root", reason=f"Forbidden (user={identity.name})")


def raising(error: Exception) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    async def handler(_: web.Request) -> web.StreamResponse:
        raise error

    return handler


async def fine(_: web.Request) -> web.Response:
    return plain(200, "fine")


async def echo(request: web.Request) -> web.Response:
    return web.Response(body=await request.read())


ROUTES = (
    Route("GET", "/fine", fine),
    Route("GET", "/open", fine, is_open=True),
    Route("POST", "/echo", echo),
    Route("GET", "/missing", raising(NotFound("no such pod"))),
    Route("GET", "/bad", raising(Invalid("no such stream"))),
    Route("GET", "/later", raising(Retry("the runtime does not answer"))),
    Route("GET", "/other", raising(Conflict("another pod"))),
    Route("GET", "/broken", raising(RuntimeError("secret"))),
)


@asynccontextmanager
async def server(**options: Any) -> AsyncIterator[int]:
    app = application(ROUTES, options.pop("auth", Doorman()), **options)
    async with serving(app, "127.0.0.1", 0) as port:
        yield port


async def get(port: int, path: str, name: str = "root", method: str = "GET", **extra: Any) -> tuple[int, str]:
    headers = {"X-Name": name} if name else {}
    async with (
        aiohttp.ClientSession() as session,
        session.request(method, f"http://127.0.0.1:{port}{path}", headers=headers, **extra) as answer,
    ):
        return answer.status, await answer.text()


@pytest.mark.parametrize("path", ["/fine", "/open", "/missing", "/broken", "/nowhere"])
async def test_nobody_gets_further_than_the_door_without_a_name_or_a_right(path: str) -> None:
    async with server() as port:
        assert await get(port, path, name="") == (401, "Unauthorized")
        assert await get(port, path, name="ghost") == (401, "Unauthorized")
        assert await get(port, path, name="mallory") == (403, "Forbidden (user=mallory)")
        assert (await get(port, path, name="maybe"))[0] == 500


async def test_errors_say_what_to_do() -> None:
    async with server() as port:
        assert await get(port, "/fine") == (200, "fine")
        assert await get(port, "/missing") == (404, "no such pod")
        assert await get(port, "/bad") == (400, "no such stream")
        assert await get(port, "/later") == (503, "the runtime does not answer")
        assert await get(port, "/other") == (409, "another pod")
        assert await get(port, "/nowhere") == (404, "404 page not found\n")
        assert await get(port, "/broken") == (500, "internal error: the agent's log has more")
        assert (await get(port, "/fine", method="DELETE"))[0] == 405


async def test_a_read_only_port_has_what_is_open_and_nothing_else() -> None:
    async with server(auth=None) as port:
        assert await get(port, "/open", name="") == (200, "fine")
        assert (await get(port, "/fine", name=""))[0] == 404


async def test_a_body_that_is_too_large_is_refused() -> None:
    async with server() as port:
        assert (await get(port, "/echo", method="POST", data=b"x" * 1000))[0] == 200
        assert (await get(port, "/echo", method="POST", data=io.BytesIO(b"x" * (2 << 20))))[0] == 413


async def test_every_request_is_counted_whatever_becomes_of_it() -> None:
    metrics = Metrics("n1")
    app = application((*ROUTES, *metrics.routes()), Doorman())
    metrics.attend(app)
    async with serving(app, "127.0.0.1", 0) as port:
        assert [
            (await get(port, "/fine"))[0],
            (await get(port, "/fine", name=""))[0],
            (await get(port, "/broken"))[0],
            (await get(port, "/nowhere"))[0],
        ] == [200, 401, 500, 404]
        _, text = await get(port, "/metrics")
    lines = [line for line in text.splitlines() if line.startswith("kubelet_http_requests_total{")]
    assert [line.rpartition(" ")[2] for line in lines if 'path="other"' in line and 'method="GET"' in line] == ["4"]
