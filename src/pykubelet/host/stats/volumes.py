"""Which volumes of pods can be measured, and how: what the node fills itself is counted, what is mounted from elsewhere
says of itself how full it is."""

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Final

from msgspec import Struct

from pykubelet.api.pod import Pod
from pykubelet.api.volumes import Volume
from pykubelet.base.errors import PykubeletError
from pykubelet.host.dirs import PodDirs
from pykubelet.host.mount import mounts_below
from pykubelet.pod.observed import ObservedPod
from pykubelet.pod.stats.stats import Disk, VolumeUsage

_COUNTED: Final = frozenset(
    f"kubernetes.io~{name}" for name in ("empty-dir", "configmap", "secret", "downward-api", "projected", "git-repo")
)
_EPHEMERAL: Final = frozenset({"kubernetes.io~configmap", "kubernetes.io~git-repo"})
_EMPTY_DIR: Final = "kubernetes.io~empty-dir"


class FoundVolume(Struct, frozen=True, kw_only=True):
    name: str
    path: str
    is_counted: bool
    """Whether its content is added up; else it is a file system of its own."""
    is_ephemeral: bool = False
    claim: str = ""


def pod_volumes(
    dirs: PodDirs, pods: Sequence[ObservedPod], specs: Mapping[str, Pod]
) -> dict[str, tuple[FoundVolume, ...]]:
    """By uid: what is found in the folders of pods. Places that are mounted are never touched here."""
    mounted: dict[str, list[str]] = {}
    prefix = dirs.pods + "/"
    for path in mounts_below(dirs.pods):
        if path.startswith(prefix):
            mounted.setdefault(path[len(prefix) :].partition("/")[0], []).append(path)
    found = {}
    for pod in pods:
        with suppress(PykubeletError):  # a uid that no folder can have
            volumes = _volumes(dirs.volumes(pod.uid), mounted.get(pod.uid, ()), specs.get(pod.uid))
            if volumes:
                found[pod.uid] = volumes
    return found


def measured_folders(volumes: Mapping[str, Sequence[FoundVolume]]) -> dict[str, bool]:
    """Where they are, and whether their content is to be added up."""
    return {each.path: each.is_counted for all_of_pod in volumes.values() for each in all_of_pod}


def volume_usage(volume: FoundVolume, known: Callable[[str], Disk | None]) -> VolumeUsage | None:
    """None while it has not been measured."""
    disk = known(volume.path)
    if disk is None:
        return None
    return VolumeUsage(name=volume.name, disk=disk, is_ephemeral=volume.is_ephemeral, claim=volume.claim)


def _volumes(folder: str, mounted: Sequence[str], pod: Pod | None) -> tuple[FoundVolume, ...]:
    specs = {volume.name: volume for volume in pod.spec.volumes} if pod else {}
    found = []
    for plugin in _names(folder):
        for name in _names(os.path.join(folder, plugin)):
            path = os.path.join(folder, plugin, name)
            spec = specs.get(name)
            if plugin in _COUNTED:
                found.append(
                    FoundVolume(
                        name=name,
                        path=os.path.realpath(path) if os.path.islink(path) else path,
                        is_counted=True,
                        is_ephemeral=plugin in _EPHEMERAL or (plugin == _EMPTY_DIR and not _is_in_memory(path, spec)),
                    )
                )
            elif place := next((each for each in (path, f"{path}/mount") if each in mounted), ""):
                found.append(FoundVolume(name=name, path=place, is_counted=False, claim=_claim(pod, spec)))
    return tuple(found)


def _names(folder: str) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []


def _is_in_memory(path: str, spec: Volume | None) -> bool:
    if spec is not None and spec.empty_dir is not None:
        return spec.empty_dir.medium != ""
    return os.path.islink(path)


def _claim(pod: Pod | None, spec: Volume | None) -> str:
    if spec is None or pod is None:
        return ""
    if spec.persistent_volume_claim is not None:
        return spec.persistent_volume_claim.claim_name
    return f"{pod.metadata.name}-{spec.name}" if spec.ephemeral is not None else ""
