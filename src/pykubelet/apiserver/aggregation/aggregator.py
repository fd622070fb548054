"""Requests for what another API server answers are passed on to it: over TLS, with our front-proxy certificate, and
with headers that say who asks. Whether it is there is found out by asking what it serves, now and then and when its
service changes; APIServices say so in their status, and discovery lists what was heard.

Where a service is, is said by endpoints: as for webhooks, only addresses of machines are called, and never ourselves.
"""

import asyncio
import ssl
from collections.abc import Callable
from functools import partial
from typing import Any, Final

import aiohttp
import msgspec
from aiohttp import web

from pykubelet.api.struct import rfc3339
from pykubelet.apiserver.admission.client import Fault, NoEndpoint, service_endpoint, whole
from pykubelet.apiserver.aggregation.remotes import KIND, Remote, Remotes, user_headers
from pykubelet.apiserver.controllers.client import ControllerClient, Kind
from pykubelet.apiserver.controllers.conditions import condition, conditioned
from pykubelet.apiserver.discovery.discovery import Others
from pykubelet.apiserver.objects import Object, at
from pykubelet.apiserver.requests.users import MASTERS, User
from pykubelet.apiserver.status import ApiError
from pykubelet.apiserver.subresources.passing_on import streamed, tunnelled, why
from pykubelet.apiserver.subresources.targets import Target
from pykubelet.web.upgrade import wants_upgrade

Contexts = Callable[[bytes, bool], ssl.SSLContext]
"""whose certificates are believed, and whether any is -> TLS with our front-proxy certificate; blocking"""

SERVICES: Final[Kind] = ("", "services")
SLICES: Final[Kind] = ("discovery.k8s.io", "endpointslices")
_SELF: Final = User("system:kube-aggregator", (MASTERS,))
_LOOK_AGAIN: Final = 30.0
_REST: Final = 1.0
"""Seconds between two looks: services of others change often, and so may what a server says of itself."""
_SHORT: Final = aiohttp.ClientTimeout(total=5.0)
_UNAVAILABLE: Final = "service unavailable\n"


