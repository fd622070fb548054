"""What makes a manifest a static pod of this node: its name, its identity, and its right to stay."""

import hashlib
from collections.abc import Mapping
from typing import Final

from pykubelet.api.pod import Pod, PodStatus
from pykubelet.api.rules.pod_kinds import FILE_SOURCE
from pykubelet.api.rules.well_known import HASH_ANNOTATION, MIRROR_ANNOTATION, SEEN_ANNOTATION, SOURCE_ANNOTATION
from pykubelet.api.scheduling import Toleration
from pykubelet.api.struct import changed

_AGENTS_NOTES: Final = (MIRROR_ANNOTATION, SEEN_ANNOTATION, SOURCE_ANNOTATION)
_STAYS: Final = Toleration(operator="Exists", effect="NoExecute")


def static_uid(dump: str, node_name: str, source: str, origin: str) -> str:
    """The same manifest in the same place keeps its uid for ever, whichever agent reads it; a changed one is a new pod.

    `dump` is the pod as Kubernetes prints what it holds.
    """
    place = f"host:{node_name}file:{origin}" if source == FILE_SOURCE else f"url:{origin}"
    return hashlib.md5((dump + place).encode(), usedforsecurity=False).hexdigest()


def static_pod(pod: Pod, uid: str, node_name: str, source: str) -> Pod:
    """A defaulted pod, made this node's own."""
    meta = changed(
        pod.metadata,
        uid=uid,
        name=f"{pod.metadata.name}-{node_name.lower()}",
        namespace=pod.metadata.namespace or "default",
        annotations={**_own(pod.metadata.annotations), HASH_ANNOTATION: uid},
    )
    spec = changed(pod.spec, node_name=node_name)
    if source == FILE_SOURCE:
        spec = changed(spec, tolerations=_with_toleration(spec.tolerations))
    # A manifest that was exported from a cluster brings an old status along, which means nothing here.
    return changed(pod, metadata=meta, spec=spec, status=PodStatus(phase="Pending"))


def _own(annotations: Mapping[str, str]) -> dict[str, str]:
    """Without what agents note in pods: a manifest that was exported from a cluster must not pass for a mirror pod."""
    return {key: value for key, value in annotations.items() if key not in _AGENTS_NOTES}


def _with_toleration(tolerations: tuple[Toleration, ...]) -> tuple[Toleration, ...]:
    """No trouble of the node evicts it, not even when its manifest set a time limit for that."""
    same = [changed(each, toleration_seconds=None) == _STAYS for each in tolerations]
    if not any(same):
        return (*tolerations, _STAYS)
    return tuple(_STAYS if is_same else each for is_same, each in zip(same, tolerations, strict=True))
