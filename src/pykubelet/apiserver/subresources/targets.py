"""Where a request is passed on to: an address that was looked at, and nothing that could become another one.

Nodes write down where they are and where their pods are. They must not lead the API server to itself, nor to what only
its machine can reach; and since a kubelet has to prove to be that of its node, none is taken for another.
"""

import asyncio
import random
import socket
from collections.abc import Awaitable, Callable, Iterator
from typing import Final

import msgspec

from pykubelet.api.rules.well_known import MIRROR_ANNOTATION
from pykubelet.apiserver import status
from pykubelet.apiserver.backend import Backend
from pykubelet.apiserver.objects import Object, at
from pykubelet.apiserver.security.addresses import Address, ClusterAddresses, Endpoint, address_of, shown

Resolve = Callable[[str], Awaitable[list[str]]]
"""a name -> its addresses"""

_ADDRESSES: Final = ("InternalIP", "ExternalIP", "Hostname")
_PORT: Final = 10250
_RESOLVING: Final = 5.0
_LONGEST_LABEL: Final = 63


class Target(msgspec.Struct, frozen=True):
    host: str
    """Always an address."""
    port: int
    shown: str
    where: str
    """For sentences."""
    name: str = ""
    """Whom the certificate at the other end has to be of."""


async def resolved(name: str) -> list[str]:
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(_RESOLVING):
            found = await loop.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    except (OSError, TimeoutError, UnicodeError):
        return []
    return [str(each[4][0]) for each in found]


class Targets:
    def __init__(self, addresses: ClusterAddresses, resolve: Resolve = resolved) -> None:
        self._addresses = addresses
        self._resolve = resolve

    async def kubelet(self, backend: Backend, name: str) -> Target:
        """Of a node: where an administrator says that it is, or else the node itself. Raises 400, 404 and 500."""
        node = await backend.live("nodes", "", name)
        where = f"the kubelet of node {name}"
        if any(len(label) > _LONGEST_LABEL for label in name.split(".")):
            raise status.bad_request(f"{where} can have no certificate: the name is too long for one")
        endpoint = self._addresses.kubelets.get(name)
        if endpoint is None:
            endpoint = await self._told(node)
            fault = await asyncio.to_thread(self._addresses.dial_fault, endpoint)
            if fault:
                there = shown(endpoint.address, endpoint.port)
                raise status.bad_request(
                    f"address not allowed: {where} is said to be at {there}, which is {fault}; if it is there, start "
                    f"the API server with --kubelet-endpoint {name}={there}"
                )
        return Target(str(endpoint.address), endpoint.port, shown(endpoint.address, endpoint.port), where, name)

    async def pod(self, backend: Backend, pod: Object, wanted: str) -> Target:
        """A port of a pod, by its number or its name; empty: its first. Raises 400."""
        metadata, text = pod["metadata"], at(pod, "status.podIP", "")
        if not text:
            raise status.bad_request(f"pod {metadata['name']} has no address yet")
        address, port = address_of(text), port_number(pod, wanted)
        if address is None:
            raise status.bad_request("address not allowed: the pod's address cannot be read")
        if fault := await self._pod_fault(backend, pod, Endpoint(address, port)):
            raise status.bad_request(f"address not allowed: {shown(address, port)} is {fault}")
        where = f"pod {metadata['namespace']}/{metadata['name']}"
        return Target(str(address), port, shown(address, port), where)

    async def service(self, backend: Backend, namespace: str, name: str, wanted: str) -> Target:
        """One of the pods behind a service, by the number or the name of the service's port; empty: the one that has no
        name. What people have written down as endpoints is not believed. Raises 400, 404 and 503."""
        service = await backend.live("services", namespace, name)
        if wanted.isascii() and wanted.isdigit():
            ports = [each for each in at(service, "spec.ports", []) if each["port"] == int(wanted)]
            if not ports:
                raise status.unavailable(f'no service port {wanted} found for service "{name}"', after=0)
            wanted = ports[0].get("name", "")
        endpoints = await backend.find("", "endpoints", namespace, name)
        found = list(_endpoints(endpoints or {}, wanted))
        random.shuffle(found)
        for address, port in found:
            reference = address.get("targetRef") or {}
            is_pod = reference.get("kind") == "Pod" and reference.get("namespace", namespace) == namespace
            pod = await backend.find("", "pods", namespace, reference.get("name", "")) if is_pod else None
            if pod is not None and at(pod, "status.podIP", "") == address["ip"]:
                return await self.pod(backend, pod, str(port))
        raise status.unavailable(f'no endpoints available for service "{name}"', after=0)

    async def _told(self, node: Object) -> Endpoint:
        """Where a node says that its kubelet is. A name is resolved once: what was looked at is what is called."""
        port = at(node, "status.daemonEndpoints.kubeletEndpoint.Port", 0) or _PORT
        for kind in _ADDRESSES:
            for text in _addresses_of(node, kind):
                found = [text] if kind != "Hostname" or address_of(text) else await self._resolve(text)
                addresses = [each for each in map(address_of, found) if each is not None]
                if addresses:
                    faults = [each for each in addresses if self._addresses.fault(each)]
                    return Endpoint((faults or addresses)[0], port)
        raise status.internal(
            f"no preferred addresses found for node {node['metadata']['name']}; known addresses: []",
        )

    async def _pod_fault(self, backend: Backend, pod: Object, endpoint: Endpoint) -> str:
        """Pods of the host's network share its address with the API server and with the node's agent: what these two
        have to say is not the pod's, and what else is there is only if the pod has declared it."""
        fault = await asyncio.to_thread(self._addresses.dial_fault, endpoint)
        if fault:
            return fault
        if endpoint in self._addresses.kubelets.values():
            return "a kubelet"
        for node in await backend.known("", "nodes"):
            port = at(node, "status.daemonEndpoints.kubeletEndpoint.Port", 0) or _PORT
            if port == endpoint.port and endpoint.address in _ips(node):
                return "a kubelet"
        if endpoint.address not in await asyncio.to_thread(self._addresses.own):
            return ""
        if endpoint.port not in _declared(pod):
            return "a port of the API server's machine that the pod does not declare: name it among its ports"
        is_mirror = MIRROR_ANNOTATION in at(pod, "metadata.annotations", {})
        if is_mirror and at(pod, "spec.nodeName") not in self._addresses.kubelets:  # what it declares, the node wrote
            return "of the API server's machine, and the pod is that of another node"
        return ""


