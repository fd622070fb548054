"""A collection of an API server that is kept at hand: whoever wants to know looks, and the server is not asked."""

import asyncio
from collections.abc import Callable
from contextlib import aclosing
from typing import Generic, TypeVar

from pykubelet.api.meta import ObjectMeta
from pykubelet.base.errors import PykubeletError
from pykubelet.kube.client import ApiClient
from pykubelet.kube.watch import Changed, Deleted, KubeObject, Lost, Reflector, Relisted

K = TypeVar("K", bound=KubeObject)


class Followed(Generic[K]):
    """`synced` is set once the server has told what there is; `slim` takes away what nobody asks for."""

    def __init__(
        self, server: ApiClient, path: str, kind: type[K], slim: Callable[[K], K], *, quiet: bool = False
    ) -> None:
        self.synced = asyncio.Event()
        self.items: dict[tuple[str, str], K] = {}
        """By namespace and name."""
        self.refusal: PykubeletError | None = None
        """Why the server has never told, when it was asked last."""
        self.on_change: Callable[[], None] = lambda: None
        self._slim = slim
        self._reflector = Reflector(server, path, kind, quiet=quiet)

    async def follow(self) -> None:
        """Keep them up to date until cancelled."""
        async with aclosing(self._reflector.events()) as events:
            async for event in events:
                match event:
                    case Relisted(items, unread):
                        kept = {key: each for key, each in self.items.items() if each.metadata.uid in unread}
                        self.items = kept | {_key(each.metadata): self._slim(each) for each in items}
                        self.refusal = None
                        self.synced.set()
                    case Changed(item):
                        self.items[_key(item.metadata)] = self._slim(item)
                    case Deleted(meta):
                        self.items.pop(_key(meta), None)
                    case Lost(error):
                        self.refusal = None if self.synced.is_set() else error
                self._has_changed()
                self.on_change()

    def _has_changed(self) -> None:
        """For views that remember."""


def _key(meta: ObjectMeta) -> tuple[str, str]:
    return meta.namespace, meta.name
