"""This node's own object, as an API server has it."""

import asyncio
from contextlib import aclosing

from pykubelet.api.node import Node
from pykubelet.kube.client import ApiClient, object_path
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
