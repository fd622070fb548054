"""Sandboxes and containers in the words of CRI, after upstream's, so that either agent may carry on the other's work.

Not said, as the ports do not carry it: SELinux relabelling.
"""

from collections.abc import Iterable
from typing import Final

from msgspec import Struct

from pykubelet.api.container import Container, EphemeralContainer, ResourceRequirements
from pykubelet.api.pod import Pod
from pykubelet.api.quantity import ResourceList
from pykubelet.api.rules.resources import container_limits, container_requests
from pykubelet.base.errors import Invalid
from pykubelet.pod.container import container_config as launch
from pykubelet.pod.container.cgroup import PERIOD, SMALLEST_QUOTA, container_hugepages, spelled_page_size
from pykubelet.pod.container.labels import CONTAINER_NAME, POD_NAME, POD_NAMESPACE, POD_UID, pod_identity
from pykubelet.pod.ports.runtime import ContainerConfig, Limits, Mount, PortMapping, SandboxConfig
from pykubelet.runtime.cri._gen import cri_pb2 as cri
from pykubelet.runtime.cri.security import SecurityDefaults, container_security, sandbox_security
from pykubelet.runtime.cri.signals import signal_value

_NOTHING: Final = cri.LinuxContainerResources()
_PROTOCOLS: Final = {"TCP": cri.TCP, "UDP": cri.UDP, "SCTP": cri.SCTP}
_PROPAGATIONS: Final = {
    "None": cri.PROPAGATION_PRIVATE,
    "HostToContainer": cri.PROPAGATION_HOST_TO_CONTAINER,
    "Bidirectional": cri.PROPAGATION_BIDIRECTIONAL,
}


class Kernel(Struct, frozen=True, kw_only=True):
    """What this machine can limit, and how it is told to."""

    unified: bool = False
    """Whether it has the second version of control groups."""
    swap: bool = False
    """Whether swap can be limited."""
    huge_pages: tuple[str, ...] = ()
    """The sizes that there are: 2MB, 1GB."""
    cpu_period: int = PERIOD
    """Microseconds in which a container may use up its quota of processor time; 0: quotas are not enforced."""
    single_process_oom_kill: bool = False
    """When a container's memory runs out, only one of its processes is killed, not all."""


class Machine(Struct, frozen=True, kw_only=True):
    kernel: Kernel = Kernel()
    security: SecurityDefaults = SecurityDefaults()


def sandbox_config(config: SandboxConfig, kernel: Kernel | None = None) -> cri.PodSandboxConfig:
    pod, kernel = config.pod, kernel or Kernel()
    meta, shared = pod.metadata, pod.spec.security_context
    return cri.PodSandboxConfig(
        metadata=cri.PodSandboxMetadata(name=meta.name, uid=meta.uid, namespace=meta.namespace, attempt=config.attempt),
        hostname=config.hostname,
        log_directory=config.log_directory,
        dns_config=cri.DNSConfig(servers=config.dns_servers, searches=config.dns_searches, options=config.dns_options),
        port_mappings=_ports(config.ports),
        labels={**config.labels, **pod_identity(pod)},
        annotations=dict(config.annotations),
        linux=cri.LinuxPodSandboxConfig(
            cgroup_parent=config.cgroup_parent,
            security_context=sandbox_security(pod, config.id_mappings),
            sysctls={each.name: each.value for each in shared.sysctls} if shared is not None else {},
            resources=_sandbox_resources(pod, kernel),
            overhead=_resources(pod.spec.overhead, pod.spec.overhead, kernel) if pod.spec.overhead else _NOTHING,
        ),
    )


def found_sandbox_config(status: cri.PodSandboxStatus) -> cri.PodSandboxConfig:
    """What can be said of a sandbox whose pod nobody told us."""
    return cri.PodSandboxConfig(
        metadata=status.metadata,
        labels=dict(status.labels),
        annotations=dict(status.annotations),
        linux=cri.LinuxPodSandboxConfig(
            security_context=cri.LinuxSandboxSecurityContext(namespace_options=status.linux.namespaces.options)
        ),
    )


def container_config(
    config: ContainerConfig,
    sandbox: cri.PodSandboxConfig,
    *,
    image_user: str = "",
    target_id: str = "",
    machine: Machine | None = None,
) -> cri.ContainerConfig:
    machine = machine or Machine()
    pod = config.sandbox.pod if config.sandbox is not None else Pod()
    container = container_named(pod, config.name)
    mappings = config.sandbox.id_mappings if config.sandbox is not None else ()
    security = container_security(pod, container, image_user, machine.security, target_id, mappings)
    if config.sandbox is None:
        security.namespace_options.CopyFrom(sandbox.linux.security_context.namespace_options)
    identity = {key: sandbox.labels[key] for key in (POD_NAME, POD_NAMESPACE, POD_UID) if key in sandbox.labels}
    return cri.ContainerConfig(
        metadata=cri.ContainerMetadata(name=config.name, attempt=config.attempt),
        image=cri.ImageSpec(image=config.image_id or config.image, user_specified_image=config.image),
        command=config.command,
        args=config.args,
        working_dir=config.working_dir,
        envs=[cri.KeyValue(key=name, value=value.encode(errors="surrogateescape")) for name, value in config.env],
        mounts=[_mount(each, security.namespace_options.userns_options) for each in config.mounts],
        devices=[
            cri.Device(host_path=each.host_path, container_path=each.container_path, permissions=each.permissions)
            for each in config.devices
        ],
        CDI_devices=[cri.CDIDevice(name=each) for each in config.cdi_devices],
        labels={**config.labels, **identity, CONTAINER_NAME: config.name},
        annotations=dict(config.annotations),
        log_path=config.log_path,
        stdin=config.stdin,
        stdin_once=config.stdin_once,
        tty=config.tty,
        stop_signal=signal_value(config.stop_signal),
        linux=cri.LinuxContainerConfig(
            resources=linux_resources(config.limits, pod, container, machine.kernel), security_context=security
        ),
    )


