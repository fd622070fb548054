"""What services take out of a pool: addresses and ports of nodes.

Each one in use is an object of its own in the store, so that two services never get the same one, whoever else writes
into the store.
"""

import ipaddress
import random
from datetime import datetime
from typing import Any, Final

from pykubelet.api.field_errors import FieldError, invalid
from pykubelet.apiserver import status
from pykubelet.apiserver.objects import Object, at
from pykubelet.apiserver.strategies.base import Claims

NODE_PORTS: Final = range(30000, 32768)
_TRIES: Final = 200
_ADDRESSES: Final = ("networking.k8s.io", "ipaddresses")
_PORTS: Final = ("", "servicenodeports")
_SETTLED: Final = 60.0
"""Seconds after which nobody is still busy making the service that something was claimed for."""


def family_of(address: str) -> str:
    return "IPv6" if ":" in address else "IPv4"


def node_ports(service: Object | None) -> set[int]:
    """All ports of nodes that a service has."""
    spec = at(service, "spec", {})
    found = {port.get("nodePort", 0) for port in spec.get("ports") or ()} | {spec.get("healthCheckNodePort", 0)}
    return found - {0}


def address(service: Object | None) -> str:
    found = at(service, "spec.clusterIP", "")
    return "" if found == "None" else str(found)


class ServiceClaims:
    """What one write of a service takes, so that all of it can be given back when the write fails."""

    def __init__(self, service: Object, claims: Claims) -> None:
        self._service = service
        self._claims = claims
        self._done: list[tuple[tuple[str, str], str]] = []
        self._ports_of_others: set[int] | None = None
        """Looked at once, however many are wanted: two who want the same one are kept apart by their claims."""

    async def undo(self) -> None:
        for place, name in reversed(self._done):
            await self._claims.unclaim(*place, "", name)

    async def take_address(self, wanted: str) -> str:
        """This one, or any. Raises 422, and 500 when there is none left."""
        network = ipaddress.ip_network(self._claims.settings.service_range)
        if wanted:
            fault = ""
            if ipaddress.ip_address(wanted) not in network:
                fault = f"the provided IP is not in the valid range. The range of valid IPs is {network}"
            elif not await self._take(_ADDRESSES, wanted):
                fault = "provided IP is already allocated"
            if fault:
                raise self._refused(invalid("spec.clusterIPs", [wanted], f"failed to allocate IP {wanted}: {fault}"))
            return wanted
        size = network.num_addresses - 2
        for attempt in range(_TRIES):
            # The first addresses are left to those who ask for one, such as the cluster's name server.
            lowest = min(16 + size // 16, 256) if attempt < _TRIES // 2 and size > 64 else 2
            found = str(network[random.randint(lowest, max(size, lowest))])
            if await self._take(_ADDRESSES, found):
                return found
        raise status.internal(f"failed to allocate a serviceIP: range {network} is full")

    async def take_port(self, wanted: int, field: str) -> int:
        """This one, or any. Raises 422, and 500 when there is none left."""
        if self._ports_of_others is None:
            services = await self._claims.backend.all("", "services")
            self._ports_of_others = {port for each in services for port in node_ports(each)}
        taken = self._ports_of_others
        if wanted:
            fault = ""
            if wanted not in NODE_PORTS:
                ports = f"{NODE_PORTS[0]}-{NODE_PORTS[-1]}"
                fault = f"provided port is not in the valid range. The range of valid ports is {ports}"
            elif wanted in taken or not await self._take(_PORTS, str(wanted)):
                fault = "provided port is already allocated"
            if fault:
                raise self._refused(invalid(field, wanted, fault))
            return wanted
        free = [port for port in NODE_PORTS if port not in taken]
        for port in random.sample(free, min(_TRIES, len(free))):
            if await self._take(_PORTS, str(port)):
                return port
        raise status.internal("failed to allocate a nodePort: range is full")

    def _refused(self, error: FieldError) -> status.ApiError:
        return status.invalid("Service", "", self._service["metadata"].get("name", ""), [error])

    async def _take(self, place: tuple[str, str], name: str) -> bool:
        claims, metadata = self._claims, self._service["metadata"]
        parent = {"resource": "services", "namespace": metadata.get("namespace", ""), "name": metadata.get("name", "")}
        labels = {"ipaddress.kubernetes.io/ip-family": family_of(name)} if place == _ADDRESSES else {}
        claim: dict[str, Any] = {"metadata": {"name": name, "labels": labels}, "spec": {"parentRef": parent}}
        is_ours = await claims.claim(*place, claim)
        if not is_ours and (left := await self._left_behind(place, name)) is not None:
            await claims.unclaim(*place, "", name, left["metadata"]["uid"])
            is_ours = await claims.claim(*place, claim)
        if is_ours:
            self._done.append((place, name))
        return is_ours

    async def _left_behind(self, place: tuple[str, str], name: str) -> Object | None:
        """A claim whose service never came to be: its client hung up, or the store was away, between the two writes."""
        lookup = self._claims.backend
        claim = await lookup.find(*place, "", name)
        made = at(claim, "metadata.creationTimestamp", "")
        if claim is None or not made or (lookup.now() - datetime.fromisoformat(made)).total_seconds() < _SETTLED:
            return None
        parent = at(claim, "spec.parentRef", {})
        service = await lookup.find("", "services", parent.get("namespace", ""), parent.get("name", ""))
        is_used = address(service) == name if place == _ADDRESSES else int(name) in node_ports(service)
        return None if is_used else claim


async def give_back(service: Object, kept: Object | None, claims: Claims) -> None:
    """What the service had and the one that is there now has not."""
    if (gone := address(service)) and gone != address(kept):
        await claims.unclaim(*_ADDRESSES, "", gone)
    for port in node_ports(service) - node_ports(kept):
        await claims.unclaim(*_PORTS, "", str(port))
