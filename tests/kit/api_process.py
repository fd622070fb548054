"""The embedded API server over plain HTTP on this machine, with a store in memory, and kubectl to talk to it."""

import asyncio
import json
import os
import tempfile
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

import aiohttp
from aiohttp import web

from kit.kubectl import KUBECTL
from pykubelet.apiserver.requests.access import AllowAll
from pykubelet.apiserver.requests.request_info import RequestInfo
from pykubelet.apiserver.requests.users import ANONYMOUS, User
from pykubelet.apiserver.server import ApiServer
from pykubelet.apiserver.settings import ApiSettings
from pykubelet.apiserver.status import unauthorized
from pykubelet.apiserver.store.memory import MemoryStore
from pykubelet.apiserver.store.port import Store
from pykubelet.apiserver.telemetry.observer import Auditing

_SECONDS: Final = 60.0


class ByToken(AllowAll):
    """Lets in whoever sends any token at all."""

    async def identify(self, request: web.Request) -> User:
        known = await super().identify(request)
        return known if request.headers.get("Authorization") else ANONYMOUS

    async def check(self, user: User, info: RequestInfo) -> str:
        if info.is_resource and user == ANONYMOUS:
            raise unauthorized()
        return "RBAC: allowed by a token"


class Told(NamedTuple):
    code: int
    out: str
    err: str


class Api:
    """A running server, as a client sees it."""

    def __init__(self, server: ApiServer, url: str, session: aiohttp.ClientSession) -> None:
        self.server = server
        self.backend = server.backend
        self.url = url
        self.session = session

    async def ask(
        self, method: str, path: str, body: Any = None, *, kind: str = "application/json", **headers: str
    ) -> tuple[int, Any]:
        """-> the code and the answer, as JSON if it is JSON"""
        given = {"Content-Type": kind} if body is not None else {}
        data = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        sent = {**given, **{name.replace("_", "-"): value for name, value in headers.items()}}
        async with self.session.request(method, self.url + path, data=data, headers=sent) as answer:
            raw = await answer.read()
            if answer.content_type.endswith("json"):
                return answer.status, await answer.json()
            return answer.status, raw.decode()

    async def kubectl(self, *arguments: str, stdin: str = "") -> Told:
        with tempfile.TemporaryDirectory() as home:
            environment = {**os.environ, "HOME": home, "KUBECONFIG": str(Path(home) / "none")}
            pipe = asyncio.subprocess.PIPE
            process = await asyncio.create_subprocess_exec(
                KUBECTL, "--server", self.url, *arguments, stdin=pipe, stdout=pipe, stderr=pipe, env=environment
            )
            async with asyncio.timeout(_SECONDS):
                out, err = await process.communicate(stdin.encode())
            return Told(process.returncode or 0, out.decode(), err.decode())


async def done(api: Api, *arguments: str, stdin: str = "") -> str:
    """What kubectl says when it does it."""
    told = await api.kubectl(*arguments, stdin=stdin)
    assert told.code == 0, told.err
    return told.out


@asynccontextmanager
async def serving_api(
    store: Store | None = None,
    settings: ApiSettings | None = None,
    *,
    needs_token: bool = False,
    auditing: Auditing | None = None,
) -> AsyncGenerator[Api, None]:
    server = ApiServer(
        store or MemoryStore(),
        settings or ApiSettings(),
        access=lambda backend: ByToken() if needs_token else AllowAll(),
        auditing=auditing,
    )
    runner = web.AppRunner(server.application(), access_log=None, handler_cancellation=True, shutdown_timeout=1.0)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        port = runner.addresses[0][1]
        async with aiohttp.ClientSession() as session:
            yield Api(server, f"http://127.0.0.1:{port}", session)
    finally:
        await runner.cleanup()
