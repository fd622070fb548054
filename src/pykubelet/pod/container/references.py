"""Which objects of an API server a pod depends on. A static pod may depend on none: its node has to run it alone."""

from collections.abc import Iterator, Mapping
from typing import Final

from pykubelet.api.pod import PodSpec
from pykubelet.api.validation.options import every_container
from pykubelet.api.volumes import Volume, VolumeProjection
from pykubelet.pod.container.env import wanted_objects
from pykubelet.pod.container.failures import ObjectKind

_VOLUME_KINDS: Final = {
    "config_map": ("configMap", "config maps"),
    "secret": ("secret", "secrets"),
    "csi": ("csi", "CSI drivers"),
    "glusterfs": ("glusterfs", "endpoints"),
    "persistent_volume_claim": ("persistentVolumeClaim", "persistent volume claims"),
    "ephemeral": ("ephemeral", "persistent volume claims"),
    "azure_file": ("azureFile", "secrets"),
}
_SECRET_REF_KINDS: Final = {
    "cephfs": "cephfs",
    "cinder": "cinder",
    "flex_volume": "flexVolume",
    "iscsi": "iscsi",
    "rbd": "rbd",
    "scale_io": "scaleIO",
    "storageos": "storageos",
}
_PROJECTED_KINDS: Final = {
    "config_map": ("configMap", "config maps"),
    "secret": ("secret", "secrets"),
    "service_account_token": ("serviceAccountToken", "service accounts"),
    "cluster_trust_bundle": ("clusterTrustBundle", "cluster trust bundles"),
    "pod_certificate": ("podCertificate", "pod certificates"),
}


def object_uses(spec: PodSpec) -> Mapping[tuple[ObjectKind, str], bool]:
    """The config maps and secrets that a pod reads, each with whether the files of its containers follow it.

    Environments are made once, and so are mounts with a subPath. What no container mounts is not read.
    """
    uses: dict[tuple[ObjectKind, str], bool] = {("secret", each.name): False for each in spec.image_pull_secrets}
    mounts: dict[str, bool] = {}
    for container in (*spec.init_containers, *spec.containers, *spec.ephemeral_containers):
        config_maps, secrets = wanted_objects(container)
        uses |= {("configmap", name): False for name in config_maps} | {("secret", name): False for name in secrets}
        for mount in container.volume_mounts:
            mounts[mount.name] = mounts.get(mount.name, False) or not (mount.sub_path or mount.sub_path_expr)
    for volume in spec.volumes:
        for each in _objects_of_volume(volume) if volume.name in mounts else ():
            uses[each] = uses.get(each, False) or mounts[volume.name]
    return {(kind, name): follows for (kind, name), follows in uses.items() if name}


def _objects_of_volume(volume: Volume) -> Iterator[tuple[ObjectKind, str]]:
    if volume.config_map is not None:
        yield "configmap", volume.config_map.name
    if volume.secret is not None:
        yield "secret", volume.secret.secret_name
    for part in volume.projected.sources if volume.projected is not None else ():
        if part.config_map is not None:
            yield "configmap", part.config_map.name
        if part.secret is not None:
            yield "secret", part.secret.name


def api_references(spec: PodSpec) -> Iterator[tuple[str, str]]:
    """The fields that need an API server, each with the kind of object that it asks for."""
    if spec.service_account_name:
        yield "spec.serviceAccountName", "service accounts"
    for index, secret in enumerate(spec.image_pull_secrets):
        if secret.name:
            yield f"spec.imagePullSecrets[{index}]", "secrets"
    if spec.resource_claims:
        yield "spec.resourceClaims", "resource claims"
    yield from _of_containers(spec)
    yield from _of_volumes(spec)


def _of_containers(spec: PodSpec) -> Iterator[tuple[str, str]]:
    for container, path in every_container(spec, "spec"):
        for number, variable in enumerate(container.env):
            if variable.value_from is not None and variable.value_from.secret_key_ref is not None:
                yield f"{path}.env[{number}].valueFrom.secretKeyRef", "secrets"
            if variable.value_from is not None and variable.value_from.config_map_key_ref is not None:
                yield f"{path}.env[{number}].valueFrom.configMapKeyRef", "config maps"
        for number, source in enumerate(container.env_from):
            if source.secret_ref is not None:
                yield f"{path}.envFrom[{number}].secretRef", "secrets"
            if source.config_map_ref is not None:
                yield f"{path}.envFrom[{number}].configMapRef", "config maps"


def _of_volumes(spec: PodSpec) -> Iterator[tuple[str, str]]:
    for index, volume in enumerate(spec.volumes):
        path = f"spec.volumes[{index}]"
        for attribute, (name, needed) in _VOLUME_KINDS.items():
            if getattr(volume, attribute) is not None:
                yield f"{path}.{name}", needed
        for attribute, name in _SECRET_REF_KINDS.items():
            source = getattr(volume, attribute)
            if source is not None and source.secret_ref is not None:
                yield f"{path}.{name}.secretRef", "secrets"
        for number, part in enumerate(volume.projected.sources if volume.projected else ()):
            yield from _of_projection(f"{path}.projected.sources[{number}]", part)


def _of_projection(path: str, part: VolumeProjection) -> Iterator[tuple[str, str]]:
    for attribute, (name, needed) in _PROJECTED_KINDS.items():
        if getattr(part, attribute) is not None:
            yield f"{path}.{name}", needed
