"""Volumes of clouds that were once part of Kubernetes: what each is to the driver that has taken them over."""

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from pykubelet.api.meta import ObjectMeta
from pykubelet.api.storage import (
    CSIPersistentVolumeSource,
    PersistentVolume,
    PersistentVolumeSpec,
    SecretReference,
)
from pykubelet.api.struct import changed
from pykubelet.api.volumes import Volume
from pykubelet.base.errors import Invalid

PLUGINS: Final[Mapping[str, str]] = {
    "gce_persistent_disk": "kubernetes.io/gce-pd",
    "aws_elastic_block_store": "kubernetes.io/aws-ebs",
    "cinder": "kubernetes.io/cinder",
    "azure_disk": "kubernetes.io/azure-disk",
    "azure_file": "kubernetes.io/azure-file",
    "vsphere_volume": "kubernetes.io/vsphere-volume",
    "portworx_volume": "kubernetes.io/portworx-volume",
}
"""What a node says that it leaves to drivers, by the field that asks for it."""
_ZONES: Final = ("failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone")
_EBS: Final = re.compile(r"vol-[^/]*")
_ACCOUNT: Final = re.compile(r"azure-storage-account-(.+)-secret")
_SHARED: Final = "ReadWriteMany"

Driven = CSIPersistentVolumeSource


def migrated(volume: PersistentVolume) -> PersistentVolume:
    """The same volume as one of its driver; one that needs none is as it was. Raises Invalid."""
    for field, translate in _TRANSLATIONS.items():
        if (source := getattr(volume.spec, field)) is not None:
            csi = translate(source, volume)
            return changed(volume, spec=changed(volume.spec, csi=csi, **{field: None}))
    return volume


def migrated_inline(volume: Volume, namespace: str) -> PersistentVolume | None:
    """What a pod names without a claim, as if it were claimed. None: no driver has taken it over. Raises Invalid."""
    for field, translate in _TRANSLATIONS.items():
        if (source := getattr(volume, field)) is None:
            continue
        is_read = field in ("gce_persistent_disk", "portworx_volume") and source.read_only
        mode = _SHARED if field == "azure_file" else "ReadOnlyMany" if is_read else "ReadWriteOnce"
        unnamed = PersistentVolume(metadata=ObjectMeta(name=volume.name, namespace=namespace))
        csi = translate(source, unnamed)
        name = f"{csi.driver}-{csi.volume_handle.rpartition('/')[2]}"
        return PersistentVolume(
            metadata=ObjectMeta(name=re.sub(r"[^A-Za-z0-9.-]", "-", name)),
            spec=PersistentVolumeSpec(access_modes=(mode,), volume_mode="Filesystem", csi=csi),
        )
    return None


def _gce(source: Any, volume: PersistentVolume) -> Driven:
    told = [volume.metadata.labels.get(label) for label in _ZONES]
    zones = (told[0] or told[1] or "UNSPECIFIED").split("__")
    regions = {zone.rpartition("-")[0] for zone in zones}
    if len(zones) > 1 and len(regions) > 1:
        raise Invalid(f"the zones {', '.join(zones)} of persistent disk {source.pd_name} are in several regions")
    place = f"regions/{regions.pop()}" if len(zones) > 1 else f"zones/{zones[0]}"
    return Driven(
        driver="pd.csi.storage.gke.io",
        volume_handle=f"projects/UNSPECIFIED/{place}/disks/{source.pd_name}",
        read_only=source.read_only,
        fs_type=source.fs_type,
        volume_attributes={"partition": str(source.partition) if source.partition else ""},
    )


def _ebs(source: Any, _: PersistentVolume) -> Driven:
    handle = source.volume_id
    if handle.startswith("aws://"):  # and a zone, which its labels say better
        handle = handle.removeprefix("aws://").partition("/")[2].strip("/")
        if not _EBS.fullmatch(handle):
            raise Invalid(f"{source.volume_id!r} is no volume of AWS, such as aws://us-east-1a/vol-1234")
    return Driven(
        driver="ebs.csi.aws.com",
        volume_handle=handle,
        read_only=source.read_only,
        fs_type=source.fs_type,
        volume_attributes={"partition": str(source.partition or 0)},
    )


def _cinder(source: Any, _: PersistentVolume) -> Driven:
    return Driven(
        driver="cinder.csi.openstack.org",
        volume_handle=source.volume_id,
        read_only=source.read_only,
        fs_type=source.fs_type,
    )


def _azure_disk(source: Any, _: PersistentVolume) -> Driven:
    if source.kind is not None and source.kind.lower() != "managed":
        raise Invalid(f"kind({source.kind}) is not supported in csi migration")
    attributes = {"kind": "Managed", "cachingmode": source.caching_mode, "fstype": source.fs_type}
    return Driven(
        driver="disk.csi.azure.com",
        volume_handle=source.disk_uri,
        read_only=source.read_only,
        fs_type=source.fs_type or "",
        volume_attributes={name: value for name, value in attributes.items() if value},
    )


def _azure_file(source: Any, volume: PersistentVolume) -> Driven:
    ref, metadata = volume.spec.claim_ref, volume.metadata
    namespace = getattr(source, "secret_namespace", None) or (ref.namespace if ref else metadata.namespace)
    if not namespace:
        raise Invalid("could not find a secret namespace in PersistentVolumeSource or ClaimRef")
    found = _ACCOUNT.search(source.secret_name)
    account = found[1] if found else source.secret_name
    group = metadata.annotations.get("kubernetes.io/azure-file-resource-group", "")
    return Driven(
        driver="file.csi.azure.com",
        volume_handle=f"{group}#{account}#{source.share_name}#{metadata.name}#{namespace}",
        read_only=source.read_only,
        volume_attributes={"sharename": source.share_name},
        node_stage_secret_ref=SecretReference(source.secret_name, namespace),
    )


def _vsphere(source: Any, _: PersistentVolume) -> Driven:
    policy = {"storagepolicyname": source.storage_policy_name} if source.storage_policy_name else {}
    return Driven(
        driver="csi.vsphere.vmware.com",
        volume_handle=source.volume_path,
        fs_type=source.fs_type,
        volume_attributes=policy,
    )


def _portworx(source: Any, volume: PersistentVolume) -> Driven:
    name, namespace = (
        volume.metadata.annotations.get(f"openstorage.io/auth-secret-{of}") for of in ("name", "namespace")
    )
    secret = SecretReference(name, namespace) if name is not None and namespace is not None else None
    return Driven(
        driver="pxd.portworx.com",
        volume_handle=source.volume_id,
        fs_type=source.fs_type,
        node_stage_secret_ref=secret,
        node_publish_secret_ref=secret,
        node_expand_secret_ref=secret,
    )


_TRANSLATIONS: Final[Mapping[str, Callable[[Any, PersistentVolume], Driven]]] = {
    "gce_persistent_disk": _gce,
    "aws_elastic_block_store": _ebs,
    "cinder": _cinder,
    "azure_disk": _azure_disk,
    "azure_file": _azure_file,
    "vsphere_volume": _vsphere,
    "portworx_volume": _portworx,
}
