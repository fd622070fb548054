"""A pod's volumes: each has a name of its own and exactly one source, which has rules of its own."""

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from pykubelet.api.field_errors import duplicate, forbidden, invalid, required
from pykubelet.api.names import json_name
from pykubelet.api.pod import PodSpec
from pykubelet.api.validation import names, storage
from pykubelet.api.validation.claims import validate_claim_template
from pykubelet.api.validation.options import Errors, PodValidationOptions
from pykubelet.api.validation.projected import validate_downward_files, validate_items, validate_projections
from pykubelet.api.validation.rules import file_mode, filled, needed, needed_one_of, no_backsteps, one_of
from pykubelet.api.volume_sources import EphemeralVolumeSource
from pykubelet.api.volumes import (
    ConfigMapVolumeSource,
    DownwardAPIVolumeSource,
    EmptyDirVolumeSource,
    HostPathVolumeSource,
    ImageVolumeSource,
    ProjectedVolumeSource,
    SecretVolumeSource,
    Volume,
)

_HOST_PATH_TYPES: Final = (
    "",
    "BlockDevice",
    "CharDevice",
    "Directory",
    "DirectoryOrCreate",
    "File",
    "FileOrCreate",
    "Socket",
)


def validate_volumes(
    spec: PodSpec, path: str, pod_name: str, options: PodValidationOptions
) -> tuple[Mapping[str, Volume], Errors]:
    """The volumes that containers may use, and what is wrong with the others."""
    good: dict[str, Volume] = {}
    faults: list[Errors] = []
    made = {f"{pod_name}-{volume.name}" for volume in spec.volumes if pod_name and volume.ephemeral is not None}
    for index, volume in enumerate(spec.volumes):
        place = f"{path}[{index}]"
        found = [*_source(volume, place, pod_name, options), *_name(volume, f"{place}.name", good)]
        if not found:
            good[volume.name] = volume
        faults.append(iter(found))
        faults.append(_claim_is_not_made_here(volume, f"{place}.persistentVolumeClaim.claimName", made))
    return good, (fault for group in faults for fault in group)


def _name(volume: Volume, field: str, taken: Mapping[str, Volume]) -> Errors:
    yield from needed(field, volume.name, names.dns_label)
    if volume.name in taken:
        yield duplicate(field, volume.name)


def _claim_is_not_made_here(volume: Volume, field: str, made: set[str]) -> Errors:
    claim = volume.persistent_volume_claim
    if claim is not None and claim.claim_name in made:
        yield invalid(field, claim.claim_name, "must not name a claim that is made for an ephemeral volume of this pod")


def _source(volume: Volume, path: str, pod_name: str, options: PodValidationOptions) -> Errors:
    first = ""
    for kind in _KINDS:
        source = getattr(volume, kind.attribute)
        if source is None:
            continue
        if first:
            yield forbidden(f"{path}.{kind.refused_at or kind.field}", f"must not be set beside {first}: choose one")
        else:
            first = kind.field
            yield from kind.faults(source, f"{path}.{kind.checked_at or kind.field}")
            yield from _about_the_volume(volume, path, first, pod_name, options)
        if kind.attribute == "iscsi" and source.initiator_name is not None:
            yield from _iscsi_interface_name(volume.name, source.target_portal, f"{path}.name")
    if not first:
        yield required(path, "must have a source, such as emptyDir, configMap or secret")


def _about_the_volume(volume: Volume, path: str, kind: str, pod_name: str, options: PodValidationOptions) -> Errors:
    """Rules of a source that need more than the source."""
    if kind == "ephemeral" and pod_name and volume.name:
        for fault in names.dns_subdomain(f"{pod_name}-{volume.name}"):
            yield invalid(f"{path}.name", volume.name, f"makes a claim named {pod_name}-{volume.name}, which {fault}")
    if kind == "image" and volume.image is not None:
        yield from _image(volume.image, f"{path}.image", options)


def _iscsi_interface_name(volume_name: str, portal: str, field: str) -> Errors:
    if names.size(f"{volume_name}:{portal}") > 64:
        yield invalid(field, volume_name, "must be shorter: with the targetPortal it makes more than 64 characters")


def _empty_dir(source: EmptyDirVolumeSource, path: str) -> Errors:
    if source.size_limit is not None and source.size_limit.sign < 0:
        yield forbidden(f"{path}.sizeLimit", f"must be at least 0, got {source.size_limit}")


