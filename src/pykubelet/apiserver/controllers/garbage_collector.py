"""Removes what belonged to something that is gone: an object whose owners have all ended ends with them."""

import asyncio
import logging
from collections.abc import Mapping
from typing import Any, Final, Literal

import msgspec
from msgspec import Struct

from pykubelet.apiserver.controllers.client import ControllerClient
from pykubelet.apiserver.objects import Object
from pykubelet.apiserver.schema.resources import Resource
from pykubelet.apiserver.status import ApiError
from pykubelet.apiserver.store.port import Entry, Event
from pykubelet.apiserver.strategies.base import FOREGROUND, ORPHAN
from pykubelet.apiserver.writer.checks import without_finalizer, without_owners

log = logging.getLogger(__name__)

_MARK: Final = b'"ownerReferences"'
_HOLDS: Final = b'"foregroundDeletion"', b'"orphan"'
_LOOK_AGAIN: Final = 60.0
_PAUSE: Final = 0.1
_TRIES: Final = 5


class _Name(Struct):
    uid: str


class _Head(Struct):
    metadata: _Name


_decode_head: Final = msgspec.json.Decoder(_Head).decode


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

    def head(self) -> Object:
        return {"metadata": {"namespace": self.namespace, "name": self.name, "uid": self.uid}}


Standing = Literal["there", "waits", "gone"]
"""Of an owner: one that waits goes after all that belongs to it."""


