"""All services, followed: a container that starts is told at once where they are. And their endpoints, where this node
answers for services."""

from pykubelet.api.meta import ObjectMeta
from pykubelet.api.services import SERVICE_LABEL, EndpointSlice, Service
from pykubelet.api.struct import changed
from pykubelet.kube.client import ApiClient, object_path
from pykubelet.kube.followed import Followed
from pykubelet.pod.container.service_env import MASTER_NAMESPACE, MASTER_SERVICE


class ServiceView(Followed[Service]):
    def __init__(self, server: ApiClient) -> None:
        super().__init__(server, object_path("services"), Service, _slim)

    def of(self, namespace: str) -> tuple[Service, ...]:
        """Those of a namespace, and the API server's own."""
        master = MASTER_NAMESPACE, MASTER_SERVICE
        return tuple(each for key, each in self.items.items() if key[0] == namespace or key == master)


class SliceView(Followed[EndpointSlice]):
    def __init__(self, server: ApiClient) -> None:
        path = object_path("endpointslices", group="discovery.k8s.io/v1")
        super().__init__(server, path, EndpointSlice, _slim_slice, quiet=True)


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
