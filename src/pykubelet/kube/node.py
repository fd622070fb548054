"""This node's own object: as an API server has it, and what the agent does to it."""

import asyncio
from collections.abc import Mapping
from contextlib import aclosing
from typing import Any

from pykubelet.api.node import Node
from pykubelet.kube.client import ApiClient, object_path, slim
from pykubelet.kube.watch import Changed, Deleted, Reflector, Relisted


class NodeView:
    """`node` is the newest known state, None while there is none; `synced` is set once the server has been asked."""

    def __init__(self, server: ApiClient, name: str) -> None:
        self.node: Node | None = None
        self.synced = asyncio.Event()
        self._reflector = Reflector(
            server, object_path("nodes"), Node, params={"fieldSelector": f"metadata.name={name}"}
        )

    async def follow(self) -> None:
        """Keep `node` up to date until cancelled."""
        async with aclosing(self._reflector.events()) as events:
            async for event in events:
                match event:
                    case Relisted(nodes, unread):
                        if nodes or not unread:
                            self.node = nodes[0] if nodes else None
                        self.synced.set()
                    case Changed(node):
                        self.node = node
                    case Deleted():
                        self.node = None


class KubeNodes:
    """The NodeApi port over HTTP. Answers come without managed fields.

    Heartbeats should not wait behind other requests: give it a client of its own, with a short timeout and no limit
    of its rate.
    """

    def __init__(self, server: ApiClient) -> None:
        self._server = server

    async def get(self, name: str) -> Node:
        return slim(await self._server.get(object_path("nodes", name=name), Node))

    async def create(self, node: Node) -> Node:
        return slim(await self._server.create(object_path("nodes"), node, Node))

    async def patch(self, name: str, patch: Mapping[str, Any]) -> Node:
        return slim(await self._server.patch(object_path("nodes", name=name), patch, Node))

    async def patch_status(self, name: str, patch: Mapping[str, Any]) -> Node:
        return slim(await self._server.patch(object_path("nodes", name=name, subresource="status"), patch, Node))
