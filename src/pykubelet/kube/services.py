"""All services, followed: a container that starts is told at once where they are. And their endpoints, where this node
answers for services."""

import asyncio

from pykubelet.api.meta import ObjectMeta
from pykubelet.api.services import SERVICE_LABEL, EndpointSlice, Service
from pykubelet.api.struct import changed
from pykubelet.kube.before import Before
from pykubelet.kube.client import ApiClient, object_path
from pykubelet.kube.followed import Followed
from pykubelet.pod.container.service_env import MASTER_NAMESPACE, MASTER_SERVICE


class ServiceView(Followed[Service]):
    """`before` has those that an earlier agent knew: they count until the server has told what there is."""

    def __init__(self, server: ApiClient, before: Before | None = None) -> None:
        super().__init__(server, object_path("services"), Service, _slim)
        self._before = before or Before()
        self._recalled = self._before.recall(tuple[Service, ...], "services")

    async def told(self, seconds: float) -> None:
        """Wait until it is known what there is, if only from before. Raises TimeoutError."""
        async with asyncio.timeout(seconds):
            if self._recalled is not None and not self.synced.is_set():
                await self._before.or_else(self.synced.wait(), False)
            else:
                await self.synced.wait()

    def of(self, namespace: str) -> tuple[Service, ...]:
        """Those of a namespace, and the API server's own."""
        known = self.items.values() if self.synced.is_set() else self._recalled or ()
        return tuple(each for each in known if each.metadata.namespace == namespace or _is_master(each.metadata))

    def _has_changed(self) -> None:
        if self.synced.is_set():
            self._recalled = None
            self._before.save("services", value=lambda: tuple(self.items.values()))


class SliceView(Followed[EndpointSlice]):
    def __init__(self, server: ApiClient) -> None:
        path = object_path("endpointslices", group="discovery.k8s.io/v1")
        super().__init__(server, path, EndpointSlice, _slim_slice, quiet=True)


def _is_master(meta: ObjectMeta) -> bool:
    return (meta.namespace, meta.name) == (MASTER_NAMESPACE, MASTER_SERVICE)


def _slim(service: Service) -> Service:
    """A cluster has thousands; what is told of them fits in few words."""
    return changed(service, metadata=_slim_meta(service.metadata))


def _slim_slice(each: EndpointSlice) -> EndpointSlice:
    name = each.metadata.labels.get(SERVICE_LABEL, "")
    return changed(each, metadata=changed(_slim_meta(each.metadata), labels={SERVICE_LABEL: name}))


def _slim_meta(meta: ObjectMeta) -> ObjectMeta:
    return ObjectMeta(
        namespace=meta.namespace, name=meta.name, uid=meta.uid, creation_timestamp=meta.creation_timestamp
    )
