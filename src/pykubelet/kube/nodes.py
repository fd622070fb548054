"""What the agent does to its own node on an API server."""

from collections.abc import Mapping
from typing import Any

from pykubelet.api.node import Node
from pykubelet.api.struct import changed
from pykubelet.kube.client import ApiClient, object_path


class KubeNodes:
    """The NodeApi port over HTTP. Answers come without managed fields.

    Heartbeats should not wait behind other requests: give it a client of its own, with a short timeout and no limit
    of its rate.
    """

    def __init__(self, server: ApiClient) -> None:
        self._server = server

    async def get(self, name: str) -> Node:
        return _slim(await self._server.get(object_path("nodes", name=name), Node))

    async def create(self, node: Node) -> Node:
        return _slim(await self._server.create(object_path("nodes"), node, Node))

    async def patch(self, name: str, patch: Mapping[str, Any]) -> Node:
        return _slim(await self._server.patch(object_path("nodes", name=name), patch, Node))

    async def patch_status(self, name: str, patch: Mapping[str, Any]) -> Node:
        return _slim(await self._server.patch(object_path("nodes", name=name, subresource="status"), patch, Node))


def _slim(node: Node) -> Node:
    return changed(node, metadata=changed(node.metadata, managed_fields=())) if node.metadata.managed_fields else node
