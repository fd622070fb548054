"""A pod's volumes on this machine: made before its containers, given back after them."""

import asyncio
import logging
import os
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from typing import Final

import msgspec

from pykubelet.api.container import Container
from pykubelet.api.pod import Pod
from pykubelet.api.quantity import ResourceList
from pykubelet.api.volumes import Volume, VolumeProjection
from pykubelet.base.errors import Invalid, PykubeletError, Retry, sentence
from pykubelet.host import mount
from pykubelet.host.dirs import PodDirs
from pykubelet.host.removal import remove_tree
from pykubelet.host.subpath import prepare_sub_path
from pykubelet.host.threads import in_thread
from pykubelet.host.volumes.claims import ClaimedPlace, ClaimedVolumes, ThisNode
from pykubelet.host.volumes.config_map import ConfigMapContent
from pykubelet.host.volumes.csi import Csi, Migrated
from pykubelet.host.volumes.downward_api import DownwardApiContent
from pykubelet.host.volumes.empty_dir import EmptyDir
from pykubelet.host.volumes.host_path import HostPath
from pykubelet.host.volumes.image import ImageVolume
from pykubelet.host.volumes.kind import Kind
from pykubelet.host.volumes.nfs import Nfs
from pykubelet.host.volumes.projected import ProjectedContent
from pykubelet.host.volumes.secret import SecretContent
from pykubelet.host.volumes.written import Content, Written
from pykubelet.pod.container.csi_migration import PLUGINS
from pykubelet.pod.container.env import Environment
from pykubelet.pod.container.failures import Unsupported
from pykubelet.pod.container.mounts import VolumePart, sub_paths, used_volumes
from pykubelet.pod.container.projected_volumes import needs_api
from pykubelet.pod.container.volume_moments import VolumeChanged, VolumeOperation
from pykubelet.pod.moments import Journal
from pykubelet.pod.ports.api import PodObjects, Recorder, VolumeClaims
from pykubelet.pod.ports.csi import CsiVolumes

log = logging.getLogger(__name__)

_GENERATED: Final = frozenset(
    f"kubernetes.io~{kind}" for kind in ("configmap", "secret", "projected", "downward-api", "empty-dir")
)
"""Kinds whose files an agent wrote itself, so that they may be removed. The files of others may be somebody's data."""

_PROJECTED: Final = ("config_map", "secret", "downward_api", "service_account_token")


