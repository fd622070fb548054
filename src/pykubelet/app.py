"""The wiring: builds every part, opens the one TaskGroup, and owns the order of shutdown.

No other module knows all the rooms.
"""

import asyncio
import logging
import signal
from collections.abc import Coroutine
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

from pykubelet import __version__
from pykubelet.base.errors import Invalid
from pykubelet.base.journal import Journal
from pykubelet.base.tasks import supervise
from pykubelet.config import Config
from pykubelet.node.messages import Message, Said
from pykubelet.node.pod_config import INBOX_SIZE, PodConfig
from pykubelet.pod.events import PodUpdate
from pykubelet.pod.kinds import API_SOURCE, FILE_SOURCE, URL_SOURCE
from pykubelet.pod.ports import PodSource
from pykubelet.sources.files import FileSource

if TYPE_CHECKING:
    from pykubelet.kube.node import NodeView

log = logging.getLogger(__name__)


async def run_agent(config: Config) -> None:
    """Run until SIGTERM or SIGINT. Raises Invalid when it cannot start as configured."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    async with AsyncExitStack() as connections:
        parts = await _build(config, connections)
        async with asyncio.TaskGroup() as tasks:
            running = [tasks.create_task(part) for part in parts]
            await stop.wait()
            log.info("stopping")
            for task in running:
                task.cancel()


async def _build(config: Config, connections: AsyncExitStack) -> list[Coroutine[None, None, None]]:
    """Everything that runs as long as the agent does. Connections are closed after the last part has ended."""
    sources: dict[str, PodSource] = {}
    parts: list[Coroutine[None, None, None]] = []
    if config.static_pod_path:
        sources[FILE_SOURCE] = FileSource(config.static_pod_path, config.node_name, period=config.file_check_frequency)
    if config.static_pod_url:
        from pykubelet.sources.url import UrlSource  # an HTTP client takes long to load

        sources[URL_SOURCE] = UrlSource(
            config.static_pod_url,
            config.node_name,
            headers=config.static_pod_url_header,
            period=config.http_check_frequency,
        )
    if config.kubeconfig:
        node, sources[API_SOURCE] = await _from_api_server(config, connections)
        parts.append(supervise("node view", node.follow))
    if not sources:
        raise Invalid("there is nowhere to get pods from: give --pod-manifest-path, --manifest-url or --kubeconfig")
    pods = PodConfig(sources, Journal())
    inbox: asyncio.Queue[Message] = asyncio.Queue(INBOX_SIZE)
    log.info("pykubelet %s is node %s; pods come from: %s", __version__, config.node_name, ", ".join(sources))
    return [*parts, pods.pump(inbox), _deliver(pods, inbox)]


async def _from_api_server(config: Config, connections: AsyncExitStack) -> "tuple[NodeView, PodSource]":
    from pykubelet.kube import kubeconfig
    from pykubelet.kube.credentials import Credentials
    from pykubelet.kube.node import NodeView
    from pykubelet.kube.pods import ApiSource
    from pykubelet.kube.rest import ApiServer

    server = await connections.enter_async_context(ApiServer(Credentials(kubeconfig.load(config.kubeconfig))))
    node = NodeView(server, config.node_name)
    return node, ApiSource(server, config.node_name, node.synced)


async def _deliver(pods: PodConfig, inbox: "asyncio.Queue[Message]") -> None:
    while True:
        message = await inbox.get()
        for update in pods.handle(message) if isinstance(message, Said) else ():
            _tell(update)


def _tell(update: PodUpdate) -> None:
    if not update.pods:
        log.info("%s from %s: nothing yet", update.op, update.source)
    for pod in update.pods:
        meta = pod.metadata
        log.info("%s from %s: pod %s/%s (%s)", update.op, update.source, meta.namespace, meta.name, meta.uid)
