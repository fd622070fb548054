"""Volumes that a pod claims: which one it is, is found out, and then it is set up by what it is."""

import os
import stat
from collections.abc import Callable, Mapping
from typing import Final

from msgspec import Struct

from pykubelet.api.pod import Pod
from pykubelet.api.rules.node_affinity import term_holds
from pykubelet.api.rules.well_known import HOST_PATH_PROVISIONER, PROVISIONED_BY
from pykubelet.api.storage import ClaimedVolume, LocalVolumeSource, PersistentVolumeSpec
from pykubelet.api.struct import changed
from pykubelet.api.volumes import Volume
from pykubelet.base.errors import Invalid, Retry
from pykubelet.host import mount
from pykubelet.host.dirs import PodDirs
from pykubelet.host.threads import in_thread
from pykubelet.host.volumes.csi import claimed, mounted
from pykubelet.host.volumes.host_path import check_host_path
from pykubelet.host.volumes.made_folders import MadeFolders
from pykubelet.host.volumes.nfs import Nfs, mount_nfs
from pykubelet.host.volumes.ownership import give_to_pod
from pykubelet.pod.container.csi_migration import migrated
from pykubelet.pod.container.failures import Unsupported
from pykubelet.pod.container.references import claim_of
from pykubelet.pod.ports.api import VolumeClaims
from pykubelet.pod.ports.csi import CsiVolumes

_LOCAL: Final = "kubernetes.io/local-volume"
_NO_ISCSI: Final = "iSCSI volumes are left to a CSI driver here: install one, such as iscsi.csi.k8s.io, and name it"

ThisNode = Callable[[], tuple[str, Mapping[str, str]]]
"""Its name and labels."""


class ClaimedPlace(Struct, frozen=True):
    """Where a pod's volume is that it has claimed."""

    volume: str
    """As the pod calls it."""
    claim: str
    name: str
    """Of the persistent volume."""
    path: str
    is_block: bool = False
    is_settled: bool = True
    """Else it has to be seen to at each sync: a driver may want to be asked again, and the volume may grow."""


class ClaimedVolumes:
    """`field` is that of a claim by name, or of one that is the pod's own."""

    plugin = "kubernetes.io/persistent-claim"

    def __init__(
        self,
        field: str,
        dirs: PodDirs,
        claims: VolumeClaims,
        node: ThisNode,
        drivers: CsiVolumes | None = None,
    ) -> None:
        self.field = field
        self._dirs = dirs
        self._claims = claims
        self._node = node
        self._drivers = drivers
        self._folders = MadeFolders(dirs.root)
        self._there: dict[str, dict[str, ClaimedPlace]] = {}
        """What this agent has set up, by uid and the pod's name for it."""

    async def set_up(self, pod: Pod, volume: Volume) -> str:
        known = self._there.get(pod.metadata.uid, {}).get(volume.name)
        if known is not None and known.is_settled:
            return known.path
        claim = claim_of(pod, volume) or ""
        found = await self._claims.claimed(pod.metadata.namespace, claim)
        found = changed(found, volume=migrated(found.volume))
        self._check(pod, volume, found)
        name, spec = found.volume.metadata.name, found.volume.spec
        path, is_block = await self._made(pod, volume, found), spec.volume_mode == "Block"
        place = ClaimedPlace(volume.name, claim, name, path, is_block, is_settled=spec.csi is None)
        self._there.setdefault(pod.metadata.uid, {})[volume.name] = place
        return path

    async def tear_down(self, uid: str, name: str) -> None:
        """What is mounted is found on disk, by whoever clears a pod's folder."""

    def places(self, uid: str) -> tuple[ClaimedPlace, ...]:
        return tuple(self._there.get(uid, {}).values())

    def forget(self, uid: str) -> None:
        self._there.pop(uid, None)
        if self._drivers is not None:
            self._drivers.forget(uid)

    def _check(self, pod: Pod, volume: Volume, found: ClaimedVolume) -> None:
        claim, spec = found.claim.metadata, found.volume.spec
        if volume.ephemeral is not None and not any(
            owner.controller and owner.uid == pod.metadata.uid for owner in claim.owner_references
        ):
            where = f"{claim.namespace}/"
            raise Invalid(
                f"PVC {where}{claim.name} was not created for pod {where}{pod.metadata.name} (pod is not owner)"
            )
        is_block = spec.volume_mode == "Block"
        containers = (*pod.spec.init_containers, *pod.spec.containers, *pod.spec.ephemeral_containers)
        mounted = any(each.name == volume.name for container in containers for each in container.volume_mounts)
        if is_block and mounted:
            raise Invalid(f"volume {volume.name} has volumeMode Block, but is specified in volumeMounts")
        if not is_block and not mounted:
            raise Invalid(f"volume {volume.name} has volumeMode Filesystem, but is specified in volumeDevices")
        node, labels = self._node()
        terms = spec.node_affinity.required if spec.node_affinity else None
        if terms is not None and not any(term_holds(term, node, labels) for term in terms.node_selector_terms):
            where = found.volume.metadata.name
            raise Retry(f'MountVolume.NodeAffinity check failed for volume "{where}" : no matching NodeSelectorTerms')

    async def _made(self, pod: Pod, volume: Volume, found: ClaimedVolume) -> str:
        spec, name = found.volume.spec, found.volume.metadata.name
        if spec.host_path is not None:
            if found.volume.metadata.annotations.get(PROVISIONED_BY) == HOST_PATH_PROVISIONER:
                await self._folders.make(name, spec.host_path.path)  # where it was asked for, there may be none yet
            await in_thread(check_host_path, spec.host_path)
            return spec.host_path.path
        if spec.local is not None:
            return await self._local(pod, volume, spec, spec.local, name)
        if spec.nfs is not None:
            target = self._target(pod, Nfs.plugin, name)
            await mount_nfs(spec.nfs, spec.mount_options, target)
            return target
        if spec.csi is not None and self._drivers is not None:
            claim = volume.persistent_volume_claim
            return await mounted(
                self._drivers, pod, claimed(found, read_only=claim is not None and bool(claim.read_only))
            )
        if spec.iscsi is not None:
            raise Retry(_NO_ISCSI)
        raise Unsupported(f'volume "{volume.name}"', f"the kind of persistent volume that {name} is")

    async def _local(
        self, pod: Pod, volume: Volume, spec: PersistentVolumeSpec, local: LocalVolumeSource, name: str
    ) -> str:
        mode = await in_thread(_mode_of, local.path)
        if spec.volume_mode == "Block":
            if not stat.S_ISBLK(mode):
                raise Invalid(f'local volume "{name}" has volumeMode Block, and {local.path} is no block device')
            return local.path
        if not stat.S_ISDIR(mode):
            raise Invalid(f'local volume "{name}": {local.path} is no folder; mount its file system and name that')
        target = self._target(pod, _LOCAL, name)
        await in_thread(_bind, local.path, target)
        claim = volume.persistent_volume_claim
        if claim is None or not claim.read_only:
            await give_to_pod(target, pod)
        return target

    def _target(self, pod: Pod, plugin: str, name: str) -> str:
        return self._dirs.volume(pod.metadata.uid, plugin, name)


def _mode_of(path: str) -> int:
    try:
        return os.stat(path).st_mode
    except OSError as error:
        raise Retry(f"local volume: {path}: {error.strerror}") from None


def _bind(source: str, target: str) -> None:
    os.makedirs(target, 0o750, exist_ok=True)
    if not mount.is_mount_point(target):
        mount.bind(source, target)