class Volumes:
    """`memory` is what the node has for pods, in bytes, `allocatable` all that it has for them. `objects` and `claims`
    are None on a node without an API server; `node` says which one this is. The `recorder` is told of volumes that
    cannot be brought up to date. `images` says whether images may be volumes."""

    def __init__(
        self,
        dirs: PodDirs,
        *,
        memory: int,
        objects: PodObjects | None = None,
        claims: VolumeClaims | None = None,
        drivers: CsiVolumes | None = None,
        node: ThisNode = lambda: ("", {}),
        allocatable: Callable[[], ResourceList] = dict,
        recorder: Recorder | None = None,
        journal: Journal | None = None,
        images: bool = False,
    ) -> None:
        self._dirs = dirs
        self._journal = journal or Journal()
        self._made: dict[str, dict[str, str]] = {}
        """The plugin of each volume that is there, by uid and name, as far as this agent has seen to it."""
        self._has_api = objects is not None
        contents: list[Content] = [DownwardApiContent(allocatable), ProjectedContent(objects, allocatable)]
        if objects is not None:
            contents += [ConfigMapContent(objects), SecretContent(objects)]
        written = (Written(dirs, content, memory, recorder) for content in contents)
        fields = ("persistent_volume_claim", "ephemeral") if claims is not None else ()
        self._claimed = [ClaimedVolumes(field, dirs, claims, node, drivers) for field in fields if claims is not None]
        kinds: tuple[Kind, ...] = (EmptyDir(dirs, memory), HostPath(), Nfs(dirs), *written, *self._claimed)
        if drivers is not None:
            kinds += (*(Migrated(field, drivers) for field in PLUGINS), Csi(drivers))
        kinds += (ImageVolume(),) if images else ()
        self._by_field = {kind.field: kind for kind in kinds}
        self._by_folder = {kind.plugin.replace("/", "~"): kind for kind in kinds}

    async def set_up(self, pod: Pod) -> Mapping[str, str]:
        """Make every volume that a container of the pod uses. -> where each of them is, by name.

        May be called again: what is there already is left as it is, but for files that have changed since. Stops at
        the first that fails. Raises Invalid for a volume that cannot be had here, before anything is made; Retry.
        """
        used = used_volumes(pod)
        wanted = [(volume, self._kind(volume)) for volume in pod.spec.volumes if volume.name in used]
        return {volume.name: await self._set_up(kind, pod, volume) for volume, kind in wanted}

    def claimed(self, uid: str) -> tuple[ClaimedPlace, ...]:
        """Those of its volumes that the pod has claimed, as far as they are there."""
        return tuple(place for each in self._claimed for place in each.places(uid))

    def counts(self, pods: Iterable[Pod]) -> Mapping[tuple[str, ...], float]:
        """How many volumes there are, and how many these pods want, by plugin and upstream's name for that."""
        found: Counter[tuple[str, ...]] = Counter(
            (plugin, "actual_state_of_world") for made in self._made.values() for plugin in made.values()
        )
        for pod in pods:
            for volume in pod.spec.volumes:
                with suppress(PykubeletError):  # one that cannot be had here
                    found[self._kind(volume).plugin, "desired_state_of_world"] += 1
        return {labels: float(count) for labels, count in found.items()}

    async def _set_up(self, kind: Kind, pod: Pod, volume: Volume) -> str:
        """Noted when it is made, and whenever it fails; not each time that it is found to be as it should."""
        made = self._made.setdefault(pod.metadata.uid, {})
        began = asyncio.get_running_loop().time()
        try:
            path = await _set_up(kind, pod, volume)
        except PykubeletError as error:
            self._note(kind.plugin, "volume_mount", began, str(error))
            raise
        if volume.name not in made:
            made[volume.name] = kind.plugin
            self._note(kind.plugin, "volume_mount", began)
        return path

    def _note(self, plugin: str, operation: VolumeOperation, began: float, error: str = "") -> None:
        seconds = asyncio.get_running_loop().time() - began
        self._journal.note(VolumeChanged(plugin, operation, seconds, error))

    async def prepare_sub_paths(
        self, pod: Pod, container: Container, volume_paths: Mapping[str, str], env: Environment
    ) -> Mapping[int, VolumePart]:
        """What to mount for the mounts of a container that show only a part of their volume, by the mount's index."""
        prepared = {}
        for index, path in sub_paths(container, env).items():
            name = container.volume_mounts[index].name
            if name not in volume_paths:
                raise Invalid(f'cannot find volume "{name}" to mount into container "{container.name}"')
            if not volume_paths[name]:
                prepared[index] = VolumePart("", path)  # who mounts the image looks into it
                continue
            target = self._dirs.sub_path(pod.metadata.uid, name, container.name, index)
            try:
                prepared[index] = await in_thread(prepare_sub_path, volume_paths[name], path, target)
            except (Invalid, OSError) as error:
                # The pod's author does not have to learn what this machine looks like.
                log.warning("subPath %s of volume %s, container %s: %s", path, name, container.name, error)
                sort = Invalid if isinstance(error, Invalid) else Retry
                failed = f'failed to prepare subPath for volumeMount "{name}" of container "{container.name}"'
                raise sort(failed) from None
        return prepared

    async def tear_down(self, uid: str) -> None:
        """Give back every volume of a pod that is found on disk, whichever agent made it.

        Tries everything, then raises Retry with all that went wrong. Harmless when there is nothing.
        """
        folder = self._dirs.volumes(uid)
        steps: list[tuple[str, Callable[[], Awaitable[None]]]] = [
            ("", partial(in_thread, _discard_sub_paths, self._dirs.sub_paths(uid)))
        ]
        for plugin, name in await in_thread(_on_disk, folder):
            if plugin in self._by_folder:
                steps.append((plugin, partial(self._by_folder[plugin].tear_down, uid, name)))
            else:
                place = os.path.join(folder, plugin, name)
                steps.append((plugin, partial(in_thread, _discard, place, plugin in _GENERATED)))
        errors: list[str] = []
        for plugin, step in steps:
            began, failed = asyncio.get_running_loop().time(), len(errors)
            try:
                await step()
            except (OSError, PykubeletError, ExceptionGroup) as error:
                errors += _sentences(error)
            if plugin:
                self._note(plugin.replace("~", "/"), "volume_unmount", began, "; ".join(errors[failed:]))
        if errors:
            raise Retry("; ".join(errors))
        self._made.pop(uid, None)
        for each in self._claimed:
            each.forget(uid)

    def _kind(self, volume: Volume) -> Kind:
        for field in msgspec.structs.fields(Volume):
            if field.name == "name" or getattr(volume, field.name) is None:
                continue
            if parts := ", ".join(_unknown_parts(volume)):
                raise Unsupported(f'volume "{volume.name}"', parts)
            if not self._has_api and (needed := needs_api(volume)):
                raise Invalid(f'volume "{volume.name}" needs {needed}, and this node has no API server to get it from')
            if field.name in self._by_field:
                return self._by_field[field.name]
            if field.name == ImageVolume.field:
                raise Invalid(
                    f'volume "{volume.name}" is an image, and the feature gate ImageVolume is off on this node'
                )
            raise Unsupported(f'volume "{volume.name}"', field.encode_name)
        return self._by_field["empty_dir"]  # a volume that says nothing of its kind


