"""The node as this agent sees it, and what has to be told to an API server that shows it differently.

Other parties write into the same object: whatever is not ours to say (their conditions, labels, extended resources,
attached volumes) stays as it is.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any, Final

from msgspec import Struct

from pykubelet import __version__
from pykubelet.api import codec
from pykubelet.api.meta import ObjectMeta
from pykubelet.api.node import (
    ContainerImage,
    DaemonEndpoint,
    Node,
    NodeAddress,
    NodeCondition,
    NodeDaemonEndpoints,
    NodeFeatures,
    NodeRuntimeHandler,
    NodeRuntimeHandlerFeatures,
    NodeSpec,
    NodeStatus,
    NodeSwapStatus,
    NodeSystemInfo,
)
from pykubelet.api.quantity import Quantity, ResourceList
from pykubelet.api.rules.resources import CPU, EPHEMERAL_STORAGE, HUGEPAGES_PREFIX, MEMORY, PODS, total
from pykubelet.api.rules.well_known import (
    ARCH_LABEL,
    HOSTNAME_LABEL,
    OLD_ARCH_LABEL,
    OLD_OS_LABEL,
    OS_LABEL,
)
from pykubelet.api.scheduling import Taint
from pykubelet.api.struct import changed
from pykubelet.api.validation.resources import is_extended
from pykubelet.pod.eviction.thresholds import Pressure, Threshold
from pykubelet.pod.node.allocatable import allocatable, kept_free
from pykubelet.pod.ports.node import MachineFacts
from pykubelet.pod.ports.runtime import Image, RuntimeStatus, RuntimeVersion

KUBELET_VERSION: Final = f"v1.34.0+pykubelet.{__version__}"
"""Whose behaviour this agent follows, and whose agent it is. A `-` instead of the `+` would make it older than v1.34.0
to those who compare versions."""

REQUIRED_LABELS: Final = (OS_LABEL, ARCH_LABEL)
"""Pods are sorted by them: they are kept right for as long as the agent runs."""
ATTACH_ANNOTATION: Final = "volumes.kubernetes.io/controller-managed-attach-detach"

READY: Final = "Ready"
FULL_ISOLATION: Final = "pykubelet.dev/FullIsolation"
"""True when the runtime keeps containers apart and within their limits by every means that Kubernetes knows."""

_MOST_IMAGE_NAMES: Final = 5

_PRESSURES: Final[Mapping[Pressure, tuple[tuple[str, str], tuple[str, str]]]] = {
    "MemoryPressure": (
        ("HasSufficientMemory", "kubelet has sufficient memory available"),
        ("HasInsufficientMemory", "kubelet has insufficient memory available"),
    ),
    "DiskPressure": (
        ("HasNoDiskPressure", "kubelet has no disk pressure"),
        ("HasDiskPressure", "kubelet has disk pressure"),
    ),
    "PIDPressure": (
        ("HasSufficientPID", "kubelet has sufficient PID available"),
        ("HasInsufficientPID", "kubelet has insufficient PID available"),
    ),
}
"""When there is none and when there is: the reason without its prefix, and the message."""


class NodeSettings(Struct, frozen=True, kw_only=True):
    """What people decide about a node."""

    name: str
    kubelet_version: str = KUBELET_VERSION
    labels: Mapping[str, str] = {}
    taints: tuple[Taint, ...] = ()
    max_pods: int = 110
    pods_per_core: int = 0
    """How many for each core, where that is less than `max_pods`; 0: any number."""
    most_images: int = 50
    """Images that the status names; -1: all."""
    local_storage: bool = True
    """Whether what pods write to the node's disk is counted and limited."""
    attach_by_controller: bool = True
    """Whether volumes are attached by a controller of the cluster."""
    kube_reserved: ResourceList = {}
    """What the agent and the runtime need for themselves."""
    system_reserved: ResourceList = {}
    """What the rest of the system needs."""
    reserved_cpus: frozenset[int] = frozenset()
    """The processors that it has to itself."""
    thresholds: tuple[Threshold, ...] = ()
    """Where pods are evicted at once: so much is not for them, either."""
    port: int = 10250
    """Of the agent's HTTP API."""
    provider_id: str = ""
    register: bool = True
    """Whether the node object is made here, and kept alive by a lease."""
    update_period: float = 10.0
    """Seconds between two looks at the node."""
    report_period: float = 300.0
    """Seconds after which also a node is reported about which nothing has changed."""
    lease_seconds: int = 40

    @property
    def reserved(self) -> ResourceList:
        """What is not for pods."""
        return total((self.kube_reserved, self.system_reserved))


