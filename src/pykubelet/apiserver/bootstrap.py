"""What a cluster cannot do without, made when the server starts. What is there stays as it is."""

from typing import Final

from pykubelet.apiserver.backend import Backend
from pykubelet.apiserver.objects import Object
from pykubelet.apiserver.security.rbac.bootstrap import reconcile_policy
from pykubelet.apiserver.settings import ApiSettings, first_service
from pykubelet.apiserver.writer.author import KUBE_APISERVER
from pykubelet.apiserver.writer.writer import Writer

NAMESPACES: Final = ("default", "kube-system", "kube-public", "kube-node-lease")
_TRACKED: Final = "kube-apiserver-legacy-service-account-token-tracking"
"""Since when the use of tokens in secrets is known: kube-controller-manager asks for it."""
_PRIORITIES: Final = (
    ("system-cluster-critical", 2000000000, "Used for system critical pods that must run in the cluster."),
    ("system-node-critical", 2000001000, "Used for system critical pods that must not be moved from their node."),
)


async def bootstrap(backend: Backend) -> None:
    for name in NAMESPACES:
        await _ensure(backend, "", "namespaces", {"metadata": {"name": name}})
    for name in NAMESPACES:
        await _ensure(backend, "", "serviceaccounts", {"metadata": {"name": "default", "namespace": name}})
    await reconcile_policy(backend)
    since = {"since": f"{backend.now():%Y-%m-%d}"}
    await _ensure(
        backend, "", "configmaps", {"metadata": {"name": _TRACKED, "namespace": "kube-system"}, "data": since}
    )
    for name, value, text in _PRIORITIES:
        obj: Object = {"metadata": {"name": name}, "value": value, "description": text}
        await _ensure(backend, "scheduling.k8s.io", "priorityclasses", obj)
    await _ensure(backend, "", "services", _kubernetes_service(backend.settings))
    await _advertise(backend)
    if backend.settings.dns_address:
        await _ensure(backend, "", "services", _dns_service(backend.settings.dns_address))


async def _ensure(backend: Backend, group: str, plural: str, given: Object) -> None:
    resource, metadata, writer = backend.resources.of(group, plural), given["metadata"], Writer(backend, KUBE_APISERVER)
    if await backend.store.get(resource.key(metadata.get("namespace", ""), metadata["name"])):
        return
    await backend.strategy(resource).release(given, None, writer)  # what one of before may have left behind
    await writer.ensure(resource, given)


async def _advertise(backend: Backend) -> None:
    """Where this server is now; it may have been elsewhere before."""
    given, resource = _kubernetes_endpoints(backend.settings), backend.resources.of("", "endpoints")
    metadata, writer = given["metadata"], Writer(backend, KUBE_APISERVER)
    if not await writer.ensure(resource, given):
        await writer.change(
            resource,
            metadata["namespace"],
            metadata["name"],
            lambda old: None if old.get("subsets") == given["subsets"] else {**old, "subsets": given["subsets"]},
        )


def _dns_service(address: str) -> Object:
    """By the name that everybody looks for. It selects nothing: each node answers its own pods."""
    ports = [
        {"name": name, "port": 53, "protocol": protocol} for name, protocol in (("dns", "UDP"), ("dns-tcp", "TCP"))
    ]
    labels = {"k8s-app": "kube-dns", "kubernetes.io/cluster-service": "true"}
    return {
        "metadata": {"name": "kube-dns", "namespace": "kube-system", "labels": labels},
        "spec": {"clusterIP": address, "clusterIPs": [address], "ports": ports, "sessionAffinity": "None"},
    }


def _kubernetes_service(settings: ApiSettings) -> Object:
    address = first_service(settings.service_range)
    port = {"name": "https", "port": 443, "protocol": "TCP", "targetPort": settings.advertise_port}
    labels = {"component": "apiserver", "provider": "kubernetes"}
    return {
        "metadata": {"name": "kubernetes", "namespace": "default", "labels": labels},
        "spec": {"clusterIP": address, "clusterIPs": [address], "ports": [port], "sessionAffinity": "None"},
    }


def _kubernetes_endpoints(settings: ApiSettings) -> Object:
    port = {"name": "https", "port": settings.advertise_port, "protocol": "TCP"}
    return {
        "metadata": {"name": "kubernetes", "namespace": "default"},
        "subsets": [{"addresses": [{"ip": settings.advertise_address}], "ports": [port]}],
    }
