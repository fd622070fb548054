"""All services, followed: a container that starts is told at once where they are, and the server is not asked."""

import asyncio
from contextlib import aclosing

from pykubelet.api.meta import ObjectMeta
from pykubelet.api.objects import Service
from pykubelet.api.struct import changed
from pykubelet.kube.client import ApiClient, object_path
from pykubelet.kube.watch import Changed, Deleted, Reflector, Relisted
from pykubelet.pod.container.service_env import MASTER_NAMESPACE, MASTER_SERVICE


class ServiceView:
    """`synced` is set once the server has told what there is."""

    def __init__(self, server: ApiClient) -> None:
        self.synced = asyncio.Event()
        self._services: dict[tuple[str, str], Service] = {}
        self._reflector = Reflector(server, object_path("services"), Service)

    def of(self, namespace: str) -> tuple[Service, ...]:
        """Those of a namespace, and the API server's own."""
        master = MASTER_NAMESPACE, MASTER_SERVICE
        return tuple(each for key, each in self._services.items() if key[0] == namespace or key == master)

    async def follow(self) -> None:
        """Keep them up to date until cancelled."""
        async with aclosing(self._reflector.events()) as events:
            async for event in events:
                match event:
                    case Relisted(services, unread):
                        old = self._services.values()
                        kept = {_key(each.metadata): each for each in old if each.metadata.uid in unread}
                        self._services = kept | {_key(each.metadata): _slim(each) for each in services}
                        self.synced.set()
                    case Changed(service):
                        self._services[_key(service.metadata)] = _slim(service)
                    case Deleted(meta):
                        self._services.pop(_key(meta), None)


def _key(meta: ObjectMeta) -> tuple[str, str]:
    return meta.namespace, meta.name


def _slim(service: Service) -> Service:
    """A cluster has thousands; what is told of them fits in few words."""
    meta = service.metadata
    return changed(service, metadata=ObjectMeta(namespace=meta.namespace, name=meta.name, uid=meta.uid))
