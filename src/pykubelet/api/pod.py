"""The Pod: what its author asks for (PodSpec) and what the node reports back (PodStatus)."""

from collections.abc import Mapping

from pykubelet.api.container import Container, EphemeralContainer, ResourceRequirements
from pykubelet.api.meta import LocalObjectReference, Object
from pykubelet.api.quantity import ResourceList
from pykubelet.api.scheduling import Affinity, Toleration, TopologySpreadConstraint
from pykubelet.api.security import PodSecurityContext
from pykubelet.api.struct import Int32, Int64, Struct, Time, written
from pykubelet.api.volumes import Volume


class HostAlias(Struct, frozen=True):
    ip: str = written(str)
    hostnames: tuple[str, ...] = ()


class PodDNSConfigOption(Struct, frozen=True):
    name: str = ""
    value: str | None = None


class PodDNSConfig(Struct, frozen=True):
    nameservers: tuple[str, ...] = ()
    searches: tuple[str, ...] = ()
    options: tuple[PodDNSConfigOption, ...] = ()


class PodReadinessGate(Struct, frozen=True):
    condition_type: str = written(str)


class PodOS(Struct, frozen=True):
    name: str = written(str)


class PodSchedulingGate(Struct, frozen=True):
    name: str = written(str)


class PodResourceClaim(Struct, frozen=True):
    name: str = written(str)
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class PodSpec(Struct, frozen=True):
    volumes: tuple[Volume, ...] = ()
    init_containers: tuple[Container, ...] = ()
    containers: tuple[Container, ...] = written(tuple)
    ephemeral_containers: tuple[EphemeralContainer, ...] = ()
    restart_policy: str = ""
    termination_grace_period_seconds: Int64 | None = None
    active_deadline_seconds: Int64 | None = None
    dns_policy: str = ""
    node_selector: Mapping[str, str] = {}
    service_account_name: str = ""
    service_account: str = ""
    automount_service_account_token: bool | None = None
    node_name: str = ""
    host_network: bool | None = None
    host_pid: bool | None = None
    host_ipc: bool | None = None
    share_process_namespace: bool | None = None
    security_context: PodSecurityContext | None = None
    image_pull_secrets: tuple[LocalObjectReference, ...] = ()
    hostname: str = ""
    subdomain: str = ""
    affinity: Affinity | None = None
    scheduler_name: str = ""
    tolerations: tuple[Toleration, ...] = ()
    host_aliases: tuple[HostAlias, ...] = ()
    priority_class_name: str = ""
    priority: Int32 | None = None
    dns_config: PodDNSConfig | None = None
    readiness_gates: tuple[PodReadinessGate, ...] = ()
    runtime_class_name: str | None = None
    enable_service_links: bool | None = None
    preemption_policy: str | None = None
    overhead: ResourceList = {}
    topology_spread_constraints: tuple[TopologySpreadConstraint, ...] = ()
    set_hostname_as_fqdn: bool | None = None
    os: PodOS | None = None
    host_users: bool | None = None
    scheduling_gates: tuple[PodSchedulingGate, ...] = ()
    resource_claims: tuple[PodResourceClaim, ...] = ()
    resources: ResourceRequirements | None = None
    hostname_override: str | None = None


class PodCondition(Struct, frozen=True):
    type: str = written(str)
    observed_generation: Int64 | None = None
    status: str = written(str)
    last_probe_time: Time | None = None
    last_transition_time: Time | None = None
    reason: str = ""
    message: str = ""


class HostIP(Struct, frozen=True):
    ip: str = written(str)


class PodIP(Struct, frozen=True):
    ip: str = written(str)


class ContainerStateWaiting(Struct, frozen=True):
    reason: str = ""
    message: str = ""


class ContainerStateRunning(Struct, frozen=True):
    started_at: Time | None = None


class ContainerStateTerminated(Struct, frozen=True):
    exit_code: Int32 = written(int)
    signal: Int32 | None = None
    reason: str = ""
    message: str = ""
    started_at: Time | None = None
    finished_at: Time | None = None
    container_id: str = ""


class ContainerState(Struct, frozen=True):
    waiting: ContainerStateWaiting | None = None
    running: ContainerStateRunning | None = None
    terminated: ContainerStateTerminated | None = None


class VolumeMountStatus(Struct, frozen=True):
    name: str = written(str)
    mount_path: str = written(str)
    read_only: bool | None = None
    recursive_read_only: str | None = None


class LinuxContainerUser(Struct, frozen=True):
    uid: Int64 = written(int)
    gid: Int64 = written(int)
    supplemental_groups: tuple[Int64, ...] = ()


class ContainerUser(Struct, frozen=True):
    linux: LinuxContainerUser | None = None


class ResourceHealth(Struct, frozen=True):
    resource_id: str = written(str)
    health: str = ""


class ResourceStatus(Struct, frozen=True):
    name: str = written(str)
    resources: tuple[ResourceHealth, ...] = ()


class ContainerStatus(Struct, frozen=True):
    name: str = written(str)
    state: ContainerState = written(ContainerState)
    last_state: ContainerState = written(ContainerState)
    ready: bool = written(bool)
    restart_count: Int32 = written(int)
    image: str = written(str)
    image_id: str = written(str)
    container_id: str = ""
    started: bool | None = None
    allocated_resources: ResourceList = {}
    resources: ResourceRequirements | None = None
    volume_mounts: tuple[VolumeMountStatus, ...] = ()
    user: ContainerUser | None = None
    allocated_resources_status: tuple[ResourceStatus, ...] = ()
    stop_signal: str | None = None


class PodResourceClaimStatus(Struct, frozen=True):
    name: str = written(str)
    resource_claim_name: str | None = None


class ContainerExtendedResourceRequest(Struct, frozen=True):
    container_name: str = written(str)
    resource_name: str = written(str)
    request_name: str = written(str)


class PodExtendedResourceClaimStatus(Struct, frozen=True):
    request_mappings: tuple[ContainerExtendedResourceRequest, ...] = written(tuple)
    resource_claim_name: str = written(str)


class PodStatus(Struct, frozen=True):
    observed_generation: Int64 | None = None
    phase: str = ""
    conditions: tuple[PodCondition, ...] = ()
    message: str = ""
    reason: str = ""
    nominated_node_name: str = ""
    host_ip: str = ""
    host_ips: tuple[HostIP, ...] = ()
    pod_ip: str = ""
    pod_ips: tuple[PodIP, ...] = ()
    start_time: Time | None = None
    init_container_statuses: tuple[ContainerStatus, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()
    qos_class: str = ""
    ephemeral_container_statuses: tuple[ContainerStatus, ...] = ()
    resize: str = ""
    resource_claim_statuses: tuple[PodResourceClaimStatus, ...] = ()
    extended_resource_claim_status: PodExtendedResourceClaimStatus | None = None


class Pod(Object, frozen=True):
    spec: PodSpec = written(PodSpec)
    status: PodStatus = written(PodStatus)