def container_named(pod: Pod, name: str) -> Container:
    """What the pod says of a container; nothing when it does not know it."""
    spec = pod.spec
    everyone: tuple[Container, ...] = (*spec.init_containers, *spec.containers, *spec.ephemeral_containers)
    return next((each for each in everyone if each.name == name), Container(name=name))


def target_of(config: ContainerConfig) -> str:
    """The name of the container whose processes this one wants to see, if any."""
    if config.sandbox is None:
        return ""
    container = container_named(config.sandbox.pod, config.name)
    return container.target_container_name if isinstance(container, EphemeralContainer) else ""


def linux_resources(limits: Limits, pod: Pod, container: Container, kernel: Kernel) -> cri.LinuxContainerResources:
    resources = _told(limits, kernel)
    resources.oom_score_adj = limits.oom_score_adj
    resources.hugepage_limits.extend(_huge_pages(pod, container, kernel.huge_pages))
    if kernel.swap and kernel.unified:
        resources.unified["memory.swap.max"] = str(limits.swap or 0)
    elif kernel.swap:
        resources.memory_swap_limit_in_bytes = resources.memory_limit_in_bytes
    return resources


def updated_resources(limits: Limits, kernel: Kernel) -> cri.LinuxContainerResources:
    """For a container that is there: what is not said stays as it is."""
    quota = _quota(limits.cpu_quota, kernel.cpu_period)
    return cri.LinuxContainerResources(
        cpu_period=kernel.cpu_period if quota else 0,
        cpu_quota=quota,
        cpu_shares=limits.cpu_shares or 0,
        memory_limit_in_bytes=limits.memory or 0,
        memory_swap_limit_in_bytes=(limits.memory or 0) if kernel.swap and not kernel.unified else 0,
        cpuset_cpus=limits.cpuset_cpus,
        cpuset_mems=limits.cpuset_mems,
    )


def _told(limits: Limits, kernel: Kernel) -> cri.LinuxContainerResources:
    resources = cri.LinuxContainerResources(
        cpu_period=kernel.cpu_period,
        cpu_quota=_quota(limits.cpu_quota, kernel.cpu_period),
        cpu_shares=limits.cpu_shares or 0,
        memory_limit_in_bytes=limits.memory or 0,
        cpuset_cpus=limits.cpuset_cpus,
        cpuset_mems=limits.cpuset_mems,
    )
    if kernel.unified and not kernel.single_process_oom_kill:
        resources.unified["memory.oom.group"] = "1"  # when memory runs out, a container ends as a whole
    return resources


def _quota(quota: int | None, period: int) -> int:
    if not quota or not period:
        return 0
    return quota if period == PERIOD or quota < 0 else max(quota * period // PERIOD, SMALLEST_QUOTA)


def _sandbox_resources(pod: Pod, kernel: Kernel) -> cri.LinuxContainerResources:
    """Of the whole pod, for runtimes whose sandboxes are machines: these have to be built large enough."""
    whole = pod.spec.resources or ResourceRequirements()
    requests = {**container_requests(pod.spec), **whole.requests}
    return _resources(requests, {**container_limits(pod.spec), **whole.limits}, kernel)


def _resources(requests: ResourceList, limits: ResourceList, kernel: Kernel) -> cri.LinuxContainerResources:
    everything = Container(name="", resources=ResourceRequirements(requests=requests, limits=limits))
    return _told(launch.container_limits(Pod(), everything, memory_capacity=1), kernel)


def _ports(ports: Iterable[PortMapping]) -> list[cri.PortMapping]:
    """Those that the host gives a port of its own."""
    return [
        cri.PortMapping(
            protocol=_PROTOCOLS.get(each.protocol, cri.TCP),
            container_port=each.container_port,
            host_port=each.host_port,
            host_ip=each.host_ip,
        )
        for each in ports
        if each.host_port
    ]


def _mount(mount: Mount, users: cri.UserNamespace) -> cri.Mount:
    """What is root's outside is root's inside, also where that root is somebody else."""
    if mount.sub_path and not mount.image:
        raise Invalid(
            f"mount {mount.container_path} cannot be provided: the agent may not mount, and a container runtime opens "
            f"{mount.sub_path} by its name, which a container could have replaced by a link; run the agent as root"
        )
    return cri.Mount(
        container_path=mount.container_path,
        host_path=mount.host_path,
        image=cri.ImageSpec(image=mount.image_id, user_specified_image=mount.image) if mount.image else None,
        image_sub_path=mount.sub_path,
        readonly=mount.read_only,
        recursive_read_only=mount.recursive_read_only,
        propagation=_PROPAGATIONS.get(mount.propagation, cri.PROPAGATION_PRIVATE),
        uidMappings=users.uids,
        gidMappings=users.gids,
    )


def _huge_pages(pod: Pod, container: Container, sizes: tuple[str, ...]) -> list[cri.HugepageLimit]:
    """Each size that there is, at nothing unless somebody asks for it: the container before its pod."""
    limits = {spelled_page_size(size): much for size, much in container_hugepages(pod, container).items()}
    return [cri.HugepageLimit(page_size=size, limit=limits.get(size, 0)) for size in sizes]
