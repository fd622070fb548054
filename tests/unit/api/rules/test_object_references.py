"""That no field of a pod can name another object unnoticed."""

from collections.abc import Iterator
from typing import Any, Final

import msgspec
import pytest

from pykubelet.api.pod import PodSpec
from pykubelet.api.rules.object_references import field_types, object_references
from pykubelet.api.volumes import Volume, VolumeProjection

SPEAKING: Final = ("account", "bundle", "certificate", "claim", "class", "config_map", "driver", "endpoints", "name",
                   "ref", "secret", "template")  # fmt: skip
"""What is part of the name of any field that names an object."""

PLAIN: Final = {
    ("AzureDiskVolumeSource", "disk_name"): "in the cloud",
    ("AzureFileVolumeSource", "share_name"): "in the cloud",
    ("CephFSVolumeSource", "secret_file"): "a file of the node",
    ("ClusterTrustBundleProjection", "*"): "the projection as a whole is one",
    ("ContainerResizePolicy", "resource_name"): "cpu or memory",
    ("EnvFromSource", "prefix"): "of names of variables",
    ("EnvVarSource", "field_ref"): "of the pod itself",
    ("EnvVarSource", "resource_field_ref"): "of the pod itself",
    ("EnvVarSource", "file_key_ref"): "a file of one of its volumes",
    ("DownwardAPIVolumeFile", "field_ref"): "of the pod itself",
    ("DownwardAPIVolumeFile", "resource_field_ref"): "of the pod itself",
    ("EphemeralContainer", "target_container_name"): "a container of the pod",
    ("EphemeralVolumeSource", "*"): "the volume as a whole is one",
    ("FileKeySelector", "volume_name"): "a volume of the pod",
    ("FlexVolumeSource", "driver"): "a program of the node",
    ("FlockerVolumeSource", "dataset_name"): "in its storage",
    ("GCEPersistentDiskVolumeSource", "pd_name"): "in the cloud",
    ("HostAlias", "hostnames"): "names of hosts",
    ("ImageVolumeSource", "reference"): "an image of a registry",
    ("ISCSIVolumeSource", "initiator_name"): "in its storage",
    ("PodCertificateProjection", "*"): "the projection as a whole is one",
    ("PodDNSConfig", "nameservers"): "addresses",
    ("PodSpec", "hostname"): "its own name",
    ("PodSpec", "hostname_override"): "its own name",
    ("PodSpec", "image_pull_secrets"): "only with a name",
    ("PodSpec", "node_name"): "compared with the node that asks",
    ("PodSpec", "priority_class_name"): "the API server resolves it, and its node gets to see nothing of it",
    ("PodSpec", "runtime_class_name"): "every node may read them all",
    ("PodSpec", "scheduler_name"): "no object",
    ("PodResourceClaim", "*"): "the claim as a whole is one",
    ("ResourceFieldSelector", "container_name"): "a container of the pod",
    ("ResourceRequirements", "claims"): "by their names in this pod",
    ("ScaleIOVolumeSource", "volume_name"): "in its storage",
    ("StorageOSVolumeSource", "volume_name"): "in its storage",
    ("StorageOSVolumeSource", "volume_namespace"): "in its storage",
    ("VsphereVirtualDiskVolumeSource", "storage_policy_name"): "in its storage",
    ("WindowsSecurityContextOptions", "gmsa_credential_spec_name"): "resolved by an admission webhook, not the node",
    ("WindowsSecurityContextOptions", "run_as_user_name"): "a user of the machine",
    ("NodeAffinity", "*"): "for the scheduler",
    ("PodAffinity", "*"): "for the scheduler",
    ("PodAntiAffinity", "*"): "for the scheduler",
}  # fmt: skip
"""Fields that sound like references and are none, each with the reason."""

Step = tuple[type, msgspec.inspect.Field]


def paths(owner: type, above: tuple[Step, ...] = ()) -> Iterator[tuple[Step, ...]]:
    """The way to every field of every type that a pod's spec is made of."""
    info = msgspec.inspect.type_info(owner)
    assert isinstance(info, msgspec.inspect.StructType)
    for field in info.fields:
        steps = (*above, (owner, field))
        yield steps
        for inner in field_types(field.type):
            yield from paths(inner, steps)


