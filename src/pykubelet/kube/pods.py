"""This node's pods: as they come from an API server, and what the agent does to them there."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing, suppress
from typing import Any

from pykubelet.api.pod import Pod
from pykubelet.base.errors import NotFound
from pykubelet.kube.client import ApiClient, object_path, slim
from pykubelet.kube.errors import ObjectConflict, Refused
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


class KubePods:
    """The PodApi port over HTTP. Answers come without managed fields."""

    def __init__(self, server: ApiClient) -> None:
        self._server = server

    async def get(self, namespace: str, name: str) -> Pod:
        return slim(await self._server.get(object_path("pods", namespace=namespace, name=name), Pod))

    async def patch_status(self, namespace: str, name: str, uid: str, patch: Mapping[str, Any]) -> Pod:
        path = object_path("pods", namespace=namespace, name=name, subresource="status")
        bound = {**patch, "metadata": {**patch.get("metadata", {}), "uid": uid}}
        try:
            return slim(await self._server.patch(path, bound, Pod))
        except Refused as error:
            if _is_of_another_uid(error):
                raise ObjectConflict(str(error), status=error.status) from None
            raise

    async def create(self, pod: Pod) -> Pod:
        return slim(await self._server.create(object_path("pods", namespace=pod.metadata.namespace), pod, Pod))

    async def delete(self, namespace: str, name: str, uid: str, grace: int) -> None:
        path = object_path("pods", namespace=namespace, name=name)
        with suppress(NotFound):
            await self._server.delete(path, uid=uid, grace_period_seconds=grace)


def _is_of_another_uid(error: Refused) -> bool:
    """A patch has no preconditions: to the server, ours is an attempt to change the uid of another pod."""
    details = error.status.details
    return details is not None and any(cause.field == "metadata.uid" for cause in details.causes)
