"""The part of the wiring that an agent with an API server has more."""

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack

from msgspec import Struct

from pykubelet.base.journal import Journal
from pykubelet.config import Config
from pykubelet.kube import kubeconfig
from pykubelet.kube.credentials import Credentials
from pykubelet.kube.events import EventRecorder
from pykubelet.kube.lease import LeaseKeeper
from pykubelet.kube.node import NodeView
from pykubelet.kube.nodes import KubeNodes
from pykubelet.kube.objects import KubePods, KubeSecrets
from pykubelet.kube.pods import ApiSource
from pykubelet.kube.rest import ApiServer


class ApiParts(Struct, frozen=True, kw_only=True):
    """Everything that talks to the API server."""

    pods: KubePods
    secrets: KubeSecrets
    nodes: KubeNodes
    view: NodeView
    source: ApiSource
    recorder: EventRecorder
    parts: Mapping[str, Callable[[], Awaitable[None]]]
    """What has to run, by name."""


async def connect(config: Config, journal: Journal, stack: AsyncExitStack) -> ApiParts:
    """Raises Invalid for a kubeconfig that cannot be used; a server that does not answer is waited for later."""
    credentials = Credentials(kubeconfig.load(config.kubeconfig))
    server = await stack.enter_async_context(ApiServer(credentials))
    # The node's sign of life must not wait behind hundreds of pods.
    heartbeat = await stack.enter_async_context(ApiServer(credentials, timeout=10.0, qps=0))
    view = NodeView(server, config.node_name)
    recorder = EventRecorder(server, config.node_name, journal=journal)
    parts: dict[str, Callable[[], Awaitable[None]]] = {"node view": view.follow, "events": recorder.run}
    if config.node.register:
        parts["lease"] = LeaseKeeper(heartbeat, config.node_name, duration=config.node.lease_seconds).run
    return ApiParts(
        pods=KubePods(server),
        secrets=KubeSecrets(server),
        nodes=KubeNodes(heartbeat),
        view=view,
        source=ApiSource(server, config.node_name, view.synced),
        recorder=recorder,
        parts=parts,
    )
