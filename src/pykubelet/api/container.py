"""One container of a pod, as its author wrote it."""

from pykubelet.api.env import EnvFromSource, EnvVar
from pykubelet.api.handlers import Lifecycle, Probe
from pykubelet.api.quantity import ResourceList
from pykubelet.api.security import SecurityContext
from pykubelet.api.struct import Int32, Struct, written


class ContainerPort(Struct, frozen=True):
    name: str = ""
    host_port: Int32 | None = None
    container_port: Int32 = written(int)
    protocol: str = ""
    host_ip: str = ""


class ContainerResizePolicy(Struct, frozen=True):
    resource_name: str = written(str)
    restart_policy: str = written(str)


class ResourceClaim(Struct, frozen=True):
    name: str = written(str)
    request: str = ""


class ResourceRequirements(Struct, frozen=True):
    limits: ResourceList = {}
    requests: ResourceList = {}
    claims: tuple[ResourceClaim, ...] = ()


class ContainerRestartRuleOnExitCodes(Struct, frozen=True):
    operator: str = ""
    values: tuple[Int32, ...] = ()


class ContainerRestartRule(Struct, frozen=True):
    action: str = ""
    exit_codes: ContainerRestartRuleOnExitCodes | None = None


class VolumeMount(Struct, frozen=True):
    name: str = written(str)
    read_only: bool | None = None
    recursive_read_only: str | None = None
    mount_path: str = written(str)
    sub_path: str = ""
    mount_propagation: str | None = None
    sub_path_expr: str = ""


class VolumeDevice(Struct, frozen=True):
    name: str = written(str)
    device_path: str = written(str)


class Container(Struct, frozen=True):
    name: str = written(str)
    image: str = ""
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    working_dir: str = ""
    ports: tuple[ContainerPort, ...] = ()
    env_from: tuple[EnvFromSource, ...] = ()
    env: tuple[EnvVar, ...] = ()
    resources: ResourceRequirements = written(ResourceRequirements)
    resize_policy: tuple[ContainerResizePolicy, ...] = ()
    restart_policy: str | None = None
    restart_policy_rules: tuple[ContainerRestartRule, ...] = ()
    volume_mounts: tuple[VolumeMount, ...] = ()
    volume_devices: tuple[VolumeDevice, ...] = ()
    liveness_probe: Probe | None = None
    readiness_probe: Probe | None = None
    startup_probe: Probe | None = None
    lifecycle: Lifecycle | None = None
    termination_message_path: str = ""
    termination_message_policy: str = ""
    image_pull_policy: str = ""
    security_context: SecurityContext | None = None
    stdin: bool | None = None
    stdin_once: bool | None = None
    tty: bool | None = None


class EphemeralContainer(Container, frozen=True):
    target_container_name: str = ""
