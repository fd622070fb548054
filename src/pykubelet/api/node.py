"""The Node, as the agent registers and reports it."""

import msgspec

from pykubelet.api.meta import Object
from pykubelet.api.quantity import ResourceList
from pykubelet.api.scheduling import Taint
from pykubelet.api.struct import Int32, Int64, Struct, Time, written


class ConfigMapNodeConfigSource(Struct, frozen=True):
    namespace: str = written(str)
    name: str = written(str)
    uid: str = ""
    resource_version: str = ""
    kubelet_config_key: str = written(str)


class NodeConfigSource(Struct, frozen=True):
    config_map: ConfigMapNodeConfigSource | None = None


class NodeSpec(Struct, frozen=True):
    pod_cidr: str = ""
    pod_cidrs: tuple[str, ...] = ()
    provider_id: str = ""
    unschedulable: bool | None = None
    taints: tuple[Taint, ...] = ()
    config_source: NodeConfigSource | None = None
    external_id: str = ""


class NodeCondition(Struct, frozen=True):
    type: str = written(str)
    status: str = written(str)
    last_heartbeat_time: Time | None = None
    last_transition_time: Time | None = None
    reason: str = ""
    message: str = ""


class NodeAddress(Struct, frozen=True):
    type: str = written(str)
    address: str = written(str)


class DaemonEndpoint(Struct, frozen=True):
    port: Int32 = msgspec.field(default_factory=lambda: 0, name="Port")  # written, as any `written(int)`


class NodeDaemonEndpoints(Struct, frozen=True):
    kubelet_endpoint: DaemonEndpoint = written(DaemonEndpoint)


class NodeSwapStatus(Struct, frozen=True):
    capacity: Int64 | None = None


class NodeSystemInfo(Struct, frozen=True):
    machine_id: str = written(str)
    system_uuid: str = written(str)
    boot_id: str = written(str)
    kernel_version: str = written(str)
    os_image: str = written(str)
    container_runtime_version: str = written(str)
    kubelet_version: str = written(str)
    kube_proxy_version: str = written(str)
    operating_system: str = written(str)
    architecture: str = written(str)
    swap: NodeSwapStatus | None = None


class ContainerImage(Struct, frozen=True):
    names: tuple[str, ...] = written(tuple)
    size_bytes: Int64 | None = None


class AttachedVolume(Struct, frozen=True):
    name: str = written(str)
    device_path: str = written(str)


class NodeConfigStatus(Struct, frozen=True):
    assigned: NodeConfigSource | None = None
    active: NodeConfigSource | None = None
    last_known_good: NodeConfigSource | None = None
    error: str = ""


class NodeRuntimeHandlerFeatures(Struct, frozen=True):
    recursive_read_only_mounts: bool | None = None
    user_namespaces: bool | None = None


class NodeRuntimeHandler(Struct, frozen=True):
    name: str = written(str)
    features: NodeRuntimeHandlerFeatures | None = None


class NodeFeatures(Struct, frozen=True):
    supplemental_groups_policy: bool | None = None


class NodeStatus(Struct, frozen=True):
    capacity: ResourceList = {}
    allocatable: ResourceList = {}
    phase: str = ""
    conditions: tuple[NodeCondition, ...] = ()
    addresses: tuple[NodeAddress, ...] = ()
    daemon_endpoints: NodeDaemonEndpoints = written(NodeDaemonEndpoints)
    node_info: NodeSystemInfo = written(NodeSystemInfo)
    images: tuple[ContainerImage, ...] = ()
    volumes_in_use: tuple[str, ...] = ()
    volumes_attached: tuple[AttachedVolume, ...] = ()
    config: NodeConfigStatus | None = None
    runtime_handlers: tuple[NodeRuntimeHandler, ...] = ()
    features: NodeFeatures | None = None


class Node(Object, frozen=True):
    spec: NodeSpec = written(NodeSpec)
    status: NodeStatus = written(NodeStatus)
