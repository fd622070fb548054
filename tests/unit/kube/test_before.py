"""A machine that comes up and cannot reach its API server goes by what an earlier agent was told."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

from kit.last_known import Remembered
from kit.loopback import serving
from kit.pods import make_pod
from kit.virtual_time import virtual_time
from pykubelet.api.meta import ObjectMeta
from pykubelet.api.objects import ConfigMap
from pykubelet.base.errors import NotFound, Retry
from pykubelet.kube.before import Before
from pykubelet.kube.client import ApiClient
from pykubelet.kube.credentials import Credentials
from pykubelet.kube.kubeconfig import ClientConfig, Cluster, User
from pykubelet.kube.object_cache import ObjectCache
from pykubelet.kube.runtime_classes import KubeRuntimeClasses
from pykubelet.kube.service_account_tokens import PodTokens
from pykubelet.kube.services import ServiceView
from pykubelet.kube.watch import Reflector

KEY = ("configmap", "default", "a")
FOREVER = 1e6


class Server:
    """One that says what it knows, is slow, or refuses."""

    def __init__(self, before: Remembered) -> None:
        self.known = before
        self.latency = 0.0
        self.fault: Exception | None = None
        self.text = "old"
        self.woken: list[str] = []
        self.has_answered = False
        self.cache = ObjectCache(
            "configmap",
            ConfigMap,
            self.fetch,
            self.never,
            before=Before(before, has_answered=lambda: self.has_answered),
            detection="Cache",
        )
        self.cache.use("u1", {("default", "a"): True})

    @staticmethod
    def never(namespace: str, name: str) -> Reflector[ConfigMap]:
        raise AssertionError("nothing is watched")

    async def fetch(self, namespace: str, name: str) -> ConfigMap:
        await asyncio.sleep(self.latency)
        if self.fault is not None:
            raise self.fault
        return ConfigMap(metadata=ObjectMeta(name=name, resource_version=self.text), data={"k": self.text})

    async def text_of(self) -> str:
        return (await self.cache.get("default", "a", fresh=True)).data["k"]


async def after_an_agent() -> Server:
    """With what one that had an answer has left."""
    first = Server(Remembered())
    assert await first.text_of() == "old"
    return Server(Remembered(first.known.saved))


@virtual_time
async def test_what_was_known_is_believed_when_the_server_says_nothing() -> None:
    server = await after_an_agent()
    server.latency = FOREVER
    began = asyncio.get_running_loop().time()
    assert await server.text_of() == "old"
    assert asyncio.get_running_loop().time() - began == pytest.approx(2.0)
    assert [await server.text_of() for _ in range(3)] == ["old"] * 3
    assert asyncio.get_running_loop().time() - began == pytest.approx(2.0)


@virtual_time
async def test_what_was_known_is_believed_at_once_when_the_server_is_not_there() -> None:
    server = await after_an_agent()
    server.fault = Retry("connection refused")
    began = asyncio.get_running_loop().time()
    assert await server.text_of() == "old"
    assert asyncio.get_running_loop().time() == began
    assert KEY in server.known.saved


@virtual_time
async def test_a_server_that_has_answered_anything_is_waited_for() -> None:
    server = await after_an_agent()
    server.has_answered, server.latency, server.text = True, 20.0, "new"
    assert await server.text_of() == "new"
    assert b'"new"' in server.known.saved[KEY]


@virtual_time
async def test_what_the_server_says_counts_for_more() -> None:
    server = await after_an_agent()
    server.fault = NotFound("404")
    with pytest.raises(NotFound, match='configmap "a" not found'):
        await server.text_of()
    assert KEY not in server.known.saved


@virtual_time
async def test_what_nobody_uses_any_more_is_not_kept() -> None:
    server = await after_an_agent()
    server.cache.use("u1", {})
    assert server.known.saved == {}


@virtual_time
async def test_what_cannot_be_read_is_not_believed(caplog: pytest.LogCaptureFixture) -> None:
    server = Server(Remembered({KEY: b"{"}))
    server.fault = Retry("connection refused")
    with pytest.raises(Retry, match="connection refused"):
        await server.text_of()
    assert "what was kept of configmap default/a cannot be read" in caplog.text


@virtual_time
async def test_whoever_waits_for_a_secret_that_is_not_kept_is_told_how_it_could_be() -> None:
    async def nobody(namespace: str, name: str) -> ConfigMap:
        raise Retry("connection refused")

    before = Before(Remembered(secrets=False), has_answered=lambda: False)
    cache = ObjectCache("secret", ConfigMap, nobody, Server.never, before=before, detection="Cache")
    with pytest.raises(Retry, match="connection refused; it is not kept on this machine, --keep-secrets would"):
        await cache.get("default", "a")


# --- the other kinds, over HTTP


class Answers:
    """A server that answers until it is told not to."""

    def __init__(self) -> None:
        self.is_there = True

    async def __call__(self, request: web.BaseRequest) -> web.Response:
        if not self.is_there:
            await asyncio.sleep(60)
        if request.path.endswith("/token"):
            status = {"token": "t1", "expirationTimestamp": "2026-01-01T00:00:00Z"}
            return web.json_response({"spec": {"expirationSeconds": 3600}, "status": status}, status=201)
        return web.json_response({"metadata": {"name": "sandboxed"}, "handler": "runsc"})

    @asynccontextmanager
    async def client(self) -> AsyncIterator[ApiClient]:
        async with serving(self) as port:
            config = ClientConfig(Cluster(server=f"http://127.0.0.1:{port}"), User())
            async with ApiClient(Credentials(config, environ={})) as client:
                yield client


async def test_a_token_of_before_is_given_to_its_pod_even_after_its_end() -> None:
    server, before, pod = Answers(), Remembered(), make_pod(uid="u1")
    async with server.client() as client:
        assert await PodTokens(client, before=Before(before)).token("default", "a", "", 3600, pod) == "t1"
    assert set(before.saved) == {("token", "u1")}
    server.is_there, later = False, Remembered(before.saved)
    async with server.client() as client:
        tokens = PodTokens(client, before=Before(later, has_answered=lambda: client.has_answered))
        async with asyncio.timeout(5):
            assert await tokens.token("default", "a", "", 3600, pod) == "t1"
        assert tokens.renewal_in("u1") == 10.0  # another is asked for as soon as there may be one
        server.is_there = True
        assert await tokens.token("default", "a", "", 3600, pod) == "t1"
        tokens.forget("u1")
        assert later.saved == {}


async def test_a_runtime_class_and_services_are_what_they_were() -> None:
    server, before = Answers(), Remembered({("services",): b'[{"metadata":{"namespace":"default","name":"db"}}]'})
    async with server.client() as client:
        assert await KubeRuntimeClasses(client, Before(before)).handler("sandboxed") == "runsc"
    server.is_there, later = False, Remembered(before.saved)
    async with server.client() as client, asyncio.timeout(10):
        away = Before(later, has_answered=lambda: client.has_answered)
        assert await KubeRuntimeClasses(client, away).handler("sandboxed") == "runsc"
        view = ServiceView(client, away)
        await view.told(5.0)
        assert [each.metadata.name for each in view.of("default")] == ["db"]
