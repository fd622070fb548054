"""What pods use of an API server besides themselves: config maps, secrets, tokens and services."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable
from datetime import UTC, datetime
from typing import Final, TypeVar

from pykubelet.api.objects import ConfigMap, Secret
from pykubelet.api.pod import Pod
from pykubelet.api.services import Service
from pykubelet.base.errors import Retry
from pykubelet.kube.before import Before
from pykubelet.kube.client import ApiClient, object_path
from pykubelet.kube.object_cache import ObjectCache
from pykubelet.kube.service_account_tokens import PodTokens
from pykubelet.kube.services import ServiceView
from pykubelet.kube.settings import ChangeDetection
from pykubelet.kube.watch import Reflector
from pykubelet.pod.container.failures import ObjectKind
from pykubelet.pod.container.references import object_uses

T = TypeVar("T", ConfigMap, Secret)

_PATIENCE: Final = 5.0


class KubeObjects:
    """The PodObjects port over HTTP. `services` have to be followed by somebody, and somebody has to await `run`."""

    def __init__(
        self,
        server: ApiClient,
        services: ServiceView,
        *,
        before: Before | None = None,
        detection: ChangeDetection = "Watch",
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._services = services
        self._tokens = PodTokens(server, before=before, now=now)
        self._pods: dict[str, Pod] = {}
        self._woken: set[str] = set()
        self._news = asyncio.Event()

        def cache(what: ObjectKind, resource: str, kind: type[T]) -> ObjectCache[T]:
            async def fetch(namespace: str, name: str) -> T:
                return await server.get(object_path(resource, namespace=namespace, name=name), kind)

            def reflector(namespace: str, name: str) -> Reflector[T]:
                params = {"fieldSelector": f"metadata.name={name}"}
                path = object_path(resource, namespace=namespace)
                return Reflector(server, path, kind, params=params, fresh=True, quiet=True)

            return ObjectCache(what, kind, fetch, reflector, before=before, detection=detection, changed=self._wake)

        self._secrets = cache("secret", "secrets", Secret)
        self._config_maps = cache("configmap", "configmaps", ConfigMap)

    async def run(self) -> None:
        """Keep up to date what the pods use, until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            try:
                self._watch_in(tasks)
                await asyncio.Event().wait()
            finally:
                self._watch_in(None)

    def _watch_in(self, tasks: asyncio.TaskGroup | None) -> None:
        self._secrets.watch_in(tasks)
        self._config_maps.watch_in(tasks)

    def register(self, pod: Pod) -> None:
        uid, namespace = pod.metadata.uid, pod.metadata.namespace
        if self._pods.get(uid) is not pod:
            self._pods[uid] = pod
            uses = object_uses(pod.spec)
            for what, cache in (("secret", self._secrets), ("configmap", self._config_maps)):
                cache.use(uid, {(namespace, name): follows for (kind, name), follows in uses.items() if kind == what})

    async def changes(self) -> AsyncGenerator[frozenset[str], None]:
        while True:
            await self._news.wait()
            self._news.clear()
            woken, self._woken = frozenset(self._woken), set()
            yield woken

    def _wake(self, uids: Iterable[str]) -> None:
        self._woken.update(uids)
        self._news.set()

    async def secret(self, pod: Pod, name: str, *, fresh: bool = False) -> Secret:
        return await self._secrets.get(pod.metadata.namespace, name, fresh=fresh)

    async def config_map(self, pod: Pod, name: str, *, fresh: bool = False) -> ConfigMap:
        return await self._config_maps.get(pod.metadata.namespace, name, fresh=fresh)

    async def service_account_token(
        self, namespace: str, name: str, audience: str, seconds: int | None, pod: Pod
    ) -> str:
        return await self._tokens.token(namespace, name, audience, seconds, pod)

    def renewal_in(self, uid: str) -> float | None:
        return self._tokens.renewal_in(uid)

    def forget(self, uid: str) -> None:
        self._tokens.forget(uid)
        self._pods.pop(uid, None)
        self._secrets.use(uid, {})
        self._config_maps.use(uid, {})

    async def services(self, namespace: str, *, wait: bool = True) -> tuple[Service, ...]:
        if wait:
            try:
                await self._services.told(_PATIENCE)
            except TimeoutError:
                what = "services have not yet been read at least once, cannot construct envvars"
                raise Retry(what, after=_PATIENCE) from None
        return self._services.of(namespace)
