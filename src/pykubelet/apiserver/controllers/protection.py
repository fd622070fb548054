"""Lets go of volumes, claims and classes that are to be deleted, once nobody uses them any longer."""

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Final, NamedTuple

from pykubelet.apiserver.controllers.client import CLAIMS, PODS, VOLUMES, ControllerClient, Kind
from pykubelet.apiserver.controllers.volumes.binding_rules import claim_names, own_claim_names
from pykubelet.apiserver.controllers.workloads.ownership import belongs_to
from pykubelet.apiserver.objects import Object, at
from pykubelet.apiserver.store.port import Event
from pykubelet.apiserver.strategies.persistent_volume_claims import CLAIM_PROTECTION
from pykubelet.apiserver.strategies.persistent_volumes import VOLUME_PROTECTION
from pykubelet.apiserver.strategies.storage_classes import CLASS_PROTECTION
from pykubelet.apiserver.writer.checks import without_finalizer

CLASSES: Final[Kind] = ("storage.k8s.io", "volumeattributesclasses")


class Protected(NamedTuple):
    kind: Kind
    finalizer: str
    users: tuple[Kind, ...]


CLAIM: Final = Protected(CLAIMS, CLAIM_PROTECTION, (PODS,))
VOLUME: Final = Protected(VOLUMES, VOLUME_PROTECTION, ())
CLASS: Final = Protected(CLASSES, CLASS_PROTECTION, (CLAIMS, VOLUMES))


class Protection:
    def __init__(self, client: ControllerClient, what: Protected) -> None:
        self._client = client
        self._what = what
        self._cache = client.backend.cache
        self._prefix = client.resource(what.kind).prefix

    async def run(self) -> None:
        await self._client.follow(self.sync, self._what.kind, *self._what.users, wanted=self._matters)

    def _matters(self, event: Event) -> bool:
        """Where there is nothing to protect, it is all the same who uses what."""
        return self._cache.has_any(self._prefix) or event.key.startswith(self._prefix)

    async def sync(self) -> None:
        kind, finalizer, users = self._what
        leaving = [
            obj
            for obj in await self._client.all(kind)
            if at(obj, "metadata.deletionTimestamp") and finalizer in at(obj, "metadata.finalizers", ())
        ]
        if not leaving:
            return
        for obj in leaving:
            where, name = obj["metadata"].get("namespace", ""), obj["metadata"]["name"]
            with self._client.apart(f"{kind[1]} {where}/{name}" if where else f"{kind[1]} {name}"):
                by_kind = {each: await self._client.all(each, where, whole=True) for each in users}
                if not is_used(kind, obj, by_kind):
                    await self._client.change(kind, obj, partial(without_finalizer, finalizer=finalizer))


def is_used(kind: Kind, obj: Object, users: Mapping[Kind, Iterable[Object]]) -> bool:
    name, namespace = obj["metadata"]["name"], obj["metadata"].get("namespace", "")
    if kind == VOLUMES:
        return bool(at(obj, "status.phase") == "Bound")
    if kind == CLAIMS:
        return any(_uses(pod, obj) for pod in users[PODS] if pod["metadata"].get("namespace") == namespace)
    return any(_names_class(each, name) for every in users.values() for each in every)


def _uses(pod: Object, claim: Object) -> bool:
    """One without a node does not get as far; one that has ended may be looked into. What is a pod's own is let go of
    as soon as its node has."""
    name = claim["metadata"]["name"]
    if not at(pod, "spec.nodeName") or name not in claim_names(pod):
        return False
    if name not in own_claim_names(pod):
        return True
    is_shut_down = at(pod, "metadata.deletionTimestamp") and at(pod, "metadata.deletionGracePeriodSeconds") == 0
    return not is_shut_down and belongs_to(claim, pod)


def _names_class(obj: Object, name: str) -> bool:
    paths = (
        "spec.volumeAttributesClassName",
        "status.currentVolumeAttributesClassName",
        "status.modifyVolumeStatus.targetVolumeAttributesClassName",
    )
    return any(at(obj, path) == name for path in paths)
