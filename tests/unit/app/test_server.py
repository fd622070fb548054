"""The kubelet's HTTP API as a whole: nobody gets in who should not, by any door."""

import re
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from pykubelet.app.foundations import lay_foundations
from pykubelet.app.kubelet import Kubelet
from pykubelet.app.server import KubeletServer
from pykubelet.app.stats import stats_reader
from pykubelet.config.agent import make_config
from pykubelet.pod.ports.server import Access, Decision, Identity
from pykubelet.server.application import Route
from pykubelet.server.metrics.metrics import Metrics

WIDE_OPEN = {"authentication.anonymous.enabled": True, "authorization.mode": "AlwaysAllow"}


class Reviews:
    """Knows two people; `reader` may read what is in `allowed`, `nobody` nothing at all."""

    def __init__(self, *allowed: str) -> None:
        self._allowed = allowed
        self.asked: list[Access] = []

    async def who(self, token: str) -> Identity | None:
        return Identity(name=token) if token in ("reader", "nobody") else None

    async def may(self, identity: Identity, access: Access) -> Decision:
        self.asked.append(access)
        return Decision(allowed=identity.name == "reader" and access.subresource in self._allowed)


class Served:
    def __init__(self, routes: tuple[Route, ...], port: int) -> None:
        self.routes = routes
        self._port = port
        self._trusting = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # a default one reads all authorities of this machine
        self._trusting.check_hostname, self._trusting.verify_mode = False, ssl.CERT_NONE

    async def status(self, method: str, path: str, token: str = "") -> int:
        url = f"https://127.0.0.1:{self._port}{path}"
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        async with (
            aiohttp.ClientSession() as session,
            session.request(method, url, headers=headers, ssl=self._trusting) as answer,
        ):
            await answer.read()
            return answer.status


@asynccontextmanager
async def served(
    folder: Path, reviews: Reviews | None, given: Mapping[str, Any] | None = None
) -> AsyncIterator[Served]:
    own = {
        "port": 0,
        "healthzPort": 0,
        "address": "127.0.0.1",
        "--hostname-override": "n1",
        "staticPodPath": str(folder),
    }
    config = make_config({**own, "--root-dir": str(folder / "state"), **(given or {})})
    async with AsyncExitStack() as stack:
        base = await lay_foundations(config, stack)
        kubelet = Kubelet(base)
        server = KubeletServer(
            base,
            lambda: None,
            reviews=reviews,
            metrics=Metrics("n1"),
            explainer=kubelet.explainer,
            stats=stats_reader(base, tuple, lambda: None, kubelet._parts.plugins.drivers),
            node=lambda: None,
        )
        ports = await server.start(stack)
        yield Served((*server.routes(), *server._stats_routes()), ports["https"])


def path_of(route: Route) -> str:
    return re.sub(r"\{[^}]*\}", "x", route.path)


async def test_every_route_answers_401_without_a_name_and_403_without_a_right(tmp_path: Path) -> None:
    async with served(tmp_path, Reviews()) as server:
        assert len(server.routes) > 40
        for route in server.routes:
            path = path_of(route)
            assert await server.status(route.method, path) == 401, path
            assert await server.status(route.method, path, token="stranger") == 401, path
            assert await server.status(route.method, path, token="nobody") == 403, path
        assert await server.status("GET", "/no/such/path") == 401
        assert await server.status("GET", "/no/such/path", token="nobody") == 403


async def test_a_right_opens_its_own_doors_and_no_others(tmp_path: Path) -> None:
    async with served(tmp_path, Reviews("metrics", "pods")) as server:
        for path, status in (
            ("/metrics", 200),
            ("/metrics/resource", 200),
            ("/pods", 200),
            ("/stats/summary", 403),
            ("/configz", 403),
            ("/exec/default/web/c?command=id&output=1", 403),
            ("/logs/", 403),
        ):
            assert await server.status("GET", path, token="reader") == status, path


async def test_without_an_api_server_to_ask_nobody_gets_in(tmp_path: Path) -> None:
    async with served(tmp_path, None) as server:
        assert await server.status("GET", "/pods") == 401
        assert await server.status("GET", "/pods", token="reader") == 401


async def test_who_wants_it_open_has_to_say_so(tmp_path: Path) -> None:
    async with served(tmp_path, None, WIDE_OPEN) as server:
        for path in ("/pods", "/configz", "/metrics/cadvisor", "/stats/summary", "/debug/pprof/goroutine", "/spec"):
            assert await server.status("GET", path) == 200, path
        assert await server.status("GET", "/containerLogs/default/web/c") == 404
        assert await server.status("GET", "/page/state") == 401, "the page is for somebody"


@pytest.mark.parametrize("path", ["/exec/default/web/c", "/run/default/web/c", "/containerLogs/default/web/c"])
async def test_debugging_can_be_switched_off(tmp_path: Path, path: str) -> None:
    async with served(tmp_path, None, {**WIDE_OPEN, "enableDebuggingHandlers": False}) as server:
        method = "POST" if path.startswith("/run") else "GET"
        assert await server.status(method, path) == 405
        assert await server.status("GET", "/debug/pprof/") == 404
        assert await server.status("GET", "/page/") == 404
