"""Which other objects a pod names: what a node has to read, because a pod on it does."""

from collections.abc import Iterable, Iterator
from typing import Final, Protocol

import msgspec

from pykubelet.api.rules.object_references import object_references
from pykubelet.api.rules.pod_claims import pod_claims
from pykubelet.api.rules.well_known import MIRROR_ANNOTATION
from pykubelet.apiserver.objects import UNREADABLE, Object, at, of_entry
from pykubelet.apiserver.store.port import Entry

Reference = tuple[str, str]
"""plural, name"""

_FACTS: Final = "security.facts"
_COUNTED: Final = frozenset(("configmaps", "persistentvolumeclaims", "secrets", "serviceaccounts"))
"""Of what a pod names, that which its node may read."""
_SECRET_FIELDS: Final = {
    "csi": ("nodePublishSecretRef", "nodeStageSecretRef", "nodeExpandSecretRef"),
    **dict.fromkeys(("cephfs", "cinder", "flexVolume", "iscsi", "rbd", "scaleIO", "storageos"), ("secretRef",)),
}
_WHOLE: Final = ("cinder", "csi", "storageos")
"""Those that always say where a secret is."""
_TOLD_FIRST: Final = ("serviceaccounts", "secrets", "configmaps", "resourceclaims")


class PodFacts(msgspec.Struct, frozen=True):
    """All that the rules for nodes ask of a pod."""

    name: str
    uid: str
    node: str
    references: frozenset[Reference]


class VolumeFacts(msgspec.Struct, frozen=True):
    """And of a persistent volume: the claim that it is kept for, and the secrets that whoever mounts it needs."""

    claim: tuple[str, str]
    secrets: frozenset[tuple[str, str]]
    """Each with its namespace."""


class Pods(Protocol):
    async def __call__(self, namespace: str) -> Iterable[PodFacts]:
        """Of the pods that are in a namespace now."""
        ...


class Volumes(Protocol):
    async def __call__(self) -> Iterable[VolumeFacts]:
        """Of those that are there now."""
        ...


def facts(entry: Entry) -> PodFacts:
    """Kept with the entry: a pod is looked into once for each of its versions."""
    found = entry.cache.get(_FACTS)
    if not isinstance(found, PodFacts):
        found = entry.cache[_FACTS] = pod_facts(of_entry(entry))
    return found


def volume_facts(entry: Entry) -> VolumeFacts:
    """One that cannot be read opens nothing."""
    found = entry.cache.get(_FACTS)
    if not isinstance(found, VolumeFacts):
        try:
            volume = of_entry(entry)
        except UNREADABLE:
            volume = {}
        claim = at(volume, "spec.claimRef.namespace", ""), at(volume, "spec.claimRef.name", "")
        found = entry.cache[_FACTS] = VolumeFacts(claim, frozenset(_secrets(at(volume, "spec", {}), claim[0])))
    return found


def _secrets(spec: Object, namespace: str) -> Iterator[tuple[str, str]]:
    """What only controllers need is not for nodes. `namespace` is the claim's, which the older kinds fall back on."""
    if name := at(spec, "azureFile.secretName", ""):
        yield at(spec, "azureFile.secretNamespace") or namespace, name
    for kind, fields in _SECRET_FIELDS.items():
        for field in fields:
            where = at(spec, f"{kind}.{field}.namespace", "") or ("" if kind in _WHOLE else namespace)
            if where and (name := at(spec, f"{kind}.{field}.name", "")):
                yield where, name


def is_known(entry: Entry) -> bool:
    """Whether this version was looked into before."""
    return _FACTS in entry.cache


def pod_facts(pod: Object) -> PodFacts:
    # What a node itself has created must not open anything to it.
    is_mirror = MIRROR_ANNOTATION in at(pod, "metadata.annotations", {})
    return PodFacts(
        at(pod, "metadata.name", ""),
        at(pod, "metadata.uid", ""),
        at(pod, "spec.nodeName", ""),
        frozenset() if is_mirror else frozenset(references(pod)),
    )


def references(pod: Object) -> Iterator[Reference]:
    spec = pod.get("spec") or {}
    for found in object_references(spec):
        if found.name and found.kind.plural in _COUNTED:
            yield found.kind.plural, found.name
    for volume in spec.get("volumes") or ():
        if volume.get("ephemeral"):
            yield "persistentvolumeclaims", f"{at(pod, 'metadata.name', '')}-{volume.get('name', '')}"
    for each in pod_claims(pod):
        if each.claim:
            yield "resourceclaims", each.claim


def api_reference(pod: Object) -> str:
    """The kind of objects that a pod refers to, for a sentence; empty when it gets on without the API."""
    found = [each.kind for each in object_references(pod.get("spec") or {})]
    if not found:
        return ""
    kind = next((each for plural in _TOLD_FIRST for each in found if each.plural == plural), found[0])
    return f"{kind.plural} ({kind.way})" if kind.way else kind.plural
