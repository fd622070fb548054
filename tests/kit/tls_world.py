"""The whole way over TLS: clients with certificates and tokens, the API server, and a kubelet behind it."""

import asyncio
import json
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from ipaddress import ip_address
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import aiohttp
import pytest
from aiohttp import web

from kit.kubectl import KUBECTL, Kubectl
from kit.local_streams import LocalConnection, LocalSession
from pykubelet.apiserver.objects import Object, stored
from pykubelet.apiserver.requests.users import MASTERS, authenticated
from pykubelet.apiserver.security.addresses import ClusterAddresses, Endpoint
from pykubelet.apiserver.security.cluster_access import ClusterAccess
from pykubelet.apiserver.security.kubeconfig import kubeconfig, write_kubeconfig
from pykubelet.apiserver.security.pki import Pki
from pykubelet.apiserver.security.serving import apiserver_tls
from pykubelet.apiserver.server import ApiServer
from pykubelet.apiserver.settings import ApiSettings
from pykubelet.apiserver.store.memory import MemoryStore
from pykubelet.apiserver.subresources.all import register_all
from pykubelet.server.streaming.port_forward import forward
from pykubelet.server.streaming.remote_command import serve_session

OWN: Final = ("127.0.0.1", "localhost", "kubernetes", "kubernetes.default.svc", "192.0.2.77", "10.96.0.1")
"""What the API server is called."""
PODS: Final = "/api/v1/namespaces/default/pods"


def now() -> datetime:
    return datetime.now(UTC)