def port_number(pod: Object, wanted: str) -> int:
    """A port by its number or its name; without one, the first that the pod declares. Raises 400."""
    if wanted.isascii() and wanted.isdigit() and 0 < int(wanted) < 65536:
        return int(wanted)
    ports = [port for each in pod["spec"].get("containers") or () for port in each.get("ports") or ()]
    for port in ports:
        if not wanted or port.get("name") == wanted:
            return int(port["containerPort"])
    if not wanted:
        return 80
    raise status.bad_request(f'pod {pod["metadata"]["name"]} has no port "{wanted}"')


def _endpoints(endpoints: Object, port: str) -> Iterator[tuple[Object, int]]:
    for subset in endpoints.get("subsets") or ():
        numbers = [each["port"] for each in subset.get("ports") or () if each.get("name", "") == port]
        for address in subset.get("addresses") or () if numbers else ():
            yield address, numbers[0]


def _declared(pod: Object) -> set[int]:
    containers = [each for part in ("containers", "initContainers") for each in at(pod, f"spec.{part}", [])]
    return {port["containerPort"] for each in containers for port in each.get("ports") or ()}


def _addresses_of(node: Object, kind: str) -> Iterator[str]:
    for each in at(node, "status.addresses", []):
        if each.get("type") == kind and each.get("address"):
            yield each["address"]


def _ips(node: Object) -> set[Address]:
    told = [text for kind in _ADDRESSES for text in _addresses_of(node, kind)]
    return {each for each in map(address_of, told) if each is not None}
