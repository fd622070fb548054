"""The part of the wiring that an agent with an API server has more."""

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from pathlib import Path

from msgspec import Struct

from pykubelet.base.journal import Journal
from pykubelet.config import Config
from pykubelet.kube import kubeconfig
from pykubelet.kube.bootstrap import BootstrapSettings, bootstrap, rotating
from pykubelet.kube.certificate_store import CLIENT, SERVING, CertificateStore
from pykubelet.kube.certificates import CertificateKeeper
from pykubelet.kube.credentials import Credentials
from pykubelet.kube.csr import CLIENT_SIGNER, SERVING_SIGNER, node_template, serving_template
from pykubelet.kube.events import EventRecorder
from pykubelet.kube.kubeconfig import ClientConfig
from pykubelet.kube.lease import LeaseKeeper
from pykubelet.kube.node import NodeView
from pykubelet.kube.nodes import KubeNodes
from pykubelet.kube.objects import KubeLeases, KubePods, KubeRuntimeClasses, KubeSecrets
from pykubelet.kube.pods import ApiSource
from pykubelet.kube.rest import ApiMeter, ApiServer
from pykubelet.kube.reviews import KubeReviews


class ApiParts(Struct, frozen=True, kw_only=True):
    """Everything that talks to the API server."""

    pods: KubePods
    secrets: KubeSecrets
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


async def connect(config: Config, journal: Journal, stack: AsyncExitStack, meter: ApiMeter | None = None) -> ApiParts:
    """Raises Invalid for a kubeconfig that cannot be used; a server that does not answer is waited for later, but for
    the one that is to issue the first certificate."""
    client, keep_client = await _client(config)
    credentials = Credentials(client)
    server = await stack.enter_async_context(ApiServer(credentials, meter=meter))
    # The node's sign of life must not wait behind hundreds of pods.
    heartbeat = await stack.enter_async_context(ApiServer(credentials, timeout=10.0, qps=0, meter=meter))
    view = NodeView(server, config.node_name)
    recorder = EventRecorder(server, config.node_name, journal=journal)
    parts: dict[str, Callable[[], Awaitable[None]]] = {"node view": view.follow, "events": recorder.run}
    own_parts: dict[str, Callable[[], Awaitable[None]]] = {}
    if config.node.register:
        own_parts["lease"] = LeaseKeeper(heartbeat, config.node_name, duration=config.node.lease_seconds).run
    if keep_client is not None:
        parts["client certificate"] = keep_client(server).run
    if config.server.enabled and config.server.rotate_server:
        parts["serving certificate"] = CertificateKeeper(
            server,
            CertificateStore(config.server.cert_dir, SERVING),
            SERVING_SIGNER,
            lambda: serving_template(config.node_name, view.node.status.addresses if view.node else ()),
        ).run
    # Strangers decide how often it is asked: that must not slow down anything else.
    asked = await stack.enter_async_context(ApiServer(credentials, timeout=10.0, meter=meter))
    return ApiParts(
        pods=KubePods(server),
        secrets=KubeSecrets(server),
        classes=KubeRuntimeClasses(server),
        leases=KubeLeases(heartbeat),
        nodes=KubeNodes(heartbeat),
        view=view,
        source=ApiSource(server, config.node_name, view.synced),
        recorder=recorder,
        reviews=KubeReviews(asked),
        parts=parts,
        own_parts=own_parts,
    )


async def _client(config: Config) -> tuple[ClientConfig, Callable[[ApiServer], CertificateKeeper] | None]:
    """How to reach the API server, and who keeps the certificate for that, if anybody has to."""
    if config.bootstrap_kubeconfig:
        settings = BootstrapSettings(
            kubeconfig=Path(config.kubeconfig),
            cert_dir=config.server.cert_dir,
            bootstrap_kubeconfig=Path(config.bootstrap_kubeconfig),
            node_name=config.node_name,
        )
        await bootstrap(settings)
    client = kubeconfig.load(config.kubeconfig)
    if not config.rotate_certificates:
        return client, None
    store = CertificateStore(config.server.cert_dir, CLIENT)
    client, at_once = rotating(client, store, datetime.now(UTC))
    if not client.user.client_certificate:
        return client, None

    def keeper(server: ApiServer) -> CertificateKeeper:
        return CertificateKeeper(server, store, CLIENT_SIGNER, lambda: node_template(config.node_name), at_once=at_once)

    return client, keeper
