"""What a cluster cannot do without, made when the server starts, and the small loops that keep its house in order."""

import asyncio
import ipaddress
import logging
from datetime import timedelta
from typing import Any, Final

from pykubelet.api.struct import rfc3339
from pykubelet.apiserver.backend import Backend
from pykubelet.apiserver.objects import Object, at
from pykubelet.apiserver.status import ApiError
from pykubelet.apiserver.store.port import Event
from pykubelet.apiserver.strategies.services import ServiceStrategy
from pykubelet.base.backoff import Backoff
from pykubelet.base.errors import PykubeletError, Retry
from pykubelet.base.tasks import every

log = logging.getLogger(__name__)

NAMESPACES: Final = ("default", "kube-system", "kube-public", "kube-node-lease")
_PRIORITIES: Final = (
    ("system-cluster-critical", 2000000000, "Used for system critical pods that must run in the cluster."),
    ("system-node-critical", 2000001000, "Used for system critical pods that must not be moved from their node."),
)
_SWEEP_EVERY: Final = 60.0


async def bootstrap(backend: Backend) -> None:
    """Make what is missing. What is there stays as it is."""
    for name in NAMESPACES:
        await _ensure(backend, "", "namespaces", {"metadata": {"name": name}})
    for name in NAMESPACES:
        await _ensure(backend, "", "serviceaccounts", {"metadata": {"name": "default", "namespace": name}})
    for name, value, text in _PRIORITIES:
        obj: Object = {"metadata": {"name": name}, "value": value, "description": text}
        await _ensure(backend, "scheduling.k8s.io", "priorityclasses", obj)
    await _ensure(backend, "", "services", _kubernetes_service(backend))
    await _ensure(backend, "", "endpoints", _kubernetes_endpoints(backend))


async def _ensure(backend: Backend, group: str, plural: str, given: Object) -> None:
    resource = backend.resources.of(group, plural)
    metadata = given["metadata"]
    if await backend.store.get(resource.key(metadata.get("namespace", ""), metadata["name"])):
        return
    strategy = backend.strategy(resource)
    obj = strategy.normal({"apiVersion": resource.api_version, "kind": resource.kind, **given})
    backend.stamp(obj)
    strategy.prepare_create(obj, backend.now())
    try:
        await strategy.admit(obj, None, "", backend)
        if isinstance(strategy, ServiceStrategy):
            await backend.release("networking.k8s.io", "ipaddresses", "", obj["spec"]["clusterIP"])
            await strategy.allocate(obj, backend)
        await backend.create(resource, obj)
    except ApiError as error:
        if error.reason != "AlreadyExists":
            raise


def _kubernetes_service(backend: Backend) -> Object:
    address = str(ipaddress.ip_network(backend.settings.service_range)[1])
    port = {"name": "https", "port": 443, "protocol": "TCP", "targetPort": backend.settings.advertise_port}
    labels = {"component": "apiserver", "provider": "kubernetes"}
    return {
        "metadata": {"name": "kubernetes", "namespace": "default", "labels": labels},
        "spec": {"clusterIP": address, "clusterIPs": [address], "ports": [port], "sessionAffinity": "None"},
    }


def _kubernetes_endpoints(backend: Backend) -> Object:
    settings = backend.settings
    port = {"name": "https", "port": settings.advertise_port, "protocol": "TCP"}
    return {
        "metadata": {"name": "kubernetes", "namespace": "default"},
        "subsets": [{"addresses": [{"ip": settings.advertise_address}], "ports": [port]}],
    }


async def keep_accounts(backend: Backend) -> None:
    """Every namespace has an account called default, for as long as it lives."""
    backoff = Backoff(0.2, 10.0, now=asyncio.get_running_loop().time)
    while True:
        try:
            await _follow_accounts(backend)
        except PykubeletError as error:
            log.debug("the watch over accounts begins anew: %s", error)
        await asyncio.sleep(backoff.next())


async def _follow_accounts(backend: Backend) -> None:
    namespaces, accounts = backend.resources.of("", "namespaces"), backend.resources.of("", "serviceaccounts")
    listing = await backend.cache.list_newest(namespaces.prefix)
    for entry in listing.entries:
        await _give_account(backend, backend.object_of(namespaces, entry.value, entry.revision))

    def wanted(event: Event) -> bool:
        if event.kind == "put":
            return event.is_new and event.key.startswith(namespaces.prefix)
        return event.key.startswith(accounts.prefix) and event.key.endswith("/default")

    async for event in backend.cache.watch("/registry/", since=listing.revision, wanted=wanted):
        if isinstance(event, Event):
            name = event.key.removeprefix(namespaces.prefix).removeprefix(accounts.prefix).split("/")[0]
            namespace = await backend.find("", "namespaces", "", name)
            if namespace is not None:
                await _give_account(backend, namespace)


async def _give_account(backend: Backend, namespace: Object) -> None:
    if at(namespace, "metadata.deletionTimestamp"):
        return
    name = namespace["metadata"]["name"]
    await _ensure(backend, "", "serviceaccounts", {"metadata": {"name": "default", "namespace": name}})


async def forget_events(backend: Backend) -> None:
    """Events are news: after a while they go."""
    events = backend.resources.of("", "events")
    async for _ in every(_SWEEP_EVERY):
        before = rfc3339(backend.now() - timedelta(seconds=backend.settings.event_seconds))
        try:
            listing = await backend.cache.list(events.prefix)
        except Retry as error:
            log.debug("events are not looked at now: %s", error)
            continue
        for entry in listing.entries:
            if "told" not in entry.cache:
                entry.cache["told"] = _last_told(backend.object_of(events, entry.value, entry.revision))
            if entry.cache["told"] and entry.cache["told"] < before:
                try:
                    await backend.store.delete(entry.key, revision=entry.revision)
                except PykubeletError as error:
                    log.debug("event %s stays for now: %s", entry.key, error)
                await asyncio.sleep(0)


def _last_told(event: Object) -> str:
    times: list[Any] = [
        at(event, "series.lastObservedTime"),
        event.get("lastTimestamp"),
        event.get("eventTime"),
        at(event, "metadata.creationTimestamp"),
    ]
    return max((str(time)[:19] + "Z" for time in times if time), default="")
