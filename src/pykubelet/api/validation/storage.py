"""Volumes on storage outside the node: a function for each kind that needs more than some fields to be filled."""

from typing import Final

from pykubelet.api.field_errors import invalid, not_supported, required, too_long
from pykubelet.api.meta import LocalObjectReference
from pykubelet.api.validation import names
from pykubelet.api.validation.options import Errors
from pykubelet.api.validation.rules import filled, needed, one_of, relative_path, spelled
from pykubelet.api.volume_sources import (
    AWSElasticBlockStoreVolumeSource,
    AzureDiskVolumeSource,
    CinderVolumeSource,
    CSIVolumeSource,
    FCVolumeSource,
    FlexVolumeSource,
    FlockerVolumeSource,
    GCEPersistentDiskVolumeSource,
    GitRepoVolumeSource,
    ISCSIVolumeSource,
    NFSVolumeSource,
    QuobyteVolumeSource,
    StorageOSVolumeSource,
)

_RESERVED_DOMAINS: Final = (".kubernetes.io", ".k8s.io")
_HOST_PORTS: Final = "must be host:port, or several of them with commas between"


def git_repo(source: GitRepoVolumeSource, path: str) -> Errors:
    yield from relative_path(f"{path}.directory", source.directory)


def partition(source: GCEPersistentDiskVolumeSource | AWSElasticBlockStoreVolumeSource, path: str) -> Errors:
    if source.partition is not None:
        yield from spelled(f"{path}.partition", source.partition, names.between(source.partition, 0, 255))


def nfs(source: NFSVolumeSource, path: str) -> Errors:
    if not source.path.startswith("/"):
        yield invalid(f"{path}.path", source.path, "must be an absolute path, with a '/' at its start")


def iscsi(source: ISCSIVolumeSource, path: str) -> Errors:
    yield from needed(f"{path}.iqn", source.iqn, names.iscsi_name)
    yield from spelled(f"{path}.lun", source.lun, names.between(source.lun, 0, 255))
    if (source.chap_auth_discovery or source.chap_auth_session) and source.secret_ref is None:
        yield required(f"{path}.secretRef", "is required for CHAP authentication")
    if source.initiator_name is not None:
        yield from spelled(f"{path}.initiatorname", source.initiator_name, names.iscsi_name(source.initiator_name))


def flocker(source: FlockerVolumeSource, path: str) -> Errors:
    if not source.dataset_name and not source.dataset_uuid:
        yield required(path, "must have datasetName or datasetUUID")
    if source.dataset_name and source.dataset_uuid:
        yield invalid(path, None, "must have only one of datasetName and datasetUUID")
    if "/" in source.dataset_name:
        yield invalid(f"{path}.datasetName", source.dataset_name, "must not contain '/'")


def cinder(source: CinderVolumeSource, path: str) -> Errors:
    yield from _secret_ref(source.secret_ref, f"{path}.secretRef")


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
    for key in source.options:
        domain = key.partition("/")[0]
        if f".{domain.lower()}".endswith(_RESERVED_DOMAINS):
            yield invalid(f"{path}.options[{key}]", key, "must not use the reserved domains kubernetes.io and k8s.io")


def azure_disk(source: AzureDiskVolumeSource, path: str) -> Errors:
    if source.caching_mode is not None:
        yield from one_of(f"{path}.cachingMode", source.caching_mode, ("None", "ReadOnly", "ReadWrite"))
    if source.kind is None:
        return
    yield from one_of(f"{path}.kind", source.kind, ("Dedicated", "Managed", "Shared"))
    start = "/subscriptions/" if source.kind == "Managed" else "https://"
    if not source.disk_uri.startswith(start):
        yield not_supported(f"{path}.diskURI", source.disk_uri, (f"{start}...",))


def storageos(source: StorageOSVolumeSource, path: str) -> Errors:
    yield from needed(f"{path}.volumeName", source.volume_name, names.dns_label)
    if source.volume_namespace:
        yield from spelled(f"{path}.volumeNamespace", source.volume_namespace, names.dns_label(source.volume_namespace))
    yield from _secret_ref(source.secret_ref, f"{path}.secretRef")


def csi(source: CSIVolumeSource, path: str) -> Errors:
    if names.size(source.driver) > 63:
        yield too_long(f"{path}.driver", 63)
    yield from spelled(f"{path}.driver", source.driver, names.dns_subdomain(source.driver.lower()))
    secret = source.node_publish_secret_ref
    if secret is not None and secret.name:
        yield from spelled(f"{path}.name", secret.name, names.dns_subdomain(secret.name))
    else:
        yield from _secret_ref(secret, f"{path}.nodePublishSecretRef")


def _secret_ref(reference: LocalObjectReference | None, path: str) -> Errors:
    if reference is not None:
        yield from filled(f"{path}.name", reference.name)
