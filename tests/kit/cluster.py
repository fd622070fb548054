"""The objects of a cluster in memory, for those who work on them from inside the API server."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

from cryptography.hazmat.primitives.asymmetric import ec

from pykubelet.apiserver.backend import Backend
from pykubelet.apiserver.controllers.all import Controller, Means
from pykubelet.apiserver.controllers.client import ControllerClient, Kind
from pykubelet.apiserver.objects import Object, stored
from pykubelet.apiserver.schema.resources import ROOT
from pykubelet.apiserver.security.addresses import ClusterAddresses
from pykubelet.apiserver.security.tokens import ServiceAccountTokens
from pykubelet.apiserver.settings import ApiSettings
from pykubelet.apiserver.store.memory import MemoryStore
from pykubelet.apiserver.store.port import Entry, Listing
from pykubelet.apiserver.store.watch_cache import WatchCache
from pykubelet.base.errors import Retry
from pykubelet.base.tasks import supervise
from pykubelet.web.authority import Authority

ADDRESSES = ClusterAddresses(
    lambda: ("api.example", "kubernetes", "kubernetes.default.svc", "10.0.0.5", "127.0.0.1"), 6443, "10.96.0.0/16", {}
)
"""Of an API server on a machine that it shares with others."""
START = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


class Clock:
    def __init__(self) -> None:
        self.time = START

    def __call__(self) -> datetime:
        return self.time

    def pass_(self, seconds: float) -> None:
        self.time += timedelta(seconds=seconds)


def owners(obj: Object) -> list[tuple[str, str | None]]:
    """Who is named in its managedFields, each with the part."""
    return [(each["manager"], each.get("subresource")) for each in obj["metadata"].get("managedFields", ())]


class UnsteadyStore(MemoryStore):
    """Others write in between, and at times nobody answers."""

    def __init__(self) -> None:
        super().__init__()
        self.is_away = False
        self.meanwhile: list[tuple[str, Callable[[], Awaitable[object]]]] = []

    def before_write(self, key: str, what: Callable[[], Awaitable[object]]) -> None:
        """Do this once, just before the key is written next: whoever writes it comes too late."""
        self.meanwhile.append((f"{ROOT}{key}", what))

    @property
    def newest(self) -> int | None:
        return None if self.is_away else super().newest

    async def get(self, key: str) -> Entry | None:
        self._answer()
        return await super().get(key)

    async def list(self, prefix: str, *, limit: int = 0, start_key: str = "", revision: int = 0) -> Listing:
        self._answer()
        return await super().list(prefix, limit=limit, start_key=start_key, revision=revision)

    async def create(self, key: str, value: bytes) -> int:
        await self._others(key)
        return await super().create(key, value)

    async def update(self, key: str, value: bytes, *, revision: int) -> int:
        await self._others(key)
        return await super().update(key, value, revision=revision)

    async def delete(self, key: str, *, revision: int) -> Entry:
        await self._others(key)
        return await super().delete(key, revision=revision)

    async def revision(self) -> int:
        self._answer()
        return await super().revision()

    async def _others(self, key: str) -> None:
        self._answer()
        due = [each for each in self.meanwhile if each[0] == key]
        self.meanwhile = [each for each in self.meanwhile if each not in due]
        for _, what in due:
            await what()

    def _answer(self) -> None:
        if self.is_away:
            raise Retry("the store is away")


class TestCluster(ControllerClient):
    """With a clock that a test moves, and short ways to put objects in."""

    __test__ = False

    def __init__(self, backend: Backend, store: UnsteadyStore, clock: Clock) -> None:
        super().__init__(backend)
        self.store = store
        self.clock = clock

    async def add(self, group: str, plural: str, obj: Object) -> Object:
        """As if it had always been there: as it is given, with its defaults and a uid."""
        resource = self.resources.of(group, plural)
        given = {"uid": f"uid-of-{obj['metadata']['name']}", "creationTimestamp": "2026-01-02T03:04:05Z"}
        metadata = {**given, **obj["metadata"]}
        whole = {"apiVersion": resource.api_version, "kind": resource.kind, **obj, "metadata": metadata}
        strategy = self.backend.strategy(resource)
        made = strategy.normal(whole)
        key = resource.key(metadata.get("namespace", ""), metadata["name"])
        revision = await self.backend.store.create(key, stored(strategy.to_storage(made)))
        return {**made, "metadata": {**made["metadata"], "resourceVersion": str(revision)}}

    async def pod(self, name: str, spec: dict[str, Any] | None = None, **more: Any) -> Object:
        metadata = {"name": name, "namespace": "default", **more.pop("metadata", {})}
        whole = {"containers": [{"name": "main"}], "schedulerName": "default-scheduler", **(spec or {})}
        whole["containers"] = [{"image": "x", **each} for each in whole["containers"]]
        return await self.add("", "pods", {"metadata": metadata, "spec": whole, "status": {"phase": "Pending"}, **more})

    async def node(
        self, name: str, *, ready: str = "True", spec: dict[str, Any] | None = None, **status: Any
    ) -> Object:
        allocatable = {"cpu": "2", "memory": "4Gi", "pods": "10"}
        conditions = [{"type": "Ready", "status": ready, "lastHeartbeatTime": "2026-01-02T03:04:05Z"}]
        whole = {"allocatable": allocatable, "conditions": conditions, **status}
        return await self.add("", "nodes", {"metadata": {"name": name}, "spec": spec or {}, "status": whole})

    async def get(self, plural: str, name: str, namespace: str = "default", group: str = "") -> Any:
        return await self.find((group, plural), namespace, name)

    async def label(self, kind: Kind, obj: Object, **labels: str) -> None:
        """What somebody else might do at any moment."""
        await self.change(kind, obj, lambda live: {**live, "metadata": {**live["metadata"], "labels": labels}})

    async def events(self) -> list[tuple[str, str]]:
        return [(each["reason"], each["message"]) for each in await self.all(("", "events"))]


def means(c: TestCluster) -> Means:
    """What controllers are made of; nobody knows what pods use."""

    async def measure(pods: list[Object]) -> list[Object]:
        return []

    return Means(c, Authority.make(START), ADDRESSES, tokens(c), measure, "")


def tokens(c: TestCluster) -> ServiceAccountTokens:
    """Those of its service accounts."""
    return ServiceAccountTokens(ec.generate_private_key(ec.SECP256R1()), c.backend.find, now=c.clock)


@asynccontextmanager
async def cluster() -> AsyncGenerator[TestCluster, None]:
    store, clock = UnsteadyStore(), Clock()
    cache = WatchCache(store, ROOT)
    running = asyncio.create_task(cache.run())
    try:
        made = TestCluster(Backend(store, cache, ApiSettings(), clock), store, clock)
        for namespace in ("default", "kube-system", "kube-public", "kube-node-lease"):
            await made.add("", "namespaces", {"metadata": {"name": namespace}})
        yield made
        assert not store.meanwhile, "somebody was meant to write in between, and nobody wrote"
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await store.close()


@asynccontextmanager
async def running(controller: Controller, *, supervised: bool = False) -> AsyncGenerator[None, None]:
    """A controller at its work, which it does not give up by itself, unless it is supervised: then it begins again."""
    task = asyncio.create_task(supervise("the controller", controller.run) if supervised else controller.run())
    try:
        yield
        assert not task.done(), task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
