"""Takes away the folders of volumes that went: an API server of ours asks for it, by an annotation of this node, and
lets a volume go once its name is no longer there."""

import asyncio
import logging
from collections.abc import Callable
from typing import Final, Protocol

from pykubelet.api.node import Node
from pykubelet.api.rules.well_known import REMOVED_VOLUMES
from pykubelet.base.errors import PykubeletError
from pykubelet.pod.ports.node import NodeApi

log = logging.getLogger(__name__)

_PERIOD: Final = 10.0
_MOST: Final = 100
"""Names that are looked at in one go: whoever writes more has to wait."""


class Folders(Protocol):
    async def has_any(self) -> bool:
        """Whether there may be something to remove some day."""
        ...

    async def remove(self, volume: str) -> None:
        """Harmless when there is none. Raises base.errors."""
        ...


class VolumeRemovals:
    """`seen` is the node as the API server shows it, None while that is nothing, or the node is not ours."""

    def __init__(self, api: NodeApi, seen: Callable[[], Node | None], folders: Folders) -> None:
        self._api = api
        self._seen = seen
        self._folders = folders
        self._told: set[str] = set()

    async def run(self) -> None:
        while True:
            try:
                await self.look()
            except PykubeletError as error:
                log.debug("what volumes are to be removed is asked again: %s", error)
            await asyncio.sleep(_PERIOD)

    async def look(self) -> None:
        """Raises base.errors."""
        node = self._seen()
        if node is None:
            return
        asked = node.metadata.annotations.get(REMOVED_VOLUMES)
        if asked is None:
            if await self._folders.has_any():  # nobody is told of what there will never be
                await self._say(node, "")
            return
        names = list(filter(None, asked.split(",")))
        left = [name for name in names if not await self._removed(name)] if len(names) <= _MOST else names
        if left != names:
            await self._say(node, ",".join(left))

    async def _removed(self, name: str) -> bool:
        try:
            await self._folders.remove(name)
        except PykubeletError as error:
            if name not in self._told:
                log.warning("%s", error)
            self._told.add(name)
            return False
        self._told.discard(name)
        return True

    async def _say(self, node: Node, names: str) -> None:
        """Of the node as it was seen: what was asked for meanwhile is not lost."""
        metadata = {"resourceVersion": node.metadata.resource_version, "annotations": {REMOVED_VOLUMES: names}}
        await self._api.patch(node.metadata.name, {"metadata": metadata})
