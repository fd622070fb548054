"""What pods use of an API server, in memory, behind the PodObjects port."""

import asyncio
from collections.abc import AsyncGenerator

from pykubelet.api.meta import ObjectMeta
from pykubelet.api.objects import ConfigMap, Secret
from pykubelet.api.pod import Pod
from pykubelet.api.services import Service, ServicePort, ServiceSpec
from pykubelet.base.errors import NotFound, PykubeletError


class MemoryObjects:
    """`away`, while set, is what every call fails with."""

    def __init__(self) -> None:
        self.config_maps: dict[str, ConfigMap] = {}
        self.secrets: dict[str, Secret] = {}
        self.all_services: list[Service] = []
        self.token = "token-1"
        self.renewal: float | None = None
        self.away: PykubeletError | None = None
        self.asked: list[tuple[str, str, bool]] = []
        """The kind, the name, and whether it had to be fresh."""
        self.tokens: list[tuple[str, str, str, int | None, str]] = []
        self.registered: dict[str, Pod] = {}
        self.forgotten: list[str] = []
        self.changed: asyncio.Queue[frozenset[str]] = asyncio.Queue()
        """Pods to be woken."""

    def register(self, pod: Pod) -> None:
        self.registered[pod.metadata.uid] = pod

    async def changes(self) -> AsyncGenerator[frozenset[str], None]:
        while True:
            yield await self.changed.get()

    async def secret(self, pod: Pod, name: str, *, fresh: bool = False) -> Secret:
        self._ask("secret", name, fresh)
        if name not in self.secrets:
            raise NotFound(f'secret "{name}" not found')
        return self.secrets[name]

    async def config_map(self, pod: Pod, name: str, *, fresh: bool = False) -> ConfigMap:
        self._ask("configmap", name, fresh)
        if name not in self.config_maps:
            raise NotFound(f'configmap "{name}" not found')
        return self.config_maps[name]

    async def service_account_token(
        self, namespace: str, name: str, audience: str, seconds: int | None, pod: Pod
    ) -> str:
        self._ask("token", name, False)
        self.tokens.append((namespace, name, audience, seconds, pod.metadata.uid))
        return self.token

    def renewal_in(self, uid: str) -> float | None:
        return self.renewal

    def forget(self, uid: str) -> None:
        self.forgotten.append(uid)
        self.registered.pop(uid, None)

    async def services(self, namespace: str, *, wait: bool = True) -> tuple[Service, ...]:
        self._ask("services", namespace, wait)
        return tuple(self.all_services)

    def _ask(self, kind: str, name: str, fresh: bool) -> None:
        self.asked.append((kind, name, fresh))
        if self.away is not None:
            raise self.away


def service(name: str, ip: str, *ports: ServicePort, namespace: str = "default") -> Service:
    spec = ServiceSpec(cluster_ip=ip, ports=ports or (ServicePort(port=80),))
    return Service(metadata=ObjectMeta(name=name, namespace=namespace), spec=spec)
