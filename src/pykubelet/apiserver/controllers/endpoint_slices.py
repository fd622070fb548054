"""Endpoints in the form that clients ask for today: slices, each of one family of addresses and one set of ports.

They say what the endpoints of the same name say, whoever says that: our own controller, or people.
"""

import hashlib
import ipaddress
from collections.abc import Iterator
from itertools import islice
from typing import Any, Final

import msgspec

from pykubelet.apiserver.controllers.client import ControllerClient, Kind
from pykubelet.apiserver.controllers.endpoints import ENDPOINTS
from pykubelet.apiserver.objects import Object, at

SLICES: Final[Kind] = ("discovery.k8s.io", "endpointslices")
_MANAGED: Final = "endpointslice.kubernetes.io/managed-by"
_MANAGER: Final = "endpointslice-controller.k8s.io"
_SERVICE: Final = "kubernetes.io/service-name"
_LARGEST: Final = 100
_LOOK_AGAIN: Final = 300.0


def slices(endpoints: Object) -> list[Object]:
    """What the endpoints say, in slices. The same again has the same names."""
    metadata = endpoints["metadata"]
    found = []
    for subset in endpoints.get("subsets") or ():
        ports = [_port(each) for each in subset.get("ports") or ()]
        for family in ("IPv4", "IPv6"):
            each = iter([one for one in _endpoints(subset) if (":" in one["addresses"][0]) is (family == "IPv6")])
            number = 0
            while part := list(islice(each, _LARGEST)):
                mark = hashlib.sha256(msgspec.json.encode([family, ports, number])).hexdigest()[:5]
                found.append(_slice(metadata, mark, {"addressType": family, "endpoints": part, "ports": ports}))
                number += 1
    return found


def _endpoints(subset: Object) -> Iterator[Object]:
    for name, is_ready in (("addresses", True), ("notReadyAddresses", False)):
        for each in subset.get(name) or ():
            if not _is_of_a_network(each["ip"]):
                continue
            conditions = {"ready": is_ready, "serving": is_ready, "terminating": False}
            more = {key: each[key] for key in ("hostname", "nodeName", "targetRef") if each.get(key)}
            yield {"addresses": [each["ip"]], "conditions": conditions, **more}


def _is_of_a_network(ip: str) -> bool:
    """A server that is there for its own machine alone has an address that no slice may have."""
    address = ipaddress.ip_address(ip)
    return not (address.is_loopback or address.is_link_local or address.is_multicast or address.is_unspecified)


def _port(port: Object) -> Object:
    """A port without a name has an empty one here."""
    return {"name": "", "protocol": "TCP", **port}


def _slice(metadata: Object, mark: str, content: Object) -> Object:
    name, namespace = metadata["name"], metadata["namespace"]
    labels = {_SERVICE: name, _MANAGED: _MANAGER}
    return {"metadata": {"name": f"{name}-{mark}", "namespace": namespace, "labels": labels}, **content}


class EndpointSlices:
    def __init__(self, client: ControllerClient) -> None:
        self._client = client

    async def run(self) -> None:
        await self._client.follow(self.sync, ENDPOINTS, SLICES, most=_LOOK_AGAIN)

    async def sync(self) -> None:
        there = {
            (each["metadata"]["namespace"], each["metadata"]["name"]): each
            for each in await self._client.all(SLICES)
            if at(each, "metadata.labels", {}).get(_MANAGED) == _MANAGER
        }
        for endpoints in await self._client.views(ENDPOINTS, slices):
            for wanted in endpoints:
                key = (wanted["metadata"]["namespace"], wanted["metadata"]["name"])
                with self._client.apart(f"endpoint slice {'/'.join(key)}"):
                    await self._say(wanted, there.pop(key, None))
        for key, left in there.items():
            with self._client.apart(f"endpoint slice {'/'.join(key)}"):
                await self._client.find(ENDPOINTS, key[0], at(left, "metadata.labels", {}).get(_SERVICE, ""))
                await self._client.remove(SLICES, left)

    async def _say(self, wanted: Object, there: Object | None) -> None:
        if there is None:
            await self._client.create(SLICES, wanted)
        elif _content(there) != _content(wanted):
            await self._client.change(SLICES, there, lambda live: {**live, **_content(wanted)})


def _content(one: Object) -> dict[str, Any]:
    return {name: one.get(name) for name in ("addressType", "endpoints", "ports")}
