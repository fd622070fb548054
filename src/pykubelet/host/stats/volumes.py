"""Which volumes of pods can be measured, and how: what the node fills itself is counted, what is mounted from elsewhere
says of itself how full it is."""

import os
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Final, Literal

from msgspec import Struct

from pykubelet.api.pod import Pod
from pykubelet.api.volumes import Volume
from pykubelet.base.errors import PykubeletError
from pykubelet.host.dirs import PodDirs
from pykubelet.host.mount import mounts_below
from pykubelet.host.stats.asked import Measured
from pykubelet.host.volumes.claims import ClaimedPlace
from pykubelet.pod.observed import ObservedPod
from pykubelet.pod.stats.stats import VolumeUsage

_COUNTED: Final = frozenset(
    f"kubernetes.io~{name}" for name in ("empty-dir", "configmap", "secret", "downward-api", "projected", "git-repo")
)
_EPHEMERAL: Final = frozenset({"kubernetes.io~configmap", "kubernetes.io~git-repo"})
_EMPTY_DIR: Final = "kubernetes.io~empty-dir"


_CSI: Final = "kubernetes.io~csi"

Sort = Literal["counted", "file system", "driver's"]
"""Its content is added up; it is a file system of its own; its driver is asked."""


class FoundVolume(Struct, frozen=True, kw_only=True):
    name: str
    path: str
    sort: Sort
    folder: str = ""
    """Of a driver's: its name on disk."""
    is_ephemeral: bool = False
    is_mounted: bool = False
    claim: str = ""


async def _nobody(uid: str, folder: str) -> Measured | None:
    return None


class VolumeSources(Struct, frozen=True, kw_only=True):
    """Who knows of volumes what no folder tells."""

    claimed: Callable[[str], Sequence[ClaimedPlace]] = lambda uid: ()
    """What a pod has claimed, by its uid."""
    usage: Callable[[str, str], Awaitable[Measured | None]] = _nobody
    """What a driver says, of the volume of a pod's uid and a folder's name. Raises base.errors."""
    tell_abnormal: Callable[[Pod, str], None] = lambda pod, message: None


def pod_volumes(
    dirs: PodDirs,
    pods: Sequence[ObservedPod],
    specs: Mapping[str, Pod],
    claimed: Callable[[str], Sequence[ClaimedPlace]] = lambda uid: (),
) -> dict[str, tuple[FoundVolume, ...]]:
    """By uid: what is found in the folders of pods, and what they have claimed. Places that are mounted are never
    touched here."""
    mounted: dict[str, list[str]] = {}
    prefix = dirs.pods + "/"
    for path in mounts_below(dirs.pods):
        if path.startswith(prefix):
            mounted.setdefault(path[len(prefix) :].partition("/")[0], []).append(path)
    found = {}
    for pod in pods:
        with suppress(PykubeletError):  # a uid that no folder can have
            places, spec = claimed(pod.uid), specs.get(pod.uid)
            volumes = _volumes(
                dirs.volumes(pod.uid), mounted.get(pod.uid, ()), spec, {each.name: each for each in places}
            )
            volumes += tuple(_elsewhere(dirs.volumes(pod.uid), places))
            if volumes:
                found[pod.uid] = volumes
    return found


def measured_folders(volumes: Mapping[str, Sequence[FoundVolume]]) -> tuple[str, ...]:
    """Whose content is to be added up."""
    return tuple(each.path for of_pod in volumes.values() for each in of_pod if each.sort == "counted")


def volume_usage(volume: FoundVolume, known: Callable[[str], Measured | None]) -> VolumeUsage | None:
    """None while it has not been measured."""
    found = known(volume.path)
    if found is None:
        return None
    disk, health = found
    return VolumeUsage(name=volume.name, disk=disk, health=health, is_ephemeral=volume.is_ephemeral, claim=volume.claim)


def _elsewhere(folder: str, places: Sequence[ClaimedPlace]) -> Iterator[FoundVolume]:
    """What is claimed and used where it is, such as a folder of the machine."""
    for each in places:
        if not each.is_block and not each.path.startswith(f"{folder}/"):
            yield FoundVolume(name=each.volume, path=each.path, sort="file system", claim=each.claim)


def _volumes(
    folder: str, mounted: Sequence[str], pod: Pod | None, claimed: Mapping[str, ClaimedPlace]
) -> tuple[FoundVolume, ...]:
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
                        sort="counted",
                        is_ephemeral=plugin in _EPHEMERAL or (plugin == _EMPTY_DIR and not _is_in_memory(path, spec)),
                    )
                )
                continue
            of = claimed.get(name)
            shown, claim = (of.volume, of.claim) if of is not None else (name, _claim(pod, spec))
            place = next((each for each in (path, f"{path}/mount") if each in mounted), "")
            if plugin == _CSI and os.path.isfile(f"{path}/vol_data.json"):
                here = place or (of.path if of is not None else f"{path}/mount")
                found.append(
                    FoundVolume(
                        name=shown, path=here, sort="driver's", folder=name, claim=claim, is_mounted=bool(place)
                    )
                )
            elif place:
                found.append(FoundVolume(name=shown, path=place, sort="file system", claim=claim))
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
