"""Removes what belonged to something that is gone: an object whose owners have all ended ends with them."""

import logging
from typing import Any, Final

from msgspec import Struct

from pykubelet.apiserver.controllers.client import ControllerClient, Kind
from pykubelet.apiserver.objects import Object, of_entry
from pykubelet.apiserver.schema.resources import Resource
from pykubelet.apiserver.store.port import Entry, Event
from pykubelet.apiserver.strategies.base import FOREGROUND
from pykubelet.apiserver.writer.checks import without_owners

log = logging.getLogger(__name__)

_MARK: Final = b'"ownerReferences"'
_LOOK_AGAIN: Final = 60.0


class Owner(Struct, frozen=True):
    api_version: str
    kind: str
    name: str
    uid: str


class Dependent(Struct, frozen=True):
    namespace: str
    name: str
    uid: str
    is_leaving: bool
    owners: tuple[Owner, ...]


class GarbageCollector:
    def __init__(self, client: ControllerClient) -> None:
        self._client = client
        self._kinds: dict[tuple[str, str], Resource] = {}

    async def run(self) -> None:
        await self._client.follow(self.sync, wanted=_matters, most=_LOOK_AGAIN)

    async def sync(self) -> None:
        self._kinds = {(resource.api_version, resource.kind): resource for resource in self._client.resources}
        for resource, entry in await self._client.everything():
            if _MARK in entry.value and "delete" in resource.verbs:
                found = dependent(entry)
                if not found.is_leaving and found.owners:
                    await self._look_at((resource.group, resource.plural), resource, found)
        await self._let_go()

    async def _look_at(self, kind: Kind, resource: Resource, found: Dependent) -> None:
        gone = {owner.uid for owner in found.owners if not await self._is_there(owner, found.namespace)}
        if not gone:
            return
        if len(gone) == len(found.owners):
            log.info("%s %s/%s goes with its owner", resource.kind, found.namespace, found.name)
            metadata = {"namespace": found.namespace, "name": found.name, "uid": found.uid}
            await self._client.remove(kind, {"metadata": metadata})
            return
        obj = await self._client.find(kind, found.namespace, found.name)
        if obj is not None:
            await self._client.change(kind, obj, lambda live: without_owners(live, gone))

    async def _is_there(self, owner: Owner, namespace: str) -> bool:
        """Of a kind that we do not know, nothing can be said: it counts as there."""
        resource = self._kinds.get((owner.api_version, owner.kind))
        if resource is None or not resource.is_stored:
            return True
        where = namespace if resource.namespaced else ""
        if resource.namespaced and not where:
            return True  # what belongs to all namespaces cannot be owned from inside one
        live = await self._client.find((resource.group, resource.plural), where, owner.name)
        if live is None or live["metadata"].get("uid") != owner.uid:
            return False
        return FOREGROUND not in live["metadata"].get("finalizers", [])

    async def _let_go(self) -> None:
        """Owners that wait for their dependents to be gone."""
        every = await self._client.everything()
        waiting = [(resource, entry) for resource, entry in every if FOREGROUND.encode() in entry.value]
        belonging = [dependent(entry) for _, entry in every if waiting and _MARK in entry.value]
        owned = {owner.uid for each in belonging for owner in each.owners}
        for resource, entry in waiting:
            kind, owner = (resource.group, resource.plural), of_entry(entry)
            if not owner["metadata"].get("deletionTimestamp") or owner["metadata"]["uid"] in owned:
                continue
            changed = await self._client.change(kind, owner, without_wait)
            if changed is not None:
                await self._client.remove(kind, changed)


def dependent(entry: Entry) -> Dependent:
    found = entry.cache.get("garbage.dependent")
    if not isinstance(found, Dependent):
        found = entry.cache["garbage.dependent"] = _dependent(of_entry(entry)["metadata"])
    return found


def _dependent(metadata: dict[str, Any]) -> Dependent:
    owners = tuple(
        Owner(each.get("apiVersion", ""), each.get("kind", ""), each.get("name", ""), each.get("uid", ""))
        for each in metadata.get("ownerReferences", ())
    )
    where = metadata.get("namespace", "")
    return Dependent(where, metadata["name"], metadata.get("uid", ""), "deletionTimestamp" in metadata, owners)


def without_wait(obj: Object) -> Object | None:
    finalizers = obj["metadata"].get("finalizers", [])
    if FOREGROUND not in finalizers:
        return None
    metadata = {**obj["metadata"], "finalizers": [each for each in finalizers if each != FOREGROUND]}
    return {**obj, "metadata": metadata}


def _matters(event: Event) -> bool:
    """Something is gone, or is new and has an owner, or waits for its dependents."""
    if event.kind == "delete":
        return True
    return FOREGROUND.encode() in event.value or (event.is_new and _MARK in event.value)
