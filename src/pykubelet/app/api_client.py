"""The part of the wiring that an agent with an API server has more."""

import asyncio
import math
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

from msgspec import Struct

from pykubelet.api.rules.well_known import CLIENT_SIGNER, SERVING_SIGNER
from pykubelet.base.tasks import Work
from pykubelet.config.agent import Config
from pykubelet.kube import kubeconfig
from pykubelet.kube.before import Before
from pykubelet.kube.bootstrap import bootstrap, rotating
from pykubelet.kube.certificate_rotation import CertificateKeeper
from pykubelet.kube.certificate_store import CLIENT, SERVING, CertificateStore
from pykubelet.kube.claims import KubeClaims
from pykubelet.kube.client import ApiClient
from pykubelet.kube.credentials import Credentials
from pykubelet.kube.csi import KubeCsi
from pykubelet.kube.csr import node_template, serving_template
from pykubelet.kube.events import EventRecorder
from pykubelet.kube.kubeconfig import ClientConfig
from pykubelet.kube.node import KubeNodes, NodeView
from pykubelet.kube.node_lease import KubeLeases, LeaseKeeper
from pykubelet.kube.pod_objects import KubeObjects
from pykubelet.kube.pods import ApiSource, KubePods
from pykubelet.kube.resource_claims import KubeResourceClaims
from pykubelet.kube.reviews import KubeReviews
from pykubelet.kube.runtime_classes import KubeRuntimeClasses
from pykubelet.kube.services import ServiceView, SliceView
from pykubelet.kube.settings import ClientSettings
from pykubelet.pod.moments import Journal
from pykubelet.pod.ports.machine import LastKnown

_UNTOLD_QPS: Final = 5
_UNTOLD_BURST: Final = 10
"""As upstream's clients have it, whom nobody has told how often they may ask."""
_KINDS: Final = {"client": "client", "serving": "server"}
"""Of certificates, in the names of upstream's metrics."""


class ApiParts(Struct, frozen=True, kw_only=True):
    """Everything that talks to the API server."""

    place: tuple[str, int]
    """Its host and port, as this node knows them."""
    pods: KubePods
    objects: KubeObjects
    claims: KubeClaims
    csi: KubeCsi
    resource_claims: KubeResourceClaims
    services: ServiceView
    slices: SliceView | None
    """Where this node answers for services."""
    classes: KubeRuntimeClasses
    leases: KubeLeases
    nodes: KubeNodes
    view: NodeView
    source: ApiSource
    recorder: EventRecorder
    reviews: KubeReviews
    parts: Mapping[str, Work]
    """What has to run, by name."""
    own_parts: Mapping[str, Work]
    """What has to run while the node is ours."""
    gauges: Mapping[str, Callable[[], Mapping[tuple[str, ...], float]]]
    """What monitoring may ask for at any time, by the name that upstream has for it."""