def sounds_like_one(step: Step) -> bool:
    _, field = step
    inner = " ".join(each.__name__ for each in field_types(field.type))
    names_things = any(word in field.name for word in SPEAKING) and not is_number(field.type)
    return names_things or any(word in inner for word in ("Reference", "Secret", "ConfigMap", "Claim"))


def is_number(info: msgspec.inspect.Type) -> bool:
    if isinstance(info, msgspec.inspect.UnionType):
        return all(map(is_number, info.types))
    return isinstance(info, msgspec.inspect.BoolType | msgspec.inspect.IntType | msgspec.inspect.NoneType)


def is_plain(steps: tuple[Step, ...]) -> bool:
    owner, field = steps[-1]
    own_name = field.name == "name" and owner.__name__ not in NAMED_BY_NAME
    inside = any((above.__name__, "*") in PLAIN for above, _ in steps)
    return own_name or inside or (owner.__name__, field.name) in PLAIN


NAMED_BY_NAME: Final = (
    "ConfigMapEnvSource", "ConfigMapKeySelector", "ConfigMapProjection", "ConfigMapVolumeSource",
    "LocalObjectReference", "SecretEnvSource", "SecretKeySelector", "SecretProjection",
)  # fmt: skip
"""Types whose `name` is not their own."""


def written(steps: tuple[Step, ...]) -> dict[str, Any]:
    """A spec with something in the last of these fields, and no more than it takes."""
    value: Any = "x"
    if field_types(steps[-1][1].type):
        value = {}
    for _, field in reversed(steps):
        kind = field.type
        is_list = isinstance(kind, msgspec.inspect.VarTupleType)
        value = {field.encode_name: [value] if is_list else value}
    assert isinstance(value, dict)
    return value


SOUNDING: Final = [steps for steps in paths(PodSpec) if sounds_like_one(steps[-1]) and not is_plain(steps)]


@pytest.mark.parametrize("steps", SOUNDING, ids=lambda steps: ".".join(field.encode_name for _, field in steps))
def test_every_field_that_sounds_like_a_reference_is_one_or_is_known_to_be_none(steps: tuple[Step, ...]) -> None:
    assert list(object_references(written(steps))), "say in PLAIN why it is none, or teach object_references its type"


def test_no_reason_is_left_of_a_field_that_is_gone() -> None:
    there = {(owner.__name__, field.name) for steps in paths(PodSpec) for owner, field in steps}
    owners = {owner for owner, _ in there}
    stale = [key for key in PLAIN if key not in there and not (key[1] == "*" and key[0] in owners)]
    assert stale == []


def test_the_walk_has_seen_the_types() -> None:
    shown = {".".join(field.encode_name for _, field in steps) for steps in SOUNDING}
    assert {"volumes.cephfs.secretRef", "imagePullSecrets.name", "containers.env.valueFrom.secretKeyRef.name"} <= shown
    assert len(shown) >= 60


@pytest.mark.parametrize("owner", [Volume, VolumeProjection])
def test_a_kind_of_volume_that_nobody_has_sorted_counts_as_a_reference(owner: type) -> None:
    novel = {"novelVolume": {"secretRef": {"name": "x"}}}
    volume = {"name": "v", **novel} if owner is Volume else {"name": "v", "projected": {"sources": [novel]}}
    assert [each.kind.plural for each in object_references({"volumes": [volume]})] == ["unknown objects"]


def test_names_and_places_are_told() -> None:
    env = [{"name": "A", "value": "x"}, {"name": "B", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]
    volumes = [{"name": "v", "rbd": {"image": "i", "secretRef": {"name": "t"}}}]
    found = object_references({"containers": [{"name": "c", "env": env}], "volumes": volumes})
    assert sorted((each.path, each.kind.plural, each.name) for each in found) == [
        ("spec.containers[0].env[1].valueFrom.secretKeyRef", "secrets", "s"),
        ("spec.volumes[0].rbd.secretRef", "secrets", "t"),
    ]
