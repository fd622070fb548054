"""Which fields of a pod name another object, found by a walk through the types: what comes to a type is found with it.

A reference is known by its type. Kinds of volumes are all sorted, into those that need other objects and those that do
not; one that is sorted nowhere counts as needing something: nothing is let through because nobody thought of it.
"""

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, Final

import msgspec

from pykubelet.api import volume_sources as sources
from pykubelet.api import volumes
from pykubelet.api.env import ConfigMapEnvSource, ConfigMapKeySelector, SecretEnvSource, SecretKeySelector
from pykubelet.api.meta import LocalObjectReference
from pykubelet.api.objects import ObjectReference
from pykubelet.api.pod import PodResourceClaim, PodSpec

UNKNOWN: Final = "unknown objects"


class Kind(msgspec.Struct, frozen=True):
    """Of the objects that a value needs."""

    plural: str
    name: str = ""
    """The field that says which one; none: the value itself does, if it is a text."""
    way: str = ""
    """By which kind of volume, where that is the only way."""
    needs_name: bool = False
    """Whether it is none without one."""


class Found(msgspec.Struct, frozen=True):
    path: str
    kind: Kind
    name: str


class _Place(msgspec.Struct, frozen=True):
    kind: Kind | None
    inside: Mapping[str, "_Place"]
    known: frozenset[str] | None = None
    """All fields that there are, where any other would be a reference."""


_CONFIG_MAP: Final = Kind("configmaps", "name")
_SECRET: Final = Kind("secrets", "name")
_UNKNOWN: Final = Kind(UNKNOWN)
REFERENCES: Final[Mapping[type, Kind]] = {
    ConfigMapEnvSource: _CONFIG_MAP,
    ConfigMapKeySelector: _CONFIG_MAP,
    SecretEnvSource: _SECRET,
    SecretKeySelector: _SECRET,
    PodResourceClaim: Kind("resourceclaims"),
    sources.AzureFileVolumeSource: Kind("secrets", "secretName", "via azureFile volumes"),
    sources.CSIVolumeSource: Kind("csidrivers", "", "via CSI volumes"),
    sources.EphemeralVolumeSource: Kind("persistentvolumeclaims", "", "via ephemeral volumes"),
    sources.GlusterfsVolumeSource: Kind("endpoints", "", "via glusterFS volumes"),
    sources.PersistentVolumeClaimVolumeSource: Kind("persistentvolumeclaims", "claimName"),
    volumes.ClusterTrustBundleProjection: Kind("clustertrustbundles"),
    volumes.ConfigMapProjection: _CONFIG_MAP,
    volumes.ConfigMapVolumeSource: _CONFIG_MAP,
    volumes.PodCertificateProjection: Kind("podcertificates"),
    volumes.SecretProjection: _SECRET,
    volumes.SecretVolumeSource: Kind("secrets", "secretName"),
    volumes.ServiceAccountTokenProjection: Kind("serviceaccounts", "", "via projected volumes"),
    ObjectReference: _UNKNOWN,
    sources.TypedLocalObjectReference: _UNKNOWN,
    sources.TypedObjectReference: _UNKNOWN,
}
"""Types of which a value means another object."""

_ALONE: Final = frozenset(
    (
        sources.AWSElasticBlockStoreVolumeSource,
        sources.AzureDiskVolumeSource,
        sources.CephFSVolumeSource,
        sources.CinderVolumeSource,
        sources.FCVolumeSource,
        sources.FlexVolumeSource,
        sources.FlockerVolumeSource,
        sources.GCEPersistentDiskVolumeSource,
        sources.GitRepoVolumeSource,
        sources.ISCSIVolumeSource,
        sources.NFSVolumeSource,
        sources.PhotonPersistentDiskVolumeSource,
        sources.PortworxVolumeSource,
        sources.QuobyteVolumeSource,
        sources.RBDVolumeSource,
        sources.ScaleIOVolumeSource,
        sources.StorageOSVolumeSource,
        sources.VsphereVirtualDiskVolumeSource,
        volumes.DownwardAPIProjection,
        volumes.DownwardAPIVolumeSource,
        volumes.EmptyDirVolumeSource,
        volumes.HostPathVolumeSource,
        volumes.ImageVolumeSource,
        volumes.ProjectedVolumeSource,
    )
)
"""Kinds of volumes that get on without other objects, but for the references that are inside of them."""