class Aggregator:
    def __init__(self, client: ControllerClient, contexts: Contexts, fault: Fault) -> None:
        self._client = client
        self._contexts = contexts
        self._fault = fault
        self._remotes = Remotes(client.backend)

    # --- for those who serve

    def others(self) -> Others:
        return self._remotes.others()

    def remote(self, path: str) -> Remote | None:
        return self._remotes.at(path) if self._remotes else None

    async def pass_on(self, request: web.Request, remote: Remote, user: User) -> web.StreamResponse:
        if not remote.is_available:
            return _unavailable(_UNAVAILABLE)
        try:
            target = await self._target(remote)
            context = await asyncio.to_thread(self._contexts, remote.authorities, remote.insecure)
            handed_on = tunnelled if wants_upgrade(request) else streamed
            return await handed_on(request, target, request.rel_url.raw_path_qs, context, more=user_headers(user))
        except NoEndpoint:
            return _unavailable(_UNAVAILABLE)
        except (ApiError, ValueError, ssl.SSLError) as error:
            return _unavailable(f"{error}\n")

    async def _target(self, remote: Remote) -> Target:
        """Raises NoEndpoint."""
        address, port = await service_endpoint(
            self._client.backend, self._fault, remote.namespace, remote.service, remote.port
        )
        shown = f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
        return Target(address, port, shown, f"the API server {remote.host}", remote.host)

    # --- whether they are there

    async def run(self) -> None:
        """Until cancelled."""

        async def look() -> None:
            await self.sync()
            await asyncio.sleep(_REST)

        await self._client.follow(look, KIND, SERVICES, SLICES, most=_LOOK_AGAIN)

    async def sync(self) -> None:
        await asyncio.gather(*(self._look_at(each) for each in self._remotes))

    async def _look_at(self, remote: Remote) -> None:
        with self._client.apart(f"apiservice {remote.name}"):
            reason, message = await self._service_fault(remote)
            resources = None
            if not reason:
                resources, message = await self._asked(remote)
                reason = "FailedDiscoveryCheck" if resources is None else "Passed"
            self._remotes.heard(remote, resources)
            status = "False" if resources is None else "True"
            await self._say(remote, {"type": "Available", "status": status, "reason": reason, "message": message})

    async def _say(self, remote: Remote, new: dict[str, Any]) -> None:
        found = await self._client.known(KIND, "", remote.name)
        if found is None or new.items() <= condition(found, "Available").items():
            return
        now = rfc3339(self._client.now())
        await self._client.change(KIND, found, lambda live: conditioned(live, new, now), part="status")

    async def _service_fault(self, remote: Remote) -> tuple[str, str]:
        """Reason and message, or nothing."""
        where = f'service/{remote.service} in "{remote.namespace}"'
        service = await self._client.known(SERVICES, remote.namespace, remote.service)
        if service is None:
            return "ServiceNotFound", f"{where} is not present"
        if at(service, "spec.type", "ClusterIP") != "ClusterIP":
            return "", ""
        port = next((each for each in at(service, "spec.ports", ()) if each.get("port") == remote.port), None)
        if port is None:
            return "ServicePortError", f"{where} is not listening on port {remote.port}"
        name = port.get("name", "")
        views = partial(self._client.views, SLICES, _of_service, remote.namespace)
        slices = [each for each in await views() if each[0] == remote.service]
        if not slices:
            return "EndpointsNotFound", f"cannot find endpointslices for {where}"
        if not any(name in ports for _, ports in slices):
            return "MissingEndpoints", f'endpointslices for {where} have no addresses with port name "{name}"'
        return "", ""

    async def _asked(self, remote: Remote) -> tuple[tuple[Any, ...] | None, str]:
        """What it serves, or None and why that is not known."""
        url = f"https://{remote.host}:{remote.port}{remote.path}"
        try:
            target = await self._target(remote)
            context = await asyncio.to_thread(self._contexts, remote.authorities, remote.insecure)
            connector = aiohttp.TCPConnector(ssl=context, force_close=True)
            async with aiohttp.ClientSession(connector=connector, timeout=_SHORT) as session:
                asking = session.get(
                    f"https://{target.shown}{remote.path}",
                    headers=[*user_headers(_SELF), ("Accept", "application/json")],
                    allow_redirects=False,
                    server_hostname=remote.host,
                )
                async with asking as answer:
                    if answer.status // 100 != 2:
                        return None, f"failing or missing response from {url}: bad status from {url}: {answer.status}"
                    body = await whole(answer)
            listed = msgspec.json.decode(body, type=_ResourceList)
        except NoEndpoint as error:
            return None, str(error)
        except (aiohttp.ClientError, OSError, TimeoutError, ssl.SSLError, ValueError) as error:
            return None, f"failing or missing response from {url}: {why(error)}"
        return tuple(map(msgspec.to_builtins, listed.resources)), "all checks passed"


class _Listed(msgspec.Struct, frozen=True, omit_defaults=True):
    """What we pass on of what another server says of a resource."""

    name: str
    kind: str
    singularName: str = ""
    namespaced: bool = False
    verbs: tuple[str, ...] = ()
    group: str = ""
    version: str = ""
    shortNames: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()


class _ResourceList(msgspec.Struct, frozen=True):
    resources: tuple[_Listed, ...] = ()


def _of_service(endpoint_slice: Object) -> tuple[str, frozenset[str]]:
    """Of which service it is, and by which names ports are open at somebody who is ready."""
    service = at(endpoint_slice, "metadata.labels", {}).get("kubernetes.io/service-name", "")
    ready = any(at(each, "conditions.ready", True) for each in endpoint_slice.get("endpoints") or ())
    ports = endpoint_slice.get("ports") or () if ready else ()
    return service, frozenset(each.get("name", "") for each in ports if each.get("port"))


def _unavailable(text: str) -> web.Response:
    return web.Response(status=503, text=text, headers={"X-Content-Type-Options": "nosniff"})
