"""Volumes on storage outside the node, one function for each kind."""

from typing import Final

from pykubelet.api.field_errors import invalid, not_supported, required, too_long
from pykubelet.api.meta import LocalObjectReference
from pykubelet.api.validation import names
from pykubelet.api.validation.options import Errors
from pykubelet.api.validation.rules import filled, needed_name, one_of, relative_path, spelled
from pykubelet.api.volume_sources import (
    AWSElasticBlockStoreVolumeSource,
    AzureDiskVolumeSource,
    AzureFileVolumeSource,
    CephFSVolumeSource,
    CinderVolumeSource,
    CSIVolumeSource,
    FCVolumeSource,
    FlexVolumeSource,
    FlockerVolumeSource,
    GCEPersistentDiskVolumeSource,
    GitRepoVolumeSource,
    GlusterfsVolumeSource,
    ISCSIVolumeSource,
    NFSVolumeSource,
    PersistentVolumeClaimVolumeSource,
    PhotonPersistentDiskVolumeSource,
    PortworxVolumeSource,
    QuobyteVolumeSource,
    RBDVolumeSource,
    ScaleIOVolumeSource,
    StorageOSVolumeSource,
    VsphereVirtualDiskVolumeSource,
)

_RESERVED_DOMAINS: Final = (".kubernetes.io", ".k8s.io")
_HOST_PORTS: Final = "must be host:port, or several of them with commas between"


def git_repo(source: GitRepoVolumeSource, path: str) -> Errors:
    yield from filled(f"{path}.repository", source.repository)
    yield from relative_path(f"{path}.directory", source.directory)


def gce_persistent_disk(source: GCEPersistentDiskVolumeSource, path: str) -> Errors:
    yield from filled(f"{path}.pdName", source.pd_name)
    yield from _partition(f"{path}.partition", source.partition)


def aws_elastic_block_store(source: AWSElasticBlockStoreVolumeSource, path: str) -> Errors:
    yield from filled(f"{path}.volumeID", source.volume_id)
    yield from _partition(f"{path}.partition", source.partition)


def nfs(source: NFSVolumeSource, path: str) -> Errors:
    yield from filled(f"{path}.server", source.server)
    yield from filled(f"{path}.path", source.path)
    if not source.path.startswith("/"):
        yield invalid(f"{path}.path", source.path, "must be an absolute path, with a '/' at its start")


def iscsi(source: ISCSIVolumeSource, path: str) -> Errors:
    yield from filled(f"{path}.targetPortal", source.target_portal)
    if source.iqn:
        yield from spelled(f"{path}.iqn", source.iqn, names.iscsi_name(source.iqn))
    else:
        yield required(f"{path}.iqn")
    yield from spelled(f"{path}.lun", source.lun, names.between(source.lun, 0, 255))
    if (source.chap_auth_discovery or source.chap_auth_session) and source.secret_ref is None:
        yield required(f"{path}.secretRef", "is required for CHAP authentication")
    if source.initiator_name is not None:
        yield from spelled(f"{path}.initiatorname", source.initiator_name, names.iscsi_name(source.initiator_name))


def glusterfs(source: GlusterfsVolumeSource, path: str) -> Errors:
    yield from filled(f"{path}.endpoints", source.endpoints)
    yield from filled(f"{path}.path", source.path)


def flocker(source: FlockerVolumeSource, path: str) -> Errors:
    if not source.dataset_name and not source.dataset_uuid:
        yield required(path, "must have datasetName or datasetUUID")
    if source.dataset_name and source.dataset_uuid:
        yield invalid(path, None, "must have only one of datasetName and datasetUUID")
    if "/" in source.dataset_name:
        yield invalid(f"{path}.datasetName", source.dataset_name, "must not contain '/'")


def persistent_volume_claim(source: PersistentVolumeClaimVolumeSource, path: str) -> Errors:
    yield from filled(f"{path}.claimName", source.claim_name)


def rbd(source: RBDVolumeSource, path: str) -> Errors:
    yield from filled(f"{path}.monitors", source.monitors)
    yield from filled(f"{path}.image", source.image)


def cinder(source: CinderVolumeSource, path: str) -> Errors:
    yield from filled(f"{path}.volumeID", source.volume_id)
    yield from _secret_ref(source.secret_ref, f"{path}.secretRef")


def cephfs(source: CephFSVolumeSource, path: str) -> Errors:
    yield from filled(f"{path}.monitors", source.monitors)