class World:
    """One API server, and one kubelet, whose answers a test chooses."""

    def __init__(self, folder: Path) -> None:
        self.pki = Pki.open(folder / "pki", now)
        self.port = 0
        self.streams = True
        """Whether the kubelet speaks WebSocket as kubectl would have it; else SPDY alone."""
        self.asked: list[tuple[str, str, dict[str, str]]] = []
        self.refusal: tuple[int, str] | None = None
        """With what the kubelet refuses to show a log."""
        self.ended: list[str] = []
        self.sessions: list[LocalSession] = []
        key = self.pki.service_account_key()
        static = {"admin-token": authenticated("admin", (MASTERS,))}
        self.tls = apiserver_tls(self.pki, lambda: ["127.0.0.1", "localhost"])
        self.server = ApiServer(
            MemoryStore(),
            ApiSettings(),
            access=lambda backend: ClusterAccess(
                backend, key, static_tokens=static, certificate=self.tls.client_certificate
            ),
        )
        access = self.server.backend.access
        assert isinstance(access, ClusterAccess)
        self.access = access
        self.kubelets: dict[str, Endpoint] = {}
        """Those that an administrator has put down."""
        self.addresses = ClusterAddresses(lambda: OWN, 0, ApiSettings().service_range, self.kubelets)
        register_all(self.server, access, self.pki, self.addresses, found_at="127.0.0.1:6443")

    @asynccontextmanager
    async def running(self) -> AsyncGenerator["World", None]:
        app = self.server.application()
        async with served(app, self.tls.context()) as self.port, self._kubelet() as kubelet:
            self.addresses.port = self.port
            await self.add_node("n1", kubelet)
            await self.add("pods", _pod("x", "n1"))
            await self.add("pods", _pod("waiting", ""))
            yield self

    async def add_node(self, name: str, port: int) -> None:
        """On this machine, as an administrator has put down."""
        self.kubelets[name] = Endpoint(ip_address("127.0.0.1"), port)
        await self.add("nodes", a_node(name, port))

    async def add(self, plural: str, obj: Object) -> None:
        backend = self.server.backend
        resource = backend.resources.of("", plural)
        whole = {"apiVersion": resource.api_version, "kind": resource.kind, **obj}
        whole["metadata"] |= {"uid": f"uid-of-{obj['metadata']['name']}"}
        key = resource.key(whole["metadata"].get("namespace", ""), whole["metadata"]["name"])
        await backend.store.create(key, stored(whole))

    @asynccontextmanager
    async def _kubelet(self) -> AsyncGenerator[int, None]:
        pair = self.pki.authority.server("n1", ["n1"], now())
        path = self.pki.folder / "kubelet.pem"
        path.write_bytes(pair.certificate + pair.key)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(path)
        context.load_verify_locations(self.pki.authority_file)
        context.verify_mode = ssl.CERT_REQUIRED
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._answer)
        async with served(app, context) as port:
            yield port

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        self.asked.append((request.method, str(request.rel_url), dict(request.headers)))
        what = request.path.split("/")[1]
        is_web_socket = "Sec-WebSocket-Key" in request.headers
        if is_web_socket and not self.streams:
            return web.Response(status=403, text="unknown protocol")
        match what:
            case "containerLogs":
                return await self._logs(request)
            case "exec":
                session = await LocalSession.start(request.query.getall("command"))
                self.sessions.append(session)
                return await serve_session(request, session, tty=False, idle=60)
            case "metrics":
                return web.Response(text=_metrics(len(self.asked)))
            case "portForward":
                return await forward(request, LocalConnection.to, [], idle=60)
        return web.Response(text=f"{request.method} {request.rel_url} {(await request.read()).decode()}")

    async def _logs(self, request: web.Request) -> web.StreamResponse:
        if self.refusal is not None:
            return web.Response(status=self.refusal[0], text=self.refusal[1])
        response = web.StreamResponse(headers={"Content-Type": "text/plain"})
        await response.prepare(request)
        await response.write(b"first\n")
        try:
            if request.query.get("follow"):
                await asyncio.sleep(60)
        finally:
            self.ended.append(request.path)
        await response.write(b"last\n")
        return response

    def client(self, user: str = "admin") -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=str(self.pki.authority_file))
        if user:
            pair = self.pki.admin() if user == "admin" else self.pki.node(user)
            context.load_cert_chain(*pair)
        return context

    @asynccontextmanager
    async def asking(
        self,
        method: str,
        path: str,
        *,
        user: str = "admin",
        token: str = "",
        body: Any = None,
        headers: Mapping[str, str] = MappingProxyType({}),
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        headers = {**headers, "Authorization": f"Bearer {token}"} if token else headers
        connector = aiohttp.TCPConnector(ssl=self.client("" if token else user), force_close=True)
        async with (
            aiohttp.ClientSession(connector=connector) as session,
            session.request(method, f"https://127.0.0.1:{self.port}{path}", headers=headers, json=body) as answer,
        ):
            yield answer

    async def ask(self, method: str, path: str, **how: Any) -> tuple[int, Any]:
        async with self.asking(method, path, **how) as answer:
            text = await answer.text()
            return answer.status, json.loads(text) if text.startswith("{") else text

    def kubectl(self, home: Path, environment: dict[str, str] | None = None) -> Kubectl:
        if not KUBECTL:
            pytest.skip("needs kubectl")
        kubectl = Kubectl(self.port, home, environment or {}, "https")
        certificate, key = (path.read_bytes() for path in self.pki.admin())
        server = f"https://127.0.0.1:{self.port}"
        write_kubeconfig(home / "config", kubeconfig(server, self.pki.authority.pem, certificate, key))
        return kubectl


@asynccontextmanager
async def served(app: web.Application, context: ssl.SSLContext) -> AsyncGenerator[int, None]:
    runner = web.AppRunner(app, handler_cancellation=True, access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context)
        await site.start()
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


def _metrics(count: int) -> str:
    """A kubelet that counts half a second of work in every five."""
    return (
        f"node_cpu_usage_seconds_total {count / 2} {count * 5000}\nnode_memory_working_set_bytes 1024 {count * 5000}\n"
    )


def a_node(name: str, port: int) -> Object:
    addresses = [{"type": "InternalIP", "address": "127.0.0.1"}]
    endpoints = {"kubeletEndpoint": {"Port": port}}
    return {"metadata": {"name": name}, "spec": {}, "status": {"addresses": addresses, "daemonEndpoints": endpoints}}


def _pod(name: str, node: str) -> Object:
    spec = {"nodeName": node, "containers": [{"name": "main", "image": "i"}], "serviceAccountName": "default"}
    projected = {"sources": [{"serviceAccountToken": {"path": "token"}}]}
    spec["volumes"] = [{"name": "api", "projected": projected}]
    return {"metadata": {"name": name, "namespace": "default"}, "spec": spec, "status": {"phase": "Running"}}
