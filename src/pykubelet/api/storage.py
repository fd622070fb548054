"""Persistent volumes and the claims to them, as far as a node needs them."""

from collections.abc import Mapping

from pykubelet.api.meta import ObjectMeta
from pykubelet.api.objects import ObjectReference
from pykubelet.api.quantity import ResourceList
from pykubelet.api.scheduling import NodeSelector
from pykubelet.api.struct import Struct, written
from pykubelet.api.volume_sources import (
    AWSElasticBlockStoreVolumeSource,
    AzureDiskVolumeSource,
    AzureFileVolumeSource,
    CinderVolumeSource,
    GCEPersistentDiskVolumeSource,
    ISCSIVolumeSource,
    NFSVolumeSource,
    PersistentVolumeClaimSpec,
    PortworxVolumeSource,
    VsphereVirtualDiskVolumeSource,
)
from pykubelet.api.volumes import HostPathVolumeSource


class LocalVolumeSource(Struct, frozen=True):
    path: str = written(str)
    fs_type: str | None = None


class SecretReference(Struct, frozen=True):
    name: str = ""
    namespace: str = ""


class CSIPersistentVolumeSource(Struct, frozen=True):
    driver: str = written(str)
    volume_handle: str = written(str)
    read_only: bool | None = None
    fs_type: str = ""
    volume_attributes: Mapping[str, str] = {}
    node_stage_secret_ref: SecretReference | None = None
    node_publish_secret_ref: SecretReference | None = None
    node_expand_secret_ref: SecretReference | None = None


class AzureFilePersistentVolumeSource(AzureFileVolumeSource, frozen=True):
    secret_namespace: str | None = None


class VolumeNodeAffinity(Struct, frozen=True):
    required: NodeSelector | None = None


class PersistentVolumeSpec(Struct, frozen=True):
    """Where it is, is in one of the fields at the end; others there are kinds that this node knows nothing of."""

    capacity: ResourceList = {}
    access_modes: tuple[str, ...] = ()
    claim_ref: ObjectReference | None = None
    storage_class_name: str = ""
    mount_options: tuple[str, ...] = ()
    volume_mode: str | None = None
    node_affinity: VolumeNodeAffinity | None = None
    host_path: HostPathVolumeSource | None = None
    local: LocalVolumeSource | None = None
    nfs: NFSVolumeSource | None = None
    iscsi: ISCSIVolumeSource | None = None
    csi: CSIPersistentVolumeSource | None = None
    gce_persistent_disk: GCEPersistentDiskVolumeSource | None = None
    aws_elastic_block_store: AWSElasticBlockStoreVolumeSource | None = None
    cinder: CinderVolumeSource | None = None
    azure_disk: AzureDiskVolumeSource | None = None
    azure_file: AzureFilePersistentVolumeSource | None = None
    vsphere_volume: VsphereVirtualDiskVolumeSource | None = None
    portworx_volume: PortworxVolumeSource | None = None


class PersistentVolume(Struct, frozen=True):
    metadata: ObjectMeta = written(ObjectMeta)
    spec: PersistentVolumeSpec = written(PersistentVolumeSpec)


class PersistentVolumeClaimCondition(Struct, frozen=True):
    type: str = written(str)
    status: str = written(str)


class PersistentVolumeClaimStatus(Struct, frozen=True):
    phase: str = ""
    capacity: ResourceList = {}
    conditions: tuple[PersistentVolumeClaimCondition, ...] = ()
    allocated_resources: ResourceList = {}
    allocated_resource_statuses: Mapping[str, str] = {}


class PersistentVolumeClaim(Struct, frozen=True):
    metadata: ObjectMeta = written(ObjectMeta)
    spec: PersistentVolumeClaimSpec = written(PersistentVolumeClaimSpec)
    status: PersistentVolumeClaimStatus = written(PersistentVolumeClaimStatus)


class ClaimedVolume(Struct, frozen=True):
    """A claim and the volume that it is bound to."""

    claim: PersistentVolumeClaim = written(PersistentVolumeClaim)
    volume: PersistentVolume = written(PersistentVolume)


class TokenRequest(Struct, frozen=True):
    audience: str = ""
    expiration_seconds: int | None = None


class CSIDriverSpec(Struct, frozen=True):
    attach_required: bool | None = None
    pod_info_on_mount: bool | None = None
    volume_lifecycle_modes: tuple[str, ...] = ()
    fs_group_policy: str | None = None
    token_requests: tuple[TokenRequest, ...] = ()
    requires_republish: bool | None = None
    se_linux_mount: bool | None = None


class CSIDriver(Struct, frozen=True):
    metadata: ObjectMeta = written(ObjectMeta)
    spec: CSIDriverSpec = written(CSIDriverSpec)


class VolumeError(Struct, frozen=True):
    message: str = ""


class VolumeAttachmentStatus(Struct, frozen=True):
    attached: bool = False
    attachment_metadata: Mapping[str, str] = {}
    attach_error: VolumeError | None = None


class VolumeAttachment(Struct, frozen=True):
    metadata: ObjectMeta = written(ObjectMeta)
    status: VolumeAttachmentStatus = written(VolumeAttachmentStatus)