async def connect(config: Config, journal: Journal, stack: AsyncExitStack, known: LastKnown | None = None) -> ApiParts:
    """`known` is what an earlier agent knew. Raises Invalid for a kubeconfig that cannot be used; a server that does
    not answer is waited for later, but for the one that is to issue the first certificate."""
    way = await _way(config.client)
    open_client = partial(_open_client, stack, Credentials(way.client), journal=journal)
    rates = config.client
    server = await open_client(qps=rates.qps or _UNTOLD_QPS, burst=rates.burst or _UNTOLD_BURST)
    # The node's sign of life must not wait behind hundreds of pods.
    heartbeat = await open_client(timeout=10.0, qps=0)
    # Strangers decide how often it is asked: that must not slow down anything else.
    asked = await open_client(timeout=10.0)
    # Each volume takes a few questions, and fifty pods may come at once.
    volumes = await open_client(qps=rates.qps or _UNTOLD_QPS, burst=rates.burst or _UNTOLD_BURST)
    # However much is told of pods, what is done for them goes on.
    told = await open_client(qps=rates.event_qps or _UNTOLD_QPS, burst=rates.event_burst or _UNTOLD_BURST)
    view = NodeView(server, config.node.name)
    recorder = EventRecorder(told, config.node.name, journal=journal)
    journal.read_by(recorder.read)
    before = Before(known, has_answered=lambda: server.has_answered)
    services = ServiceView(server, before)
    objects = KubeObjects(server, services, before=before, detection=config.client.change_detection)
    parts: dict[str, Work] = {"node view": view.follow, "events": recorder.run}
    parts |= {"services": services.follow, "config maps and secrets": objects.run}
    slices = SliceView(server) if config.services.proxy else None
    if slices is not None:
        parts["endpoints of services"] = slices.follow
    keepers = await _keepers(config, server, way, view, stack, journal)
    parts |= {f"{kind} certificate": keeper.run for kind, keeper in keepers.items()}
    lease = LeaseKeeper(heartbeat, config.node.name, duration=config.node.lease_seconds)
    csi = KubeCsi(volumes, config.node.name, objects, before)
    return ApiParts(
        place=server.place,
        pods=KubePods(server),
        objects=objects,
        claims=KubeClaims(volumes, before),
        csi=csi,
        resource_claims=KubeResourceClaims(server, config.node.name, before),
        services=services,
        slices=slices,
        classes=KubeRuntimeClasses(server, before),
        leases=KubeLeases(heartbeat),
        nodes=KubeNodes(heartbeat),
        view=view,
        source=ApiSource(server, config.node.name, view.synced),
        recorder=recorder,
        reviews=KubeReviews(asked),
        parts=parts,
        own_parts={"CSI node": csi.run, **({"lease": lease.run} if config.node.register else {})},
        gauges={
            f"kubelet_certificate_manager_{_KINDS[kind]}_ttl_seconds": partial(_seconds_left, keeper)
            for kind, keeper in keepers.items()
        },
    )


async def _open_client(stack: AsyncExitStack, credentials: Credentials, **options: Any) -> ApiClient:
    return await stack.enter_async_context(ApiClient(credentials, **options))


class _Way(NamedTuple):
    """How to reach the API server."""

    client: ClientConfig
    store: CertificateStore | None = None
    """Where the certificate for that is kept, if we have to renew it."""
    at_once: bool = False
    """Whether to do that at once."""


async def _way(settings: ClientSettings) -> _Way:
    if settings.bootstrap_kubeconfig:
        await bootstrap(settings)
    client = kubeconfig.load(settings.kubeconfig)
    if not settings.rotate_certificates:
        return _Way(client)
    store = CertificateStore(settings.cert_dir, CLIENT)
    client, at_once = rotating(client, store, datetime.now(UTC))
    return _Way(client, store if client.user.client_certificate else None, at_once)


async def _keepers(
    config: Config, server: ApiClient, way: _Way, view: NodeView, stack: AsyncExitStack, journal: Journal
) -> dict[str, CertificateKeeper]:
    """Those of the certificates that the API server issues."""
    name, tls, found = config.node.name, config.server.tls, dict[str, CertificateKeeper]()
    if way.store is not None:
        found["client"] = CertificateKeeper(
            server,
            way.store,
            CLIENT_SIGNER,
            lambda: node_template(name),
            at_once=way.at_once,
            fallback=await _bootstrap_server(config.client.bootstrap_kubeconfig, stack),
            journal=journal,
        )
    if config.server.enabled and tls.issued:
        found["serving"] = CertificateKeeper(
            server,
            CertificateStore(tls.cert_dir, SERVING),
            SERVING_SIGNER,
            lambda: serving_template(name, view.node.status.addresses if view.node else ()),
            journal=journal,
        )
    return found


async def _bootstrap_server(path: str, stack: AsyncExitStack) -> ApiClient | None:
    """Who is asked when the node's own certificate has expired, perhaps while the machine slept. The file may be gone
    by now: it was for the first certificate."""
    if not path or not await asyncio.to_thread(Path(path).exists):
        return None
    return await stack.enter_async_context(ApiClient(Credentials(kubeconfig.load(path))))


def _seconds_left(keeper: CertificateKeeper) -> Mapping[tuple[str, ...], float]:
    expires = keeper.expires
    return {(): (expires - datetime.now(UTC)).total_seconds() if expires else math.inf}
