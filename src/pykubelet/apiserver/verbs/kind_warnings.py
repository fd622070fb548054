"""What whoever makes an object of the smaller kinds should know: annotations, volumes and kinds that are going away.

In the words of the Kubernetes API server, which people know and tools look for.
"""

from collections.abc import Iterator
from typing import Final

from pykubelet.apiserver.objects import Object, at
from pykubelet.apiserver.strategies.keyed_data import decoded

DEPRECATED: Final = {
    "componentstatuses": "v1 ComponentStatus is deprecated in v1.19+",
    "endpoints": "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice",
}
"""Kinds that whoever asks for them is warned of, even who only reads."""
_CLASS: Final = "volume.beta.kubernetes.io/storage-class"
_OLD_CLASS: Final = 'deprecated since v1.8; use "storageClassName" attribute instead'
_OLD_ANNOTATIONS: Final = {
    "persistentvolumeclaims": {_CLASS: _OLD_CLASS},
    "persistentvolumes": {
        _CLASS: _OLD_CLASS,
        "volume.beta.kubernetes.io/mount-options": 'deprecated since v1.31; use "mountOptions" attribute instead',
    },
    "serviceaccounts": {
        "kubernetes.io/enforce-mountable-secrets": (
            "deprecated in v1.32+; prefer separate namespaces to isolate access to mounted secrets"
        )
    },
}
_OLD_VOLUMES: Final = {
    "cephfs": "deprecated in v1.28, non-functional in v1.31+",
    "photonPersistentDisk": "deprecated in v1.11, non-functional in v1.16+",
    "scaleIO": "deprecated in v1.16, non-functional in v1.22+",
    "storageos": "deprecated in v1.22, non-functional in v1.25+",
    "glusterfs": "deprecated in v1.25, non-functional in v1.26+",
    "rbd": "deprecated in v1.28, non-functional in v1.31+",
}
_RECYCLE: Final = (
    "spec.persistentVolumeReclaimPolicy: The Recycle reclaim policy is deprecated. Instead, the recommended approach "
    "is to use dynamic provisioning."
)
_PEM: Final = b"-----BEGIN "


def kind_warnings(resource: str, obj: Object) -> Iterator[str]:
    """Of a new object; `resource` as in `deployments.apps`."""
    notes = at(obj, "metadata.annotations", {})
    for key, why in _OLD_ANNOTATIONS.get(resource, {}).items():
        if key in notes:
            yield f"metadata.annotations[{key}]: {why}"
    if resource == "persistentvolumes":
        spec = obj.get("spec") or {}
        if spec.get("persistentVolumeReclaimPolicy") == "Recycle":
            yield _RECYCLE
        yield from (f"spec.{kind}: {why}" for kind, why in _OLD_VOLUMES.items() if kind in spec)
    if resource == "secrets" and obj.get("type") == "kubernetes.io/tls":
        for name, what in (("tls.crt", "certificate"), ("tls.key", "key")):
            if _PEM not in decoded(at(obj, "data", {}).get(name, "")):
                yield f"tls: failed to find any PEM data in {what} input"
                return
