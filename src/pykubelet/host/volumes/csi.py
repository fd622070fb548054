"""Volumes of storage drivers that a pod names itself: they come and go with it."""

from pykubelet.api.pod import Pod
from pykubelet.api.storage import ClaimedVolume, SecretReference
from pykubelet.api.struct import changed
from pykubelet.api.volumes import Volume
from pykubelet.base.errors import Invalid
from pykubelet.host.volumes.ownership import give_to_pod
from pykubelet.pod.container.csi_migration import migrated_inline
from pykubelet.pod.container.projected_volumes import fs_group
from pykubelet.pod.ports.csi import CsiVolume, CsiVolumes


class Csi:
    field: str = "csi"
    plugin = "kubernetes.io/csi"

    def __init__(self, drivers: CsiVolumes) -> None:
        self._drivers = drivers

    async def set_up(self, pod: Pod, volume: Volume) -> str:
        source = volume.csi
        assert source is not None
        reference = source.node_publish_secret_ref
        secret = SecretReference(reference.name, pod.metadata.namespace) if reference is not None else None
        wanted = CsiVolume(
            driver=source.driver,
            handle="",
            name=volume.name,
            fs_type=source.fs_type or "",
            attributes=source.volume_attributes,
            read_only=bool(source.read_only),
            publish_secret=secret,
        )
        return await mounted(self._drivers, pod, wanted)

    async def tear_down(self, uid: str, name: str) -> None:
        """Also what was claimed: by what is written down beside it."""
        await self._drivers.tear_down(uid, name)


class Migrated(Csi):
    """A kind of volume that a driver has taken over, by the field that still asks for it."""

    def __init__(self, field: str, drivers: CsiVolumes) -> None:
        super().__init__(drivers)
        self.field = field

    async def set_up(self, pod: Pod, volume: Volume) -> str:
        found = migrated_inline(volume, pod.metadata.namespace)
        assert found is not None
        wanted = claimed(ClaimedVolume(volume=found), read_only=False)
        return await mounted(self._drivers, pod, changed(wanted, claimed=None))


def claimed(found: ClaimedVolume, *, read_only: bool) -> CsiVolume:
    spec, source = found.volume.spec, found.volume.spec.csi
    assert source is not None
    if not source.volume_handle:
        raise Invalid(f"persistent volume {found.volume.metadata.name} has no volumeHandle")
    return CsiVolume(
        driver=source.driver,
        handle=source.volume_handle,
        name=found.volume.metadata.name,
        fs_type=source.fs_type,
        attributes=source.volume_attributes,
        access_modes=spec.access_modes,
        mount_options=spec.mount_options,
        read_only=read_only or bool(source.read_only),
        is_block=spec.volume_mode == "Block",
        stage_secret=source.node_stage_secret_ref,
        publish_secret=source.node_publish_secret_ref,
        expand_secret=source.node_expand_secret_ref,
        claimed=found,
    )


async def mounted(drivers: CsiVolumes, pod: Pod, volume: CsiVolume) -> str:
    """-> where it is, the pod's group's own if that is for us to see to."""
    found = await drivers.set_up(pod, volume, fs_group(pod))
    if found.wants_group:
        await give_to_pod(found.path, pod)
    return found.path
