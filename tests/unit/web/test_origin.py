"""Whose pages may make a browser ask, over real TLS with and without a client certificate."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from unittest.mock import Mock

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request

from kit.certificates import Issued
from kit.tls_files import Files, client_context
from pykubelet.server.serving_certificate import kubelet_tls
from pykubelet.web.origin import is_foreign
from pykubelet.web.serving import serving

UPGRADE = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Protocol": "v5.channel.k8s.io"}
WITH_TOKEN = {**UPGRADE, "Sec-WebSocket-Protocol": "base64url.bearer.authorization.k8s.io.YWJj, v5.channel.k8s.io"}


@pytest.mark.parametrize(
    ("host", "origin", "foreign"),
    [
        ("node:10250", "http://node:10250", False),
        ("node:10250", "https://NODE:10250", False),
        ("node", "http://node", False),
        ("node:80", "http://node", False),
        ("[::1]:10250", "http://[::1]:10250", False),
        ("node:10250", "http://node", True),
        ("node:10250", "http://node:10255", True),
        ("node:10250", "http://node.example.com:10250", True),
        ("node:10250", "http://evil.example.com", True),
        ("node:10250", "http://node:10250@evil.example.com", True),
        ("node:10250", "null", True),
        ("node:10250", "", True),
        ("", "", True),
        ("node:x", "http://node:x", True),
    ],
)
def test_an_origin_is_a_host_and_a_port(host: str, origin: str, foreign: bool) -> None:
    transport = Mock(**{"get_extra_info.return_value": None})
    request = make_mocked_request("GET", "/", {"Host": host, "Origin": origin}, transport=transport)
    assert is_foreign(request) == foreign


def test_who_is_no_browser_says_no_origin() -> None:
    assert not is_foreign(make_mocked_request("GET", "/", {"Host": "node:10250"}))


@asynccontextmanager
async def served(files: Files) -> AsyncIterator[str]:
    async def answer(_: web.Request) -> web.Response:
        return web.Response(text="asked")

    app = web.Application()
    app.router.add_route("*", "/", answer)
    async with serving(app, "127.0.0.1", 0, tls=kubelet_tls(files.settings).context()) as port:
        yield f"https://127.0.0.1:{port}/"


@pytest.mark.parametrize(
    ("method", "headers", "with_certificate", "status"),
    [
        ("GET", UPGRADE, True, 403),
        ("GET", UPGRADE, False, 403),
        ("GET", {"Connection": "Upgrade", "Upgrade": "SPDY/3.1"}, True, 403),
        ("GET", WITH_TOKEN, False, 200),
        ("GET", WITH_TOKEN, True, 403),  # the certificate counts before the token, which may be made up
        ("POST", {}, True, 403),
        ("POST", {"Authorization": "Bearer abc"}, False, 200),
        ("DELETE", {}, True, 403),
        ("GET", {}, True, 200),
    ],
)
async def test_a_foreign_page_has_nothing_of_the_browsers_certificate(
    tmp_path: Path, method: str, headers: Mapping[str, str], with_certificate: bool, status: int
) -> None:
    files = Files(tmp_path)
    own: Issued | None = files.clients.issue("admin") if with_certificate else None
    context = client_context(files.servers.pem, own)
    async with served(files) as url, aiohttp.ClientSession() as session:
        for origin, expected in (("https://evil.example.com", status), (url.rstrip("/"), 200)):
            async with session.request(method, url, headers={**headers, "Origin": origin}, ssl=context) as answer:
                assert answer.status == expected
                assert ("need a bearer token" in await answer.text()) == (expected == 403)