def _host_path(source: HostPathVolumeSource, path: str) -> Errors:
    if not source.path:
        yield required(f"{path}.path")
        return
    yield from no_backsteps(f"{path}.path", source.path)
    if source.type is not None:
        yield from one_of(f"{path}.type", source.type, _HOST_PATH_TYPES)


def _items(source: SecretVolumeSource | ConfigMapVolumeSource, path: str) -> Errors:
    yield from file_mode(f"{path}.defaultMode", source.default_mode)
    yield from validate_items(source.items, f"{path}.items")


def _downward_api(source: DownwardAPIVolumeSource, path: str) -> Errors:
    yield from file_mode(f"{path}.defaultMode", source.default_mode)
    yield from validate_downward_files(source.items, path)


def _projected(source: ProjectedVolumeSource, path: str) -> Errors:
    yield from file_mode(f"{path}.defaultMode", source.default_mode)
    yield from validate_projections(source.sources, path)


def _ephemeral(source: EphemeralVolumeSource, path: str) -> Errors:
    if source.volume_claim_template is None:
        yield required(f"{path}.volumeClaimTemplate")
    else:
        yield from validate_claim_template(source.volume_claim_template, f"{path}.volumeClaimTemplate")


def _image(source: ImageVolumeSource, path: str, options: PodValidationOptions) -> Errors:
    if options.resource_is_pod:
        yield from filled(f"{path}.reference", source.reference)
    yield from needed_one_of(f"{path}.pullPolicy", source.pull_policy, ("Always", "IfNotPresent", "Never"))


def _nothing(_source: object, _path: str) -> Errors:
    return iter(())


class _Kind(NamedTuple):
    """One kind of source. Two names differ where upstream reports a fault at another place than the field's own."""

    attribute: str
    needs: tuple[str, ...] = ()
    """Fields that must be filled."""
    check: Callable[[Any, str], Errors] = _nothing
    checked_at: str = ""
    refused_at: str = ""

    @property
    def field(self) -> str:
        return json_name(self.attribute)

    def faults(self, source: Any, path: str) -> Errors:
        for name in self.needs:
            yield from filled(f"{path}.{json_name(name)}", getattr(source, name))
        yield from self.check(source, path)


# In the order in which upstream looks: of two sources in one volume the first is checked and the second refused.
_KINDS: Final = (
    _Kind("empty_dir", check=_empty_dir),
    _Kind("host_path", check=_host_path),
    _Kind("git_repo", needs=("repository",), check=storage.git_repo),
    _Kind("gce_persistent_disk", needs=("pd_name",), check=storage.partition, checked_at="persistentDisk"),
    _Kind("aws_elastic_block_store", needs=("volume_id",), check=storage.partition),
    _Kind("secret", needs=("secret_name",), check=_items),
    _Kind("nfs", needs=("server", "path"), check=storage.nfs),
    _Kind("iscsi", needs=("target_portal",), check=storage.iscsi),
    _Kind("glusterfs", needs=("endpoints", "path")),
    _Kind("flocker", check=storage.flocker),
    _Kind("persistent_volume_claim", needs=("claim_name",)),
    _Kind("rbd", needs=("monitors", "image")),
    _Kind("cinder", needs=("volume_id",), check=storage.cinder),
    _Kind("cephfs", needs=("monitors",), refused_at="cephFS"),
    _Kind("quobyte", check=storage.quobyte),
    _Kind("downward_api", check=_downward_api, refused_at="downwarAPI"),
    _Kind("fc", check=storage.fc),
    _Kind("flex_volume", needs=("driver",), check=storage.flex_volume),
    _Kind("config_map", needs=("name",), check=_items),
    _Kind("azure_file", needs=("secret_name", "share_name")),
    _Kind("vsphere_volume", needs=("volume_path",)),
    _Kind("photon_persistent_disk", needs=("pd_id",)),
    _Kind("portworx_volume", needs=("volume_id",)),
    _Kind("azure_disk", needs=("disk_name", "disk_uri"), check=storage.azure_disk),
    _Kind("storageos", check=storage.storageos),
    _Kind("projected", check=_projected),
    _Kind("scale_io", needs=("gateway", "system", "volume_name")),
    _Kind("csi", needs=("driver",), check=storage.csi),
    _Kind("ephemeral", check=_ephemeral),
    _Kind("image"),
)
