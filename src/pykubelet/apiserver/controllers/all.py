"""Every controller of a small cluster, in one list: whoever runs the server starts them all."""

import asyncio
from collections.abc import Iterator
from typing import Protocol

from pykubelet.apiserver.backend import Backend
from pykubelet.apiserver.controllers.client import ControllerClient
from pykubelet.apiserver.controllers.csr import CsrController
from pykubelet.apiserver.controllers.endpoint_slices import EndpointSlices
from pykubelet.apiserver.controllers.endpoints import EndpointsController
from pykubelet.apiserver.controllers.expiry import Expiry
from pykubelet.apiserver.controllers.garbage_collector import GarbageCollector
from pykubelet.apiserver.controllers.namespaces import NamespaceController
from pykubelet.apiserver.controllers.nodes import NodeLifecycle
from pykubelet.apiserver.controllers.pods import PodGarbageCollector
from pykubelet.apiserver.controllers.root_ca import RootCa
from pykubelet.apiserver.controllers.scheduler import Scheduler
from pykubelet.apiserver.controllers.service_accounts import ServiceAccountController
from pykubelet.apiserver.security.addresses import ClusterAddresses
from pykubelet.apiserver.writer.author import KUBE_SCHEDULER
from pykubelet.base.tasks import supervise
from pykubelet.web.authority import Authority


class Controller(Protocol):
    async def run(self) -> None:
        """Until cancelled."""
        ...


def controllers(
    backend: Backend, authority: Authority, addresses: ClusterAddresses, *, scheduler: bool = True
) -> Iterator[tuple[str, Controller]]:
    """Without a scheduler, others bind pods."""
    client = ControllerClient(backend)
    yield "namespaces", NamespaceController(client)
    yield "service accounts", ServiceAccountController(client)
    yield "root authority", RootCa(client, authority.pem.decode())
    if scheduler:
        yield "scheduler", Scheduler(ControllerClient(backend, KUBE_SCHEDULER))
    yield "certificate requests", CsrController(client, authority, addresses)
    yield "node lifecycle", NodeLifecycle(client)
    yield "pod collector", PodGarbageCollector(client)
    yield "garbage collector", GarbageCollector(client)
    yield "endpoints", EndpointsController(client)
    yield "endpoint slices", EndpointSlices(client)
    yield "expiry", Expiry(client)


async def run_all(
    backend: Backend, authority: Authority, addresses: ClusterAddresses, *, scheduler: bool = True
) -> None:
    """Until cancelled; each starts again when it breaks."""
    async with asyncio.TaskGroup() as group:
        for name, controller in controllers(backend, authority, addresses, scheduler=scheduler):
            group.create_task(supervise(name, controller.run), name=name)