class RuntimeReport(Struct, frozen=True, kw_only=True):
    """What the runtime says of itself."""

    status: RuntimeStatus
    version: RuntimeVersion | None = None
    images: tuple[Image, ...] = ()


def node_object(
    facts: MachineFacts,
    settings: NodeSettings,
    runtime: RuntimeReport,
    now: datetime,
    *,
    pressures: Collection[Pressure] = (),
    troubles: Iterable[str] = (),
    devices: Mapping[str, tuple[int, int]] | None = None,
) -> Node:
    """The whole node, as for its first registration. Each of the `troubles`, a sentence, keeps it from being ready.
    `devices` are those of plug-ins, by resource: how many there are, and how many are well."""
    capacity = node_capacity(facts, settings)
    brought = {name: (Quantity.of(some), Quantity.of(well)) for name, (some, well) in (devices or {}).items()}
    labels = {
        HOSTNAME_LABEL: facts.hostname,
        OS_LABEL: facts.operating_system,
        ARCH_LABEL: facts.architecture,
        OLD_OS_LABEL: facts.operating_system,
        OLD_ARCH_LABEL: facts.architecture,
        **settings.labels,
    }
    return Node(
        kind="Node",
        api_version="v1",
        metadata=ObjectMeta(name=settings.name, labels=labels, annotations=_annotations(settings)),
        spec=NodeSpec(taints=settings.taints, provider_id=settings.provider_id),
        status=NodeStatus(
            capacity={**capacity, **{name: some for name, (some, _) in brought.items()}},
            allocatable={
                **allocatable(capacity, settings.reserved, kept_free(settings.thresholds, capacity)),
                **{name: well for name, (_, well) in brought.items()},
            },
            conditions=_conditions(runtime.status, now, pressures, (*troubles, *_missing(capacity, settings))),
            addresses=(
                *(NodeAddress(type="InternalIP", address=ip) for ip in facts.ips),
                NodeAddress(type="Hostname", address=facts.hostname),
            ),
            daemon_endpoints=NodeDaemonEndpoints(kubelet_endpoint=DaemonEndpoint(port=settings.port)),
            node_info=_node_info(facts, settings, runtime.version),
            images=_images(runtime.images, settings.most_images),
            runtime_handlers=_runtime_handlers(runtime.status),
            features=_features(runtime.status),
        ),
    )


def _annotations(settings: NodeSettings) -> dict[str, str]:
    return {ATTACH_ANNOTATION: "true"} if settings.attach_by_controller else {}


def _node_info(facts: MachineFacts, settings: NodeSettings, version: RuntimeVersion | None) -> NodeSystemInfo:
    return NodeSystemInfo(
        machine_id=facts.machine_id,
        system_uuid=facts.system_uuid,
        boot_id=facts.boot_id,
        kernel_version=facts.kernel_version,
        os_image=facts.os_image,
        container_runtime_version=f"{version.name}://{version.version}" if version else "unknown://Unknown",
        kubelet_version=settings.kubelet_version,
        operating_system=facts.operating_system,
        architecture=facts.architecture,
        swap=NodeSwapStatus(capacity=facts.swap) if facts.swap else None,
    )


