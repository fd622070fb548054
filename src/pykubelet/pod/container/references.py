"""Which objects of an API server a pod depends on. A static pod may depend on none: its node has to run it alone."""

from collections.abc import Iterator, Mapping
from typing import Final

from msgspec import Struct

from pykubelet.api.codec import to_builtins
from pykubelet.api.pod import Pod, PodSpec
from pykubelet.api.rules.object_references import object_references
from pykubelet.api.volumes import Volume
from pykubelet.pod.container.env import wanted_objects
from pykubelet.pod.container.failures import ObjectKind

_BESIDE: Final[Mapping[str, ObjectKind]] = {"configmaps": "configmap", "secrets": "secret"}
"""What may lie beside the manifest of a static pod instead."""


class ApiReference(Struct, frozen=True):
    """A field that needs an object of an API server."""

    field: str
    what: str
    """The kind of objects, as upstream calls it when it refuses them to static pods."""
    kind: ObjectKind | None = None
    """Of an object that may also be had from elsewhere."""
    name: str = ""


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


def api_references(spec: PodSpec) -> Iterator[ApiReference]:
    """All that a pod needs of an API server."""
    for found in object_references(to_builtins(spec)):
        kind, what = found.kind, found.kind.plural
        beside = _BESIDE.get(kind.plural) if found.name and not kind.way else None
        yield ApiReference(found.path, f"{what} ({kind.way})" if kind.way else what, beside, found.name)


def claim_of(pod: Pod, volume: Volume) -> str | None:
    """The name of the claim that a volume is; None: it is something else."""
    if volume.persistent_volume_claim is not None:
        return volume.persistent_volume_claim.claim_name
    return f"{pod.metadata.name}-{volume.name}" if volume.ephemeral is not None else None