def quobyte(source: QuobyteVolumeSource, path: str) -> Errors:
    if not source.registry:
        yield required(f"{path}.registry", _HOST_PORTS)
    elif names.size(source.tenant) > 64:
        yield required(f"{path}.tenant", "must be a UUID of at most 64 characters")
    else:
        for pair in source.registry.split(","):
            if not names.host_port(pair):
                yield invalid(f"{path}.registry", source.registry, _HOST_PORTS)
    yield from filled(f"{path}.volume", source.volume)


def fc(source: FCVolumeSource, path: str) -> Errors:
    if not source.target_wwns and not source.wwids:
        yield required(f"{path}.targetWWNs", "must have targetWWNs or wwids")
    if source.target_wwns and source.wwids:
        yield invalid(f"{path}.targetWWNs", None, "must not be set beside wwids: choose one")
    if source.target_wwns:
        if source.lun is None:
            yield required(f"{path}.lun", "is required beside targetWWNs")
        else:
            yield from spelled(f"{path}.lun", source.lun, names.between(source.lun, 0, 255))


def flex_volume(source: FlexVolumeSource, path: str) -> Errors:
    yield from filled(f"{path}.driver", source.driver)
    for key in source.options:
        domain = key.partition("/")[0]
        if f".{domain.lower()}".endswith(_RESERVED_DOMAINS):
            yield invalid(f"{path}.options[{key}]", key, "must not use the reserved domains kubernetes.io and k8s.io")


def azure_file(source: AzureFileVolumeSource, path: str) -> Errors:
    yield from filled(f"{path}.secretName", source.secret_name)
    yield from filled(f"{path}.shareName", source.share_name)


def azure_disk(source: AzureDiskVolumeSource, path: str) -> Errors:
    yield from filled(f"{path}.diskName", source.disk_name)
    yield from filled(f"{path}.diskURI", source.disk_uri)
    if source.caching_mode is not None:
        yield from one_of(f"{path}.cachingMode", source.caching_mode, ("None", "ReadOnly", "ReadWrite"))
    if source.kind is None:
        return
    yield from one_of(f"{path}.kind", source.kind, ("Dedicated", "Managed", "Shared"))
    start = "/subscriptions/" if source.kind == "Managed" else "https://"
    if not source.disk_uri.startswith(start):
        yield not_supported(f"{path}.diskURI", source.disk_uri, (f"{start}...",))


def vsphere_volume(source: VsphereVirtualDiskVolumeSource, path: str) -> Errors:
    yield from filled(f"{path}.volumePath", source.volume_path)


def photon_persistent_disk(source: PhotonPersistentDiskVolumeSource, path: str) -> Errors:
    yield from filled(f"{path}.pdID", source.pd_id)


def portworx_volume(source: PortworxVolumeSource, path: str) -> Errors:
    yield from filled(f"{path}.volumeID", source.volume_id)


def scale_io(source: ScaleIOVolumeSource, path: str) -> Errors:
    yield from filled(f"{path}.gateway", source.gateway)
    yield from filled(f"{path}.system", source.system)
    yield from filled(f"{path}.volumeName", source.volume_name)


def storageos(source: StorageOSVolumeSource, path: str) -> Errors:
    yield from needed_name(f"{path}.volumeName", source.volume_name)
    if source.volume_namespace:
        yield from spelled(f"{path}.volumeNamespace", source.volume_namespace, names.dns_label(source.volume_namespace))
    yield from _secret_ref(source.secret_ref, f"{path}.secretRef")


def csi(source: CSIVolumeSource, path: str) -> Errors:
    yield from filled(f"{path}.driver", source.driver)
    if names.size(source.driver) > 63:
        yield too_long(f"{path}.driver", 63)
    yield from spelled(f"{path}.driver", source.driver, names.dns_subdomain(source.driver.lower()))
    secret = source.node_publish_secret_ref
    if secret is not None and secret.name:
        yield from spelled(f"{path}.name", secret.name, names.dns_subdomain(secret.name))
    else:
        yield from _secret_ref(secret, f"{path}.nodePublishSecretRef")


def _partition(field: str, partition: int | None) -> Errors:
    if partition is not None:
        yield from spelled(field, partition, names.between(partition, 0, 255))


def _secret_ref(reference: LocalObjectReference | None, path: str) -> Errors:
    if reference is not None:
        yield from filled(f"{path}.name", reference.name)