def _runtime_handlers(status: RuntimeStatus) -> tuple[NodeRuntimeHandler, ...]:
    return tuple(
        NodeRuntimeHandler(
            name=each.name,
            features=NodeRuntimeHandlerFeatures(
                recursive_read_only_mounts=each.recursive_read_only_mounts, user_namespaces=each.user_namespaces
            ),
        )
        for each in status.handlers
    )


def _features(status: RuntimeStatus) -> NodeFeatures | None:
    policy = status.supplemental_groups_policy
    return None if policy is None else NodeFeatures(supplemental_groups_policy=policy)


def _images(images: Iterable[Image], most: int) -> tuple[ContainerImage, ...]:
    """The largest ones: it is those that a scheduler would not have pulled once more."""
    largest = sorted(images, key=lambda image: (-image.size, image.id))[: most if most >= 0 else None]
    return tuple(ContainerImage(names=image.names[:_MOST_IMAGE_NAMES], size_bytes=image.size) for image in largest)


# --- resources


def node_capacity(facts: MachineFacts, settings: NodeSettings) -> ResourceList:
    most = settings.max_pods
    if settings.pods_per_core > 0:
        most = min(most, settings.pods_per_core * facts.cpus)
    capacity = {
        CPU: Quantity.of(facts.cpus),
        MEMORY: Quantity.of(facts.memory, "BinarySI"),
        PODS: Quantity.of(most),
    }
    if facts.storage is not None and settings.local_storage:
        capacity[EPHEMERAL_STORAGE] = Quantity.of(facts.storage, "BinarySI")
    for page, amount in sorted(facts.hugepages.items()):
        capacity[f"{HUGEPAGES_PREFIX}{Quantity.of(page, 'BinarySI')}"] = Quantity.of(amount, "BinarySI")
    return capacity


# --- conditions


def _conditions(
    status: RuntimeStatus,
    now: datetime,
    pressures: Collection[Pressure],
    troubles: Iterable[str],
) -> tuple[NodeCondition, ...]:
    now = now.replace(microsecond=0)  # as an API server will show it
    said: list[tuple[str, bool, str, str]] = []
    for pressure, (without, under) in _PRESSURES.items():
        reason, message = under if pressure in pressures else without
        said.append((pressure, pressure in pressures, f"Kubelet{reason}", message))
    said += _isolation(status)
    reasons = [*_runtime_troubles(status), *troubles]
    if reasons:
        message = reasons[0] if len(reasons) == 1 else f"[{', '.join(reasons)}]"
        said.append((READY, False, "KubeletNotReady", message))
    else:
        said.append((READY, True, "KubeletReady", "kubelet is posting ready status"))
    return tuple(
        NodeCondition(
            type=type,
            status="True" if holds else "False",
            reason=reason,
            message=message,
            last_heartbeat_time=now,
            last_transition_time=now,
        )
        for type, holds, reason, message in said
    )


def _isolation(status: RuntimeStatus) -> Iterator[tuple[str, bool, str, str]]:
    if status.limitations:
        yield FULL_ISOLATION, False, "RuntimeHasLimitations", " ".join(status.limitations)
    elif status.ready:  # one that is not may have had no chance to look
        yield FULL_ISOLATION, True, "RuntimeHasNoLimitations", "the container runtime isolates containers in full"


def _runtime_troubles(status: RuntimeStatus) -> Iterator[str]:
    if not status.ready:
        yield f"container runtime not ready: {status.message or 'it gives no reason'}"
    if not status.network_ready and (status.ready or status.network_message):
        yield f"container runtime network not ready: {status.network_message or 'it gives no reason'}"


def _missing(capacity: ResourceList, settings: NodeSettings) -> Iterator[str]:
    needed = (CPU, MEMORY, PODS, EPHEMERAL_STORAGE) if settings.local_storage else (CPU, MEMORY, PODS)
    missing = [name for name in needed if name not in capacity]
    if missing:
        yield f"missing node capacity for resources: {', '.join(missing)}"


