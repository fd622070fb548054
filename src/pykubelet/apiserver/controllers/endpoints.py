"""Which pods stand behind each service: those that its selector finds, with the ports that it names."""

from collections.abc import Iterable
from typing import Any, Final

from msgspec import Struct

from pykubelet.apiserver.controllers.client import PODS, ControllerClient, Kind
from pykubelet.apiserver.controllers.conditions import condition
from pykubelet.apiserver.objects import Object, at, has_ended
from pykubelet.apiserver.store.port import Event

SERVICES: Final[Kind] = ("", "services")
ENDPOINTS: Final[Kind] = ("", "endpoints")
_MANAGED: Final = "endpoints.kubernetes.io/managed-by"
_MANAGER: Final = "endpoint-controller"
_LOOK_AGAIN: Final = 300.0


class Backer(Struct, frozen=True):
    """A pod as a service sees it."""

    namespace: str
    name: str
    uid: str
    node: str
    address: str
    labels: dict[str, str]
    ports: dict[tuple[str, str], int]
    """The number of each named port, by protocol and name."""
    is_ready: bool
    hostname: str = ""
    subdomain: str = ""
    """The headless service that gives it a name of its own."""


class Behind(Struct, frozen=True):
    """A service as far as its endpoints go."""

    namespace: str
    name: str
    uid: str
    selector: dict[str, str]
    ports: list[dict[str, Any]]
    labels: dict[str, str]
    takes_unready: bool


def backer(pod: Object) -> Backer | None:
    """None for a pod that nobody can be sent to, ever."""
    address = at(pod, "status.podIP", "")
    if not address or has_ended(pod):
        return None
    ports = {
        (port.get("protocol", "TCP"), port["name"]): port["containerPort"]
        for container in at(pod, "spec.containers", [])
        for port in container.get("ports") or ()
        if port.get("name")
    }
    is_ready = condition(pod, "Ready").get("status") == "True" and not at(pod, "metadata.deletionTimestamp")
    metadata = pod["metadata"]
    return Backer(
        metadata["namespace"],
        metadata["name"],
        metadata.get("uid", ""),
        at(pod, "spec.nodeName", ""),
        address,
        metadata.get("labels") or {},
        ports,
        is_ready,
        at(pod, "spec.hostname", ""),
        at(pod, "spec.subdomain", ""),
    )


def behind(service: Object) -> Behind | None:
    """None for a service whose endpoints somebody else says."""
    spec = service.get("spec") or {}
    if not spec.get("selector") or spec.get("type") == "ExternalName" or at(service, "metadata.deletionTimestamp"):
        return None
    metadata = service["metadata"]
    return Behind(
        metadata["namespace"],
        metadata["name"],
        metadata.get("uid", ""),
        spec["selector"],
        spec.get("ports") or [],
        metadata.get("labels") or {},
        bool(spec.get("publishNotReadyAddresses")),
    )


def subsets(service: Behind, pods: Iterable[Backer]) -> list[dict[str, Any]]:
    """Pods whose ports are the same are listed together."""
    groups: dict[tuple[tuple[str, str, int], ...], dict[str, list[dict[str, Any]]]] = {}
    for pod in sorted(pods, key=lambda each: (each.address, each.name)):
        if pod.namespace != service.namespace or not _selects(service.selector, pod.labels):
            continue
        ports = _ports(service, pod)
        if service.ports and not ports:
            continue
        target = {"kind": "Pod", "namespace": pod.namespace, "name": pod.name, "uid": pod.uid}
        address = {"ip": pod.address, **({"nodeName": pod.node} if pod.node else {}), "targetRef": target}
        if pod.hostname and pod.subdomain == service.name:
            address["hostname"] = pod.hostname
        where = "addresses" if pod.is_ready or service.takes_unready else "notReadyAddresses"
        groups.setdefault(ports, {}).setdefault(where, []).append(address)
    return [
        {**lists, **({"ports": [_port(*each) for each in ports]} if ports else {})}
        for ports, lists in sorted(groups.items())
    ]


def _selects(selector: dict[str, str], labels: dict[str, str]) -> bool:
    return all(labels.get(key) == value for key, value in selector.items())


def _ports(service: Behind, pod: Backer) -> tuple[tuple[str, str, int], ...]:
    found = []
    for port in service.ports:
        protocol, target = port.get("protocol", "TCP"), port.get("targetPort", port["port"])
        number = pod.ports.get((protocol, target)) if isinstance(target, str) else target or port["port"]
        if number:
            found.append((port.get("name", ""), protocol, number))
    return tuple(found)


def _port(name: str, protocol: str, number: int) -> dict[str, Any]:
    return {**({"name": name} if name else {}), "port": number, "protocol": protocol}


class EndpointsController:
    def __init__(self, client: ControllerClient) -> None:
        self._client = client
        self._pods = client.resource(PODS).prefix
        self._selects = True

    async def run(self) -> None:
        await self._client.follow(self.sync, SERVICES, PODS, ENDPOINTS, wanted=self._matters, most=_LOOK_AGAIN)

    def _matters(self, event: Event) -> bool:
        """Pods do if some service selects any."""
        return self._selects or not event.key.startswith(self._pods)

    async def sync(self) -> None:
        services = [each for each in await self._client.views(SERVICES, behind) if each is not None]
        self._selects = bool(services)
        there = {(each["metadata"]["namespace"], each["metadata"]["name"]): each for each in await self._find_managed()}
        if services:
            pods = [each for each in await self._client.views(PODS, backer) if each is not None]
            for service in services:
                key = (service.namespace, service.name)
                with self._client.apart(f"endpoints {'/'.join(key)}"):
                    await self._say(service, subsets(service, pods), there.pop(key, None))
        for key, left in there.items():
            with self._client.apart(f"endpoints {'/'.join(key)}"):
                await self._client.find(SERVICES, *key)  # what a service wants that cannot be read is not known
                await self._client.remove(ENDPOINTS, left)

    async def _find_managed(self) -> list[Object]:
        every = await self._client.all(ENDPOINTS)
        return [each for each in every if at(each, "metadata.labels", {}).get(_MANAGED) == _MANAGER]

    async def _say(self, service: Behind, found: list[dict[str, Any]], there: Object | None) -> None:
        labels = {**service.labels, _MANAGED: _MANAGER}
        if there is None:
            metadata = {"name": service.name, "namespace": service.namespace, "labels": labels}
            await self._client.create(ENDPOINTS, {"metadata": metadata, **({"subsets": found} if found else {})})
        elif there.get("subsets", []) != found or there["metadata"]["labels"] != labels:
            await self._client.change(ENDPOINTS, there, lambda live: _changed(live, labels, found))


def _changed(live: Object, labels: dict[str, str], found: list[dict[str, Any]]) -> Object:
    rest = {name: value for name, value in live.items() if name != "subsets"}
    metadata = {**live["metadata"], "labels": labels}
    return {**rest, "metadata": metadata, **({"subsets": found} if found else {})}