_SORTED: Final = (volumes.Volume, volumes.VolumeProjection)
_ACCOUNTS: Final = ("service_account", "service_account_name")


def object_references(spec: Mapping[str, Any]) -> Iterator[Found]:
    """All objects that the spec of a pod needs, each with the field that says so. `spec` is plain JSON."""
    yield from _within(spec, _tree(), "spec")


def _within(value: Any, place: _Place, path: str) -> Iterator[Found]:
    if isinstance(value, list | tuple):
        for index, each in enumerate(value):
            yield from _within(each, place, f"{path}[{index}]")
        return
    if place.kind is not None and value not in (None, ""):
        name = _name(value, place.kind)
        if name or not place.kind.needs_name:
            yield Found(path, place.kind, name)
    if not isinstance(value, Mapping):
        return
    for field in value:
        inside = place.inside.get(field)
        if inside is not None:
            yield from _within(value[field], inside, f"{path}.{field}")
        elif place.known is not None and field not in place.known:
            yield Found(f"{path}.{field}", _UNKNOWN, "")


def _name(value: Any, kind: Kind) -> str:
    name = value.get(kind.name) if isinstance(value, Mapping) else value
    return name if isinstance(name, str) else ""


@cache
def _tree() -> _Place:
    return _place(msgspec.inspect.type_info(PodSpec), None) or _Place(None, {})


def _place(info: msgspec.inspect.Type, kind: Kind | None) -> _Place | None:
    """Where references are below a type; None: nowhere."""
    match info:
        case msgspec.inspect.UnionType(types=types):
            found = [each for each in (_place(one, kind) for one in types) if each is not None]
            return found[0] if found else None
        case msgspec.inspect.VarTupleType(item_type=items) | msgspec.inspect.DictType(value_type=items):
            return _place(items, kind)
        case msgspec.inspect.StructType(cls=owner, fields=fields):
            inside = {}
            for field in fields:
                place = _place(field.type, _kind(owner, field))
                if place is not None:
                    inside[field.encode_name] = place
            known = frozenset(field.encode_name for field in fields) if owner in _SORTED else None
            kind = REFERENCES.get(owner, kind)
            return _Place(kind, inside, known) if kind or inside or known else None
        case msgspec.inspect.StrType():
            return _Place(kind, {}) if kind else None
    return None


def _kind(owner: type, field: msgspec.inspect.Field) -> Kind | None:
    """What a field means by its name, where its type alone does not say."""
    if owner is PodSpec and field.name in _ACCOUNTS:
        return Kind("serviceaccounts")
    kinds = field_types(field.type)
    if owner is PodSpec and field.name == "image_pull_secrets":
        return Kind("secrets", "name", needs_name=True)
    if LocalObjectReference in kinds:
        return _SECRET if "secret" in field.name else _UNKNOWN
    if owner in _SORTED and kinds and not all(each in REFERENCES or each in _ALONE for each in kinds):
        return _UNKNOWN
    return None


def field_types(info: msgspec.inspect.Type) -> list[type]:
    """The structs that a field may hold, itself or as items."""
    match info:
        case msgspec.inspect.UnionType(types=types):
            return [each for one in types for each in field_types(one)]
        case msgspec.inspect.VarTupleType(item_type=items) | msgspec.inspect.DictType(value_type=items):
            return field_types(items)
        case msgspec.inspect.StructType(cls=owner):
            return [owner]
    return []
