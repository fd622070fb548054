"""How the lists and maps of the API types merge, where it is not the usual way.

Usually a list is taken as a whole and an object or map is merged field by field. The tables name what differs; both a
strategic merge patch and a server-side apply read them.
"""

from typing import Final, NamedTuple


class ListFact(NamedTuple):
    keys: tuple[str, ...] = ()  # of the items, for server-side apply; with neither keys nor is_set it is atomic
    is_set: bool = False
    merge_key: str = ""  # for a strategic merge patch
    is_merged: bool = False
    retains_keys: bool = False


def _by(*keys: str, retains_keys: bool = False) -> ListFact:
    """Both kinds of patches merge it; a strategic merge patch by the first key."""
    return ListFact(keys, merge_key=keys[0], is_merged=True, retains_keys=retains_keys)


LISTS: Final[dict[str, ListFact]] = {
    "CertificateSigningRequestStatus.conditions": ListFact(("type",)),
    "ComponentStatus.conditions": _by("type"),
    "Container.env": _by("name"),
    "Container.ports": _by("containerPort", "protocol"),
    "Container.volumeDevices": _by("devicePath"),
    "Container.volumeMounts": _by("mountPath"),
    "ContainerRestartRuleOnExitCodes.values": ListFact(is_set=True),
    "ContainerStatus.allocatedResourcesStatus": _by("name"),
    "ContainerStatus.volumeMounts": _by("mountPath"),
    "NamespaceStatus.conditions": _by("type"),
    "NodeSpec.podCIDRs": ListFact(is_set=True, is_merged=True),
    "NodeStatus.addresses": _by("type"),
    "NodeStatus.conditions": _by("type"),
    "ObjectMeta.finalizers": ListFact(is_set=True, is_merged=True),
    "ObjectMeta.ownerReferences": _by("uid"),
    "PersistentVolumeClaimStatus.conditions": _by("type"),
    "PodSpec.containers": _by("name"),
    "PodSpec.ephemeralContainers": _by("name"),
    "PodSpec.hostAliases": _by("ip"),
    "PodSpec.imagePullSecrets": _by("name"),
    "PodSpec.initContainers": _by("name"),
    "PodSpec.resourceClaims": _by("name", retains_keys=True),
    "PodSpec.schedulingGates": _by("name"),
    "PodSpec.topologySpreadConstraints": _by("topologyKey", "whenUnsatisfiable"),
    "PodSpec.volumes": _by("name", retains_keys=True),
    "PodStatus.conditions": _by("type"),
    "PodStatus.hostIPs": ListFact(merge_key="ip", is_merged=True),
    "PodStatus.podIPs": _by("ip"),
    "PodStatus.resourceClaimStatuses": _by("name", retains_keys=True),
    "ResourceRequirements.claims": ListFact(("name",)),
    "ResourceStatus.resources": ListFact(("resourceID",)),
    "ServiceAccount.secrets": _by("name"),
    "ServiceSpec.ports": _by("port", "protocol"),
    "ServiceStatus.conditions": _by("type"),
}

ATOMIC_MAPS: Final = {"PodSpec.nodeSelector", "Scheduling.nodeSelector", "ServiceSpec.selector"}

ATOMIC_TYPES: Final = {
    "ConfigMapKeySelector",
    "EndpointAddress",
    "EndpointPort",
    "FileKeySelector",
    "LabelSelector",
    "LocalObjectReference",
    "NodeSelector",
    "NodeSelectorTerm",
    "ObjectFieldSelector",
    "ObjectReference",
    "OwnerReference",
    "ResourceFieldSelector",
    "ScopeSelector",
    "SecretKeySelector",
    "SecretReference",
    "TopologySelectorTerm",
    "TypedLocalObjectReference",
}

GRANULAR_FIELDS: Final = {"PersistentVolumeSpec.claimRef"}  # of an atomic type, but merged field by field

# The value that a key of a list has when it is left out.
DEFAULTS: Final = {"ContainerPort.protocol": "TCP", "ServicePort.protocol": "TCP"}