class GarbageCollector:
    def __init__(self, client: ControllerClient) -> None:
        self._client = client
        self._kinds: dict[tuple[str, str], Resource] = {}
        self._owned: set[str] | None = None
        """The uids of all to whom something belonged when it was last looked; None: it was not looked yet."""
        self._is_waited = False
        """Whether somebody waited then for what belongs to him to be gone."""

    async def run(self) -> None:
        async with self._client.informer(wanted=self._matters) as informer:
            while True:
                await informer.wait(_LOOK_AGAIN)
                await self.sync()
                await asyncio.sleep(_PAUSE)  # what goes together is looked at together

    async def sync(self) -> None:
        self._kinds = {(resource.api_version, resource.kind): resource for resource in self._client.resources}
        belonging = await self._belonging()
        owned = self._owned = {owner.uid for _, each in belonging for owner in each.owners}
        known: dict[tuple[str, Owner], Standing] = {}
        """By the namespace from which it is looked at: from another one, the same owner is none."""
        for resource, found in belonging:
            if not found.is_leaving and found.owners:
                standings: dict[Owner, Standing] = {}
                with self._client.apart(f"{resource.kind} {found.namespace}/{found.name}"):
                    for owner in found.owners:
                        place = found.namespace, owner
                        if place not in known:
                            known[place] = await self._standing(owner, found.namespace)
                        standings[owner] = known[place]
                    await self._look_at(resource, found, standings, is_owner=found.uid in owned)
        await self._free_orphans()
        await self._let_go()

    def _matters(self, event: Event) -> bool:
        """One is gone to whom something belongs, or somebody waits for it; or one has another owner than before, or
        waits for what belongs to it. Most that is changed or deleted has nothing to do with anything else."""
        if event.kind == "delete":
            if self._owned is None or self._is_waited:
                return True
            uid = _uid(event.previous)
            return uid is None or uid in self._owned
        if _owners_in(event.value) != _owners_in(event.previous):
            return True
        return not event.is_new and any(event.value.find(hold) >= 0 for hold in _HOLDS)

    async def _belonging(self) -> list[tuple[Resource, Dependent]]:
        """All that has an owner."""
        found = []
        for resource, entry in await self._client.everything(_MARK):
            if "delete" in resource.verbs:
                with self._client.apart(entry.key):
                    found.append((resource, self._dependent(resource, entry)))
        return found

    def _dependent(self, resource: Resource, entry: Entry) -> Dependent:
        found = entry.cache.get("garbage.dependent")
        if not isinstance(found, Dependent):
            found = entry.cache["garbage.dependent"] = _dependent(self._client.read(resource, entry)["metadata"])
        return found

    async def _look_at(
        self, resource: Resource, found: Dependent, standings: Mapping[Owner, Standing], *, is_owner: bool
    ) -> None:
        kind = (resource.group, resource.plural)
        ended = {owner.uid for owner in found.owners if standings[owner] != "there"}
        if not ended:
            return
        if len(ended) == len(found.owners):
            is_waited_for = any(standings[owner] == "waits" for owner in found.owners)
            await self._end(resource, found, "Foreground" if is_owner and is_waited_for else "Background")
            return
        gone = {owner.uid for owner in found.owners if standings[owner] == "gone"}
        if gone:
            await self._client.change(kind, found.head(), lambda live: without_owners(live, gone))

    async def _end(self, resource: Resource, found: Dependent, policy: str) -> None:
        """Unless its owners are others by now: whoever set it free did so in time."""
        kind = (resource.group, resource.plural)
        for _ in range(_TRIES):
            live = await self._client.find(kind, found.namespace, found.name)
            if live is None or _dependent(live["metadata"]) != found:
                return
            try:
                await self._client.delete(kind, live, policy=policy, unchanged=True)
                log.info("%s %s/%s goes with its owner", resource.kind, found.namespace, found.name)
                return
            except ApiError as error:
                if error.code != 409:
                    log.info("%s %s/%s stays: %s", resource.kind, found.namespace, found.name, error.message)
                    return

    async def _standing(self, owner: Owner, namespace: str) -> Standing:
        """Of a kind that we do not know, nothing can be said: it counts as there."""
        resource = self._kinds.get((owner.api_version, owner.kind))
        if resource is None or not resource.is_stored:
            return "there"
        where = namespace if resource.namespaced else ""
        if resource.namespaced and not where:
            return "there"  # what belongs to all namespaces cannot be owned from inside one
        live = await self._client.find((resource.group, resource.plural), where, owner.name)
        if live is None or live["metadata"].get("uid") != owner.uid:
            return "gone"
        return "waits" if _is_held(live, FOREGROUND) else "there"

    async def _held(self, finalizer: str) -> list[tuple[Resource, Object]]:
        """What is to go, and waits for this."""
        found = []
        for resource, entry in await self._client.everything(f'"{finalizer}"'.encode()):
            with self._client.apart(entry.key):
                obj = self._client.read(resource, entry)
                found += [(resource, obj)] if _is_held(obj, finalizer) else []
        return found

    async def _free_orphans(self) -> None:
        """What belongs to one that goes and leaves it behind."""
        waiting = await self._held(ORPHAN)
        if not waiting:
            return
        uids = {obj["metadata"]["uid"] for _, obj in waiting}
        for resource, found in await self._belonging():
            if any(owner.uid in uids for owner in found.owners):
                kind = (resource.group, resource.plural)
                await self._client.change(kind, found.head(), lambda live: without_owners(live, uids))
        await self._release(waiting, ORPHAN)

    async def _let_go(self) -> None:
        """Owners that wait for their dependents to be gone."""
        waiting = await self._held(FOREGROUND)
        self._is_waited = bool(waiting)
        await self._release(waiting, FOREGROUND)

    async def _release(self, waiting: list[tuple[Resource, Object]], finalizer: str) -> None:
        """Those to whom nothing belongs any more."""
        if not waiting:
            return
        owned = {
            (owner.uid, where)
            for _, each in await self._belonging()
            for owner in each.owners
            for where in (each.namespace, None)
        }
        for resource, obj in waiting:
            if (obj["metadata"]["uid"], obj["metadata"].get("namespace")) not in owned:
                kind = (resource.group, resource.plural)
                changed = await self._client.change(kind, obj, lambda live: without_finalizer(live, finalizer))
                if changed is not None:
                    await self._client.remove(kind, changed)


def _dependent(metadata: dict[str, Any]) -> Dependent:
    owners = tuple(
        Owner(each.get("apiVersion", ""), each.get("kind", ""), each.get("name", ""), each.get("uid", ""))
        for each in metadata.get("ownerReferences", ())
    )
    where = metadata.get("namespace", "")
    return Dependent(where, metadata["name"], metadata.get("uid", ""), "deletionTimestamp" in metadata, owners)


def _is_held(obj: Object, finalizer: str) -> bool:
    metadata = obj["metadata"]
    return bool(metadata.get("deletionTimestamp")) and finalizer in metadata.get("finalizers", ())


def _owners_in(value: bytes | None) -> bytes:
    """The text that names them, to see whether it is another one now."""
    start = value.find(_MARK) if value else -1
    return value[start : value.find(b"]", start)] if value and start >= 0 else b""


def _uid(value: bytes | None) -> str | None:
    """None when it cannot be told."""
    try:
        return _decode_head(value or b"").metadata.uid
    except msgspec.DecodeError:
        return None
