"""How a controller sees the cluster and changes it: always from what is there now, never from what was told before."""

import logging
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from datetime import timedelta
from typing import Any, Final, TypeVar

from pykubelet.api.struct import rfc3339
from pykubelet.apiserver.backend import Backend
from pykubelet.apiserver.controllers.informer import Informer, Wanted, informing
from pykubelet.apiserver.objects import Object, at, of_entry, stored
from pykubelet.apiserver.schema.resources import Resource
from pykubelet.apiserver.status import ApiError
from pykubelet.apiserver.store.port import Entry, Stale
from pykubelet.apiserver.strategies.namespaces import NamespaceStrategy
from pykubelet.base.errors import NotFound, PykubeletError

log = logging.getLogger(__name__)

T = TypeVar("T")
Kind = tuple[str, str]
"""group, plural"""

PODS: Final[Kind] = ("", "pods")
NODES: Final[Kind] = ("", "nodes")
NAMESPACES: Final[Kind] = ("", "namespaces")
LEASES: Final[Kind] = ("coordination.k8s.io", "leases")
EVENTS: Final[Kind] = ("", "events")


class ControllerClient:
    def __init__(self, backend: Backend) -> None:
        self.backend = backend
        self.now = backend.now
        self.resources = backend.resources

    # --- looking

    def resource(self, kind: Kind) -> Resource:
        return self.resources.of(*kind)

    async def entries(self, kind: Kind, namespace: str = "") -> tuple[Entry, ...]:
        listing = await self.backend.cache.list_newest(self.resource(kind).folder(namespace))
        return listing.entries

    async def views(self, kind: Kind, view: Callable[[Object], T], namespace: str = "") -> list[T]:
        """Each object as the controller needs it. It is made once for each version, and kept with it."""
        name = f"{view.__module__}.{view.__qualname__}"
        found: list[T] = []
        for entry in await self.entries(kind, namespace):
            if name not in entry.cache:
                entry.cache[name] = view(of_entry(entry))
            found.append(entry.cache[name])
        return found

    async def all(self, kind: Kind, namespace: str = "") -> list[Object]:
        return [of_entry(entry) for entry in await self.entries(kind, namespace)]

    async def find(self, kind: Kind, namespace: str, name: str) -> Object | None:
        """As it is in the store, not as the cache remembers it."""
        resource = self.resource(kind)
        entry = await self.backend.store.get(resource.key(namespace, name))
        return None if entry is None else self.backend.object_of(resource, entry.value, entry.revision)

    def informer(self, *kinds: Kind, wanted: Wanted | None = None) -> AbstractAsyncContextManager[Informer]:
        """Tells whenever an object of one of the kinds has changed."""
        return informing(self.backend.cache, tuple(self.resource(kind).prefix for kind in kinds), wanted)

    # --- changing

    async def create(self, kind: Kind, obj: Object) -> bool:
        """As a client would; whether it was not there yet."""
        resource = self.resource(kind)
        strategy = self.backend.strategy(resource)
        new = strategy.normal({"apiVersion": resource.api_version, "kind": resource.kind, **obj})
        self.backend.stamp(new)
        strategy.prepare_create(new, self.now())
        try:
            created = await self.backend.create(resource, new)
        except ApiError as error:
            if error.reason == "AlreadyExists":
                return False
            raise
        await strategy.created(created, self.backend)
        return True

    async def change(self, kind: Kind, obj: Object, how: Callable[[Object], Object | None]) -> Object | None:
        """Change the object that this one was, if it is still there. `how` may be asked again, and may answer None."""
        resource, metadata = self.resource(kind), obj["metadata"]

        async def changed(live: Object) -> Object:
            if at(live, "metadata.uid") != metadata.get("uid"):
                raise NotFound(f"{metadata['name']} is another one now")
            return how(live) or live

        try:
            return await self.backend.update(resource, metadata.get("namespace", ""), metadata["name"], changed)
        except NotFound:
            return None
        except ApiError as error:
            if error.code == 404:
                return None
            raise

    async def remove(self, kind: Kind, obj: Object, *, grace: int | None = None) -> None:
        """Delete the object that this one was, with its grace, and only once its finalizers are gone."""
        resource, metadata = self.resource(kind), obj["metadata"]
        key = resource.key(metadata.get("namespace", ""), metadata["name"])
        strategy = self.backend.strategy(resource)
        while True:
            entry = await self.backend.store.get(key)
            live = None if entry is None else self.backend.object_of(resource, entry.value, entry.revision)
            if entry is None or live is None or at(live, "metadata.uid") != metadata.get("uid"):
                return
            seconds = strategy.grace(live, grace) or 0
            is_held = bool(at(live, "metadata.finalizers"))
            if isinstance(strategy, NamespaceStrategy):
                is_held = is_held or strategy.is_held(live)
            try:
                if not seconds and not is_held:
                    await self.backend.remove(resource, live)
                elif marked := self._marked(live, seconds):
                    data = stored(strategy.to_storage(marked))
                    await self.backend.store.update(key, data, revision=entry.revision)
                return
            except Stale:
                continue
            except NotFound:
                return
            except ApiError as error:
                if error.code != 404:
                    raise
                return

    def _marked(self, obj: Object, seconds: int) -> Object | None:
        """With its end written down; None when that is there already, and not later."""
        metadata = obj["metadata"]
        if metadata.get("deletionTimestamp") and metadata.get("deletionGracePeriodSeconds", 0) <= seconds:
            return None
        end: dict[str, Any] = {
            "deletionTimestamp": rfc3339(self.now() + timedelta(seconds=seconds)),
            "deletionGracePeriodSeconds": seconds,
        }
        if metadata.get("generation"):
            end["generation"] = metadata["generation"] + 1
        return {**obj, "metadata": {**metadata, **end}}

    async def tell(
        self, about: Object, reason: str, message: str, *, kind: str = "Normal", component: str, action: str = ""
    ) -> None:
        """An event, in the words of this component. Never stands in the way of what it tells of."""
        now, metadata = self.now(), about["metadata"]
        namespace = metadata.get("namespace") or "default"
        time = rfc3339(now)
        event = {
            "metadata": {"name": f"{metadata['name']}.{int(now.timestamp() * 1e9):x}", "namespace": namespace},
            "involvedObject": {
                "kind": about["kind"],
                "apiVersion": about["apiVersion"],
                "name": metadata["name"],
                "uid": metadata.get("uid", ""),
                "resourceVersion": metadata.get("resourceVersion", ""),
                **({"namespace": metadata["namespace"]} if metadata.get("namespace") else {}),
            },
            "reason": reason,
            "message": message[:1024],
            "type": kind,
            "source": {"component": component},
            "reportingComponent": component,
            "reportingInstance": "",
            "firstTimestamp": time,
            "lastTimestamp": time,
            "count": 1,
            **({"action": action} if action else {}),
        }
        try:
            await self.create(EVENTS, event)
        except (PykubeletError, ApiError) as error:
            log.warning("the event %s of %s %s was lost: %s", reason, about["kind"], metadata["name"], error)