def _unknown_parts(volume: Volume) -> Iterator[str]:
    for part in volume.projected.sources if volume.projected is not None else ():
        for field in msgspec.structs.fields(VolumeProjection):
            if field.name not in _PROJECTED and getattr(part, field.name) is not None:
                yield f"a projected {field.encode_name}"


async def _set_up(kind: Kind, pod: Pod, volume: Volume) -> str:
    try:
        return await kind.set_up(pod, volume)
    except OSError as error:
        raise Retry(f'volume "{volume.name}" cannot be set up: {sentence(error)}') from error


# --- on disk


def _on_disk(folder: str) -> list[tuple[str, str]]:
    """The volumes in a pod's folder: the escaped name of the plugin, and the volume's name."""
    try:
        return [
            (plugin, name) for plugin in sorted(os.listdir(folder)) for name in _names(os.path.join(folder, plugin))
        ]
    except FileNotFoundError:
        return []
    except OSError as error:
        raise Retry(sentence(error)) from error


def _names(folder: str) -> list[str]:
    return sorted(os.listdir(folder)) if os.path.isdir(folder) and not os.path.islink(folder) else []


def _discard(path: str, with_files: bool) -> None:
    """Unmount what is mounted there, then remove the folders, and their files only if no data can be in them."""
    mount.unmount_below(path)
    if with_files or os.path.islink(path):
        remove_tree(path)
        return
    for folder, _, _ in os.walk(path, topdown=False):
        os.rmdir(folder)


def _discard_sub_paths(path: str) -> None:
    """Few pods have any, and nothing is mounted where there is no folder. The folder itself is always one of ours."""
    if os.path.lexists(path):
        _discard(path, True)


def _sentences(error: Exception) -> list[str]:
    match error:
        case ExceptionGroup():
            return [text for each in error.exceptions for text in _sentences(each)]
        case OSError():
            return [sentence(error)]
    return [str(error)]
