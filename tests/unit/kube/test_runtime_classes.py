"""Runtime classes and leases, as a node reads them from a server."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime

import pytest
from aiohttp import web

from kit.loopback import serving
from pykubelet.base.errors import Invalid, NotFound, Retry
from pykubelet.kube.client import ApiClient
from pykubelet.kube.credentials import Credentials
from pykubelet.kube.kubeconfig import ClientConfig, Cluster, User
from pykubelet.kube.node_lease import KubeLeases
from pykubelet.kube.runtime_classes import KubeRuntimeClasses


class Server:
    def __init__(self) -> None:
        self.objects: dict[str, object] = {}
        self.code = 404
        self.asked: list[str] = []

    async def answer(self, request: web.BaseRequest) -> web.Response:
        self.asked.append(request.path)
        if request.path in self.objects:
            return web.json_response(self.objects[request.path])
        status = {"kind": "Status", "status": "Failure", "message": "no", "code": self.code}
        return web.json_response(status, status=self.code)

    @asynccontextmanager
    async def client(self) -> AsyncIterator[ApiClient]:
        async with serving(self.answer) as port:
            config = ClientConfig(Cluster(server=f"http://127.0.0.1:{port}"), User())
            async with ApiClient(Credentials(config, environ={})) as client:
                yield client


CLASS = "/apis/node.k8s.io/v1/runtimeclasses/sandboxed"
LEASE = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/n1"


async def test_a_class_is_asked_for_once_in_a_while() -> None:
    server = Server()
    server.objects[CLASS] = {"metadata": {"name": "sandboxed"}, "handler": "runsc", "overhead": {"podFixed": {}}}
    async with server.client() as client:
        classes = KubeRuntimeClasses(client)
        assert [await classes.handler("sandboxed") for _ in range(3)] == ["runsc"] * 3
    assert server.asked == [CLASS]


async def test_a_class_that_is_missing_is_asked_for_each_time() -> None:
    server = Server()
    async with server.client() as client:
        classes = KubeRuntimeClasses(client)
        with pytest.raises(NotFound, match=r'^runtimeclass\.node\.k8s\.io "sandboxed" not found$'):
            await classes.handler("sandboxed")
        server.objects[CLASS] = {"metadata": {"name": "sandboxed"}, "handler": "runsc"}
        assert await classes.handler("sandboxed") == "runsc"


async def test_a_class_that_was_known_stays_known_while_the_server_fails_but_not_when_it_is_gone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("pykubelet.kube.runtime_classes._HOLDS", 0.0)
    server = Server()
    server.objects[CLASS] = {"metadata": {"name": "sandboxed"}, "handler": "runsc"}
    async with server.client() as client:
        classes = KubeRuntimeClasses(client)
        await classes.handler("sandboxed")
        server.objects.clear()
        server.code = 500
        assert await classes.handler("sandboxed") == "runsc"
        with pytest.raises(Retry, match="failed to lookup RuntimeClass other: "):
            await classes.handler("other")
        server.code = 404
        with pytest.raises(NotFound):
            await classes.handler("sandboxed")


async def test_a_name_that_would_lead_elsewhere_is_refused() -> None:
    server = Server()
    async with server.client() as client:
        with pytest.raises(Invalid):
            await KubeRuntimeClasses(client).handler("../secrets")
    assert server.asked == []


async def test_a_lease_tells_when_a_node_was_last_heard_of() -> None:
    server = Server()
    async with server.client() as client:
        leases = KubeLeases(client)
        assert await leases.renewal_time("n1") is None
        server.objects[LEASE] = {"metadata": {"name": "n1"}, "spec": {"renewTime": "2026-01-01T12:00:00.500000Z"}}
        assert await leases.renewal_time("n1") == datetime(2026, 1, 1, 12, 0, 0, 500_000, tzinfo=UTC)
