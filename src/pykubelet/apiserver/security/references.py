"""Which other objects a pod names: what a node has to read, because a pod on it does."""

from collections.abc import Iterable, Iterator
from typing import Any, Final, Protocol

import msgspec

from pykubelet.api.rules.well_known import MIRROR_ANNOTATION
from pykubelet.apiserver.objects import Object, at, of_entry
from pykubelet.apiserver.store.port import Entry

Reference = tuple[str, str]
"""plural, name"""

_SECRETS_OF_VOLUMES: Final = (
    "azureFile.secretName",
    "cephfs.secretRef.name",
    "cinder.secretRef.name",
    "csi.nodePublishSecretRef.name",
    "flexVolume.secretRef.name",
    "iscsi.secretRef.name",
    "rbd.secretRef.name",
    "scaleIO.secretRef.name",
    "secret.secretName",
    "storageos.secretRef.name",
)
_WITHOUT_API: Final = frozenset(
    (
        "awsElasticBlockStore",
        "azureDisk",
        "cephfs",
        "cinder",
        "downwardAPI",
        "emptyDir",
        "fc",
        "flexVolume",
        "flocker",
        "gcePersistentDisk",
        "gitRepo",
        "hostPath",
        "image",
        "iscsi",
        "nfs",
        "photonPersistentDisk",
        "portworxVolume",
        "quobyte",
        "rbd",
        "scaleIO",
        "storageos",
        "vsphereVolume",
    )
)
_VOLUMES_OF_API: Final = {
    "azureFile": "secrets (via azureFile volumes)",
    "configMap": "configmaps (via configmap volumes)",
    "csi": "csidrivers (via CSI volumes)",
    "ephemeral": "persistentvolumeclaims (via ephemeral volumes)",
    "glusterfs": "endpoints (via glusterFS volumes)",
    "persistentVolumeClaim": "persistentvolumeclaims",
    "secret": "secrets (via secret volumes)",
}
_PROJECTIONS_OF_API: Final = {
    "clusterTrustBundle": "clustertrustbundles",
    "configMap": "configmaps (via projected volumes)",
    "podCertificate": "podcertificates",
    "secret": "secrets (via projected volumes)",
    "serviceAccountToken": "serviceaccounts (via projected volumes)",
}


class PodFacts(msgspec.Struct, frozen=True):
    """All that the rules for nodes ask of a pod."""

    name: str
    uid: str
    node: str
    references: frozenset[Reference]


class Pods(Protocol):
    async def __call__(self, namespace: str) -> Iterable[PodFacts]:
        """Of the pods that are in a namespace now."""
        ...


def facts(entry: Entry) -> PodFacts:
    """Kept with the entry: a pod is looked into once for each of its versions."""
    found = entry.cache.get("security.facts")
    if not isinstance(found, PodFacts):
        found = entry.cache["security.facts"] = pod_facts(of_entry(entry))
    return found


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
    if account := spec.get("serviceAccountName") or spec.get("serviceAccount"):
        yield "serviceaccounts", account
    for secret in spec.get("imagePullSecrets") or ():
        yield from _named("secrets", secret)
    for part in ("initContainers", "containers", "ephemeralContainers"):
        for container in spec.get(part) or ():
            yield from _of_container(container)
    for volume in spec.get("volumes") or ():
        yield from _of_volume(volume, at(pod, "metadata.name", ""))


def api_reference(pod: Object) -> str:
    """The kind of objects that a pod refers to, for a sentence; empty when it gets on without the API."""
    spec = pod.get("spec") or {}
    if spec.get("serviceAccountName"):
        return "serviceaccounts"
    plain = {**pod, "spec": {**spec, "volumes": []}}
    if found := sorted({plural for plural, _ in references(plain)} - {"serviceaccounts"}, reverse=True):
        return found[0]
    if spec.get("resourceClaims"):
        return "resourceclaims"
    for volume in spec.get("volumes") or ():
        if found_in := _api_volume(volume):
            return found_in
    return ""


def _api_volume(volume: dict[str, Any]) -> str:
    sources = [key for key, value in volume.items() if key != "name" and value is not None]
    for source in sources:
        if source == "projected":
            for projection in at(volume, "projected.sources", []):
                for kind in projection:
                    if kind != "downwardAPI":
                        return _PROJECTIONS_OF_API.get(kind, f"an unknown source of volume {volume.get('name')!r}")
        elif source not in _WITHOUT_API:
            return _VOLUMES_OF_API.get(source, f"an unknown type of volume {volume.get('name')!r}")
    return ""


def _of_container(container: dict[str, Any]) -> Iterator[Reference]:
    for variable in container.get("env") or ():
        yield from _named("secrets", at(variable, "valueFrom.secretKeyRef"))
        yield from _named("configmaps", at(variable, "valueFrom.configMapKeyRef"))
    for source in container.get("envFrom") or ():
        yield from _named("secrets", source.get("secretRef"))
        yield from _named("configmaps", source.get("configMapRef"))


def _of_volume(volume: dict[str, Any], pod: str) -> Iterator[Reference]:
    for path in _SECRETS_OF_VOLUMES:
        if name := at(volume, path):
            yield "secrets", name
    yield from _named("configmaps", volume.get("configMap"))
    if claim := at(volume, "persistentVolumeClaim.claimName"):
        yield "persistentvolumeclaims", claim
    if volume.get("ephemeral"):
        yield "persistentvolumeclaims", f"{pod}-{volume.get('name', '')}"
    for source in at(volume, "projected.sources", []):
        yield from _named("secrets", source.get("secret"))
        yield from _named("configmaps", source.get("configMap"))


def _named(plural: str, reference: dict[str, Any] | None) -> Iterator[Reference]:
    if reference and reference.get("name"):
        yield plural, reference["name"]