# --- from what an API server shows to what it should show


def reported(shown: NodeStatus, said: NodeStatus) -> NodeStatus:
    """What the node's status should be: all that we say, and of what is shown there whatever we say nothing about."""
    others = {
        name: amount
        for name, amount in shown.capacity.items()
        if name not in said.capacity and not name.startswith(HUGEPAGES_PREFIX)
    }
    left = {
        name: amount if is_extended(name) else shown.allocatable.get(name, amount) for name, amount in others.items()
    }
    return changed(
        shown,
        capacity={**others, **said.capacity},
        allocatable={**left, **said.allocatable},
        conditions=_merged_conditions(shown.conditions, said.conditions),
        addresses=said.addresses,
        daemon_endpoints=said.daemon_endpoints,
        node_info=said.node_info,
        images=said.images,
        runtime_handlers=said.runtime_handlers,
        features=said.features,
    )


def _merged_conditions(shown: tuple[NodeCondition, ...], said: tuple[NodeCondition, ...]) -> tuple[NodeCondition, ...]:
    """Each in its place. When a condition came to hold is kept for as long as its status does."""
    merged = {condition.type: condition for condition in shown}
    for condition in said:
        old = merged.get(condition.type)
        if old is not None and old.status == condition.status and old.last_transition_time is not None:
            condition = changed(condition, last_transition_time=old.last_transition_time)
        merged[condition.type] = condition
    return tuple(merged.values())


def without_heartbeats(status: NodeStatus) -> NodeStatus:
    return changed(status, conditions=tuple(changed(each, last_heartbeat_time=None) for each in status.conditions))


def status_patch(shown: NodeStatus, wanted: NodeStatus) -> dict[str, Any]:
    """The strategic merge patch for `nodes/status`."""
    old, new = codec.to_builtins(shown), codec.to_builtins(wanted)
    changes: dict[str, Any] = {}
    for field in sorted(old.keys() | new.keys()):
        before, after = old.get(field), new.get(field)
        if before == after:
            continue
        if field == "conditions":
            shown_ones = {condition["type"]: condition for condition in before or ()}
            changes[field] = [
                {**dict.fromkeys(shown_ones.get(each["type"], ())), **each}
                for each in after or ()
                if each != shown_ones.get(each["type"])
            ]
        elif field == "addresses":  # an API server would merge them by type, and lose one of two families
            changes[field] = [{"$patch": "replace"}, *(after or ())]
        elif isinstance(before, dict) and isinstance(after, dict):
            changes[field] = {
                name: after.get(name)
                for name in sorted(before.keys() | after.keys())
                if before.get(name) != after.get(name)
            }
        else:
            changes[field] = after
    return {"status": changes}


def metadata_patch(shown: ObjectMeta, said: ObjectMeta, labels: Iterable[str]) -> dict[str, Any] | None:
    """The patch that sets those of our `labels` and annotations that are not as they should be. None when all are."""
    wrong_labels = {
        name: said.labels[name]
        for name in labels
        if name in said.labels and shown.labels.get(name) != said.labels[name]
    }
    wrong_annotations = {
        name: value for name, value in said.annotations.items() if shown.annotations.get(name) != value
    }
    changes = {"labels": wrong_labels, "annotations": wrong_annotations}
    changes = {field: values for field, values in changes.items() if values}
    return {"metadata": changes} if changes else None


def transitions(shown: NodeStatus, now_shown: NodeStatus) -> list[str]:
    """The reasons of upstream's events for conditions that have changed, such as NodeReady."""
    before = {condition.type: condition.status for condition in shown.conditions}
    reasons = []
    for condition in now_shown.conditions:
        if condition.status == before.get(condition.type):
            continue
        if condition.type in _PRESSURES:
            reasons.append(condition.reason.replace("Kubelet", "Node", 1))
        elif condition.type == READY and READY in before:
            reasons.append("NodeReady" if condition.status == "True" else "NodeNotReady")
    return reasons
