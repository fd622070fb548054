"""The part of the wiring that an agent with an API server has more."""

import asyncio
import math
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from msgspec import Struct

from pykubelet.api.rules.well_known import CLIENT_SIGNER, SERVING_SIGNER
from pykubelet.config.agent import Config
from pykubelet.kube import kubeconfig
from pykubelet.kube.bootstrap import bootstrap, rotating
from pykubelet.kube.certificate_rotation import CertificateKeeper
from pykubelet.kube.certificate_store import CLIENT, SERVING, CertificateStore
from pykubelet.kube.client import ApiClient
from pykubelet.kube.credentials import Credentials
from pykubelet.kube.csr import node_template, serving_template
from pykubelet.kube.events import EventRecorder
from pykubelet.kube.kubeconfig import ClientConfig
from pykubelet.kube.node import NodeView
from pykubelet.kube.node_lease import LeaseKeeper
from pykubelet.kube.nodes import KubeNodes
from pykubelet.kube.objects import KubeLeases, KubePods, KubeRuntimeClasses
from pykubelet.kube.pod_objects import KubeObjects
from pykubelet.kube.pods import ApiSource
from pykubelet.kube.reviews import KubeReviews
from pykubelet.kube.services import ServiceView
from pykubelet.kube.settings import ClientSettings
from pykubelet.pod.moments import Journal


class ApiParts(Struct, frozen=True, kw_only=True):
    """Everything that talks to the API server."""

    pods: KubePods
    objects: KubeObjects
    classes: KubeRuntimeClasses
    leases: KubeLeases
    nodes: KubeNodes
    view: NodeView
    source: ApiSource
    recorder: EventRecorder
    reviews: KubeReviews
    parts: Mapping[str, Callable[[], Awaitable[None]]]
    """What has to run, by name."""
    own_parts: Mapping[str, Callable[[], Awaitable[None]]]
    """What has to run while the node is ours."""
    gauges: Mapping[str, Callable[[], Mapping[tuple[str, ...], float]]]
    """What monitoring may ask for at any time, by the name that upstream has for it."""


async def connect(config: Config, journal: Journal, stack: AsyncExitStack) -> ApiParts:
    """Raises Invalid for a kubeconfig that cannot be used; a server that does not answer is waited for later, but for
    the one that is to issue the first certificate."""
    client, client_store, at_once = await _client(config.client)
    credentials = Credentials(client)
    server = await stack.enter_async_context(ApiClient(credentials, journal=journal))
    # The node's sign of life must not wait behind hundreds of pods.
    heartbeat = await stack.enter_async_context(ApiClient(credentials, timeout=10.0, qps=0, journal=journal))
    view = NodeView(server, config.node.name)
    recorder = EventRecorder(server, config.node.name, journal=journal)
    services = ServiceView(server)
    parts: dict[str, Callable[[], Awaitable[None]]] = {"node view": view.follow, "events": recorder.run}
    objects = KubeObjects(server, services, detection=config.client.change_detection)
    parts |= {"services": services.follow, "config maps and secrets": objects.run}
    own_parts: dict[str, Callable[[], Awaitable[None]]] = {}
    keepers: dict[str, CertificateKeeper] = {}
    if config.node.register:
        own_parts["lease"] = LeaseKeeper(heartbeat, config.node.name, duration=config.node.lease_seconds).run
    if client_store is not None:
        keepers["client"] = CertificateKeeper(
            server,
            client_store,
            CLIENT_SIGNER,
            lambda: node_template(config.node.name),
            at_once=at_once,
            fallback=await _bootstrap_server(config.client.bootstrap_kubeconfig, stack),
            journal=journal,
        )
        parts["client certificate"] = keepers["client"].run
    if config.server.enabled and config.server.tls.issued:
        keepers["server"] = CertificateKeeper(
            server,
            CertificateStore(config.server.tls.cert_dir, SERVING),
            SERVING_SIGNER,
            lambda: serving_template(config.node.name, view.node.status.addresses if view.node else ()),
            journal=journal,
        )
        parts["serving certificate"] = keepers["server"].run
    # Strangers decide how often it is asked: that must not slow down anything else.
    asked = await stack.enter_async_context(ApiClient(credentials, timeout=10.0, journal=journal))
    return ApiParts(
        pods=KubePods(server),
        objects=objects,
        classes=KubeRuntimeClasses(server),
        leases=KubeLeases(heartbeat),
        nodes=KubeNodes(heartbeat),
        view=view,
        source=ApiSource(server, config.node.name, view.synced),
        recorder=recorder,
        reviews=KubeReviews(asked),
        parts=parts,
        own_parts=own_parts,
        gauges={
            f"kubelet_certificate_manager_{kind}_ttl_seconds": partial(_seconds_left, keeper)
            for kind, keeper in keepers.items()
        },
    )


async def _client(settings: ClientSettings) -> tuple[ClientConfig, CertificateStore | None, bool]:
    """How to reach the API server; where the certificate for that is kept, if we have to renew it; and whether to do
    that at once."""
    if settings.bootstrap_kubeconfig:
        await bootstrap(settings)
    client = kubeconfig.load(settings.kubeconfig)
    if not settings.rotate_certificates:
        return client, None, False
    store = CertificateStore(settings.cert_dir, CLIENT)
    client, at_once = rotating(client, store, datetime.now(UTC))
    return client, store if client.user.client_certificate else None, at_once


async def _bootstrap_server(path: str, stack: AsyncExitStack) -> ApiClient | None:
    """Who is asked when the node's own certificate has expired, perhaps while the machine slept. The file may be gone
    by now: it was for the first certificate."""
    if not path or not await asyncio.to_thread(Path(path).exists):
        return None
    return await stack.enter_async_context(ApiClient(Credentials(kubeconfig.load(path))))


def _seconds_left(keeper: CertificateKeeper) -> Mapping[tuple[str, ...], float]:
    expires = keeper.expires
    return {(): (expires - datetime.now(UTC)).total_seconds() if expires else math.inf}
