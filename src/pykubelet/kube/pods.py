"""This node's pods, from an API server."""

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import aclosing

from pykubelet.api.pod import Pod
from pykubelet.api.struct import changed
from pykubelet.kube.client import ApiClient, object_path
from pykubelet.kube.watch import Changed, Deleted, Reflector, Relisted
from pykubelet.pod.lifecycle.pod_update import Applied, Gone, Listed

log = logging.getLogger(__name__)


class ApiSource:
    """`watch` yields the list at first, then one event for each changed pod.

    Nothing is asked before `node_synced` is set: admission needs to know the node before it can judge a pod.
    """

    def __init__(self, server: ApiClient, node_name: str, node_synced: asyncio.Event) -> None:
        self._node_synced = node_synced
        self._reflector = Reflector(
            server, object_path("pods"), Pod, params={"fieldSelector": f"spec.nodeName={node_name}"}
        )

    async def watch(self) -> AsyncGenerator[Listed | Applied | Gone, None]:
        if not self._node_synced.is_set():
            log.info("waiting for the node object before asking for pods")
            await self._node_synced.wait()
        async with aclosing(self._reflector.events()) as events:
            async for event in events:
                match event:
                    case Relisted(pods, unread):
                        yield Listed(tuple(map(slim, pods)), unread)
                    case Changed(pod):
                        yield Applied(slim(pod))
                    case Deleted(metadata):
                        yield Gone(metadata.uid)


def slim(pod: Pod) -> Pod:
    """Who set which field takes a third of a pod's memory and means nothing to a node."""
    return changed(pod, metadata=changed(pod.metadata, managed_fields=())) if pod.metadata.managed_fields else pod
