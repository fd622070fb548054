"""What pods use of an API server, over HTTP: tokens, services, config maps and secrets."""

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from aiohttp import web

from kit.list_watch import ListWatchServer, serving_on_loopback
from kit.loopback import serving
from kit.pods import make_pod
from kit.waiting import eventually
from pykubelet.base.errors import NotFound, Retry
from pykubelet.kube.client import ApiClient
from pykubelet.kube.credentials import Credentials
from pykubelet.kube.kubeconfig import ClientConfig, Cluster, User
from pykubelet.kube.pod_objects import KubeObjects
from pykubelet.kube.services import ServiceView
from pykubelet.pod.ports.api import PodObjects

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
POD = make_pod(uid="u1")


class Tokens:
    """A server that gives tokens, and the clock of the node."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, Any]] = []
        self.refusal = 0
        self.now = NOW
        self.seconds: int | None = None
        """What the server makes of the life that it is asked for."""

    async def __call__(self, request: web.BaseRequest) -> web.Response:
        body = json.loads(await request.text())
        self.requests.append((f"{request.method} {request.path}", body))
        if self.refusal:
            status = {"kind": "Status", "status": "Failure", "message": "no", "code": self.refusal}
            return web.json_response(status, status=self.refusal)
        seconds = self.seconds or body["spec"].get("expirationSeconds", 3600)
        expires = (self.now + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")
        spec = {**body["spec"], "expirationSeconds": seconds}
        status = {"token": f"token-{len(self.requests)}", "expirationTimestamp": expires}
        return web.json_response({**body, "spec": spec, "status": status}, status=201)


@asynccontextmanager
async def objects_of(tokens: Tokens) -> AsyncIterator[PodObjects]:
    async with serving(tokens) as port:
        config = ClientConfig(Cluster(server=f"http://127.0.0.1:{port}"), User())
        async with ApiClient(Credentials(config, environ={})) as server:
            yield KubeObjects(server, ServiceView(server), now=lambda: tokens.now)


async def test_a_token_is_bound_to_the_pod() -> None:
    tokens = Tokens()
    async with objects_of(tokens) as objects:
        assert await objects.service_account_token("default", "builder", "vault", 7200, POD) == "token-1"
        await objects.service_account_token("default", "", "", None, POD)
    where, body = tokens.requests[0]
    assert where == "POST /api/v1/namespaces/default/serviceaccounts/builder/token"
    assert body["spec"] == {
        "audiences": ["vault"],
        "expirationSeconds": 7200,
        "boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": "web", "uid": "u1"},
    }
    where, body = tokens.requests[1]
    assert where.endswith("/serviceaccounts/default/token")
    assert set(body["spec"]) == {"boundObjectRef"}


@pytest.mark.parametrize(("seconds", "renewed_after"), [(3600, 2880), (600, 480), (30 * 86400, 86400)])
async def test_a_token_is_renewed_when_four_fifths_of_its_life_or_a_day_are_over(
    seconds: int, renewed_after: int
) -> None:
    tokens = Tokens()
    async with objects_of(tokens) as objects:
        assert objects.renewal_in("u1") is None

        async def token() -> str:
            return await objects.service_account_token("default", "a", "", seconds, POD)

        await token()
        left = objects.renewal_in("u1")
        assert left is not None
        assert renewed_after - 10 <= left <= renewed_after
        tokens.now = NOW + timedelta(seconds=renewed_after - 11)
        assert await token() == "token-1"
        tokens.now = NOW + timedelta(seconds=renewed_after)
        assert await token() == "token-2"


async def test_the_life_that_counts_is_the_one_that_the_server_gave() -> None:
    tokens = Tokens()
    tokens.seconds = 600
    async with objects_of(tokens) as objects:
        await objects.service_account_token("default", "a", "", 7200, POD)
        left = objects.renewal_in("u1")
        assert left is not None
        assert left <= 480


async def test_a_token_that_cannot_be_renewed_is_good_until_its_end() -> None:
    tokens = Tokens()
    async with objects_of(tokens) as objects:

        async def token() -> str:
            return await objects.service_account_token("default", "a", "", 600, POD)

        tokens.refusal = 404
        with pytest.raises(Retry, match=r"^failed to fetch token: "):
            await token()
        tokens.refusal = 0
        held = await token()
        tokens.refusal, tokens.now = 503, NOW + timedelta(seconds=590)
        assert await token() == held
        assert objects.renewal_in("u1") == 10.0
        tokens.now = NOW + timedelta(seconds=601)
        with pytest.raises(Retry, match="expired and refresh failed"):
            await token()


async def test_each_pod_has_its_own_token_and_takes_it_along() -> None:
    tokens = Tokens()
    async with objects_of(tokens) as objects:
        for pod in (POD, make_pod("other"), POD):
            await objects.service_account_token("default", "a", "", 3600, pod)
        assert len(tokens.requests) == 2
        objects.forget("u1")
        assert objects.renewal_in("u1") is None
        assert objects.renewal_in("uid-other") is not None
        assert "token-" not in repr(vars(vars(objects)["_tokens"]))


# --- services and objects


def service(name: str, namespace: str = "default", ip: str = "10.0.0.1") -> dict[str, Any]:
    meta = {"name": name, "namespace": namespace, "uid": f"{namespace}-{name}", "annotations": {"long": "text"}}
    return {"metadata": meta, "spec": {"clusterIP": ip, "ports": [{"port": 80}], "selector": {"a": "b"}}}


@asynccontextmanager
async def following(server: ListWatchServer) -> AsyncIterator[KubeObjects]:
    config = ClientConfig(Cluster(server=server.url), User())
    async with ApiClient(Credentials(config, environ={})) as api:
        view = ServiceView(api)
        task = asyncio.create_task(view.follow())
        try:
            yield KubeObjects(api, view)
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task


async def test_services_are_followed() -> None:
    server = ListWatchServer()
    async with serving_on_loopback(server):
        for item in (service("kubernetes"), service("mine", "a"), service("other", "b")):
            await server.apply(item, "services")
        async with following(server) as objects:

            async def names(namespace: str) -> set[str]:
                return {each.metadata.name for each in await objects.services(namespace)}

            assert await names("a") == {"kubernetes", "mine"}
            assert all(not each.metadata.annotations for each in await objects.services("a"))
            await server.apply(service("new", "a", "10.0.0.7"), "services")
            await server.delete("mine", "services", "a")
            found = objects._services
            await eventually(lambda: {each.metadata.name for each in found.of("a")} == {"kubernetes", "new"})


async def test_services_that_were_never_read_are_waited_for_unless_the_pod_is_the_nodes_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("pykubelet.kube.pod_objects._PATIENCE", 0.05)
    async with objects_of(Tokens()) as objects:
        with pytest.raises(Retry, match="services have not yet been read"):
            await objects.services("default")
        assert await objects.services("default", wait=False) == ()


async def test_config_maps_and_secrets_are_read_without_what_nobody_needs() -> None:
    async def answer(request: web.BaseRequest) -> web.Response:
        kind, name = request.path.split("/")[-2:]
        if name == "gone":
            return web.json_response({"kind": "Status", "code": 404, "reason": "NotFound"}, status=404)
        secret = base64.b64encode(b"\xff").decode()
        data = {"k": secret if kind == "secrets" else "v"}
        meta = {"name": name, "namespace": "default", "uid": "u", "annotations": {"long": "text"}}
        return web.json_response({"metadata": meta, "data": data, "binaryData": {"b": secret}})

    async with serving(answer) as port:
        config = ClientConfig(Cluster(server=f"http://127.0.0.1:{port}"), User())
        async with ApiClient(Credentials(config, environ={})) as server:
            objects: PodObjects = KubeObjects(server, ServiceView(server))
            found = await objects.config_map(POD, "c")
            assert (found.data, found.binary_data, found.metadata.annotations) == ({"k": "v"}, {"b": b"\xff"}, {})
            assert (await objects.secret(POD, "s")).data == {"k": b"\xff"}
            with pytest.raises(NotFound, match=r'^secret "gone" not found$'):
                await objects.secret(POD, "gone")
            with pytest.raises(NotFound, match=r'^configmap "gone" not found$'):
                await objects.config_map(POD, "gone")
