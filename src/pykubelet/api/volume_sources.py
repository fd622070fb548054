"""Volume kinds that reach storage outside the node, one Struct for each."""

from collections.abc import Mapping

from pykubelet.api.meta import LabelSelector, LocalObjectReference, ObjectMeta
from pykubelet.api.quantity import ResourceList
from pykubelet.api.struct import Int32, Struct, written


class GCEPersistentDiskVolumeSource(Struct, frozen=True):
    pd_name: str = written(str)
    fs_type: str = ""
    partition: Int32 | None = None
    read_only: bool | None = None


class AWSElasticBlockStoreVolumeSource(Struct, frozen=True):
    volume_id: str = written(str)
    fs_type: str = ""
    partition: Int32 | None = None
    read_only: bool | None = None


class GitRepoVolumeSource(Struct, frozen=True):
    repository: str = written(str)
    revision: str = ""
    directory: str = ""


class NFSVolumeSource(Struct, frozen=True):
    server: str = written(str)
    path: str = written(str)
    read_only: bool | None = None


class ISCSIVolumeSource(Struct, frozen=True):
    target_portal: str = written(str)
    iqn: str = written(str)
    lun: Int32 = written(int)
    iscsi_interface: str = ""
    fs_type: str = ""
    read_only: bool | None = None
    portals: tuple[str, ...] = ()
    chap_auth_discovery: bool | None = None
    chap_auth_session: bool | None = None
    secret_ref: LocalObjectReference | None = None
    initiator_name: str | None = None


class GlusterfsVolumeSource(Struct, frozen=True):
    endpoints: str = written(str)
    path: str = written(str)
    read_only: bool | None = None


class PersistentVolumeClaimVolumeSource(Struct, frozen=True):
    claim_name: str = written(str)
    read_only: bool | None = None


class RBDVolumeSource(Struct, frozen=True):
    monitors: tuple[str, ...] = written(tuple)
    image: str = written(str)
    fs_type: str = ""
    pool: str = ""
    user: str = ""
    keyring: str = ""
    secret_ref: LocalObjectReference | None = None
    read_only: bool | None = None


class FlexVolumeSource(Struct, frozen=True):
    driver: str = written(str)
    fs_type: str = ""
    secret_ref: LocalObjectReference | None = None
    read_only: bool | None = None
    options: Mapping[str, str] = {}


class CinderVolumeSource(Struct, frozen=True):
    volume_id: str = written(str)
    fs_type: str = ""
    read_only: bool | None = None
    secret_ref: LocalObjectReference | None = None


class CephFSVolumeSource(Struct, frozen=True):
    monitors: tuple[str, ...] = written(tuple)
    path: str = ""
    user: str = ""
    secret_file: str = ""
    secret_ref: LocalObjectReference | None = None
    read_only: bool | None = None


class FlockerVolumeSource(Struct, frozen=True):
    dataset_name: str = ""
    dataset_uuid: str = ""


class FCVolumeSource(Struct, frozen=True):
    target_wwns: tuple[str, ...] = ()
    lun: Int32 | None = None
    fs_type: str = ""
    read_only: bool | None = None
    wwids: tuple[str, ...] = ()


class AzureFileVolumeSource(Struct, frozen=True):
    secret_name: str = written(str)
    share_name: str = written(str)
    read_only: bool | None = None


class VsphereVirtualDiskVolumeSource(Struct, frozen=True):
    volume_path: str = written(str)
    fs_type: str = ""
    storage_policy_name: str = ""
    storage_policy_id: str = ""


class QuobyteVolumeSource(Struct, frozen=True):
    registry: str = written(str)
    volume: str = written(str)
    read_only: bool | None = None
    user: str = ""
    group: str = ""
    tenant: str = ""


class AzureDiskVolumeSource(Struct, frozen=True):
    disk_name: str = written(str)
    disk_uri: str = written(str)
    caching_mode: str | None = None
    fs_type: str | None = None
    read_only: bool | None = None
    kind: str | None = None


class PhotonPersistentDiskVolumeSource(Struct, frozen=True):
    pd_id: str = written(str)
    fs_type: str = ""


class PortworxVolumeSource(Struct, frozen=True):
    volume_id: str = written(str)
    fs_type: str = ""
    read_only: bool | None = None


class ScaleIOVolumeSource(Struct, frozen=True):
    gateway: str = written(str)
    system: str = written(str)
    secret_ref: LocalObjectReference | None = None
    ssl_enabled: bool | None = None
    protection_domain: str = ""
    storage_pool: str = ""
    storage_mode: str = ""
    volume_name: str = ""
    fs_type: str = ""
    read_only: bool | None = None


class StorageOSVolumeSource(Struct, frozen=True):
    volume_name: str = ""
    volume_namespace: str = ""
    fs_type: str = ""
    read_only: bool | None = None
    secret_ref: LocalObjectReference | None = None


class CSIVolumeSource(Struct, frozen=True):
    driver: str = written(str)
    read_only: bool | None = None
    fs_type: str | None = None
    volume_attributes: Mapping[str, str] = {}
    node_publish_secret_ref: LocalObjectReference | None = None


class VolumeResourceRequirements(Struct, frozen=True):
    limits: ResourceList = {}
    requests: ResourceList = {}


class TypedLocalObjectReference(Struct, frozen=True):
    api_group: str | None = None
    kind: str = written(str)
    name: str = written(str)


class TypedObjectReference(TypedLocalObjectReference, frozen=True):
    namespace: str | None = None


class PersistentVolumeClaimSpec(Struct, frozen=True):
    access_modes: tuple[str, ...] = ()
    selector: LabelSelector | None = None
    resources: VolumeResourceRequirements = written(VolumeResourceRequirements)
    volume_name: str = ""
    storage_class_name: str | None = None
    volume_mode: str | None = None
    data_source: TypedLocalObjectReference | None = None
    data_source_ref: TypedObjectReference | None = None
    volume_attributes_class_name: str | None = None


class PersistentVolumeClaimTemplate(Struct, frozen=True):
    metadata: ObjectMeta = written(ObjectMeta)
    spec: PersistentVolumeClaimSpec = written(PersistentVolumeClaimSpec)


class EphemeralVolumeSource(Struct, frozen=True):
    volume_claim_template: PersistentVolumeClaimTemplate | None = None
