"""What the agent is told to do: the kubelet's own configuration file and flags, checked and turned into one value.

Names and defaults are upstream's, so that a node's existing file works as it is.
"""

import ipaddress
import logging
import os
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from msgspec import Struct

from pykubelet.api.durations import parse_duration
from pykubelet.api.quantity import ResourceList
from pykubelet.api.quantity import parse as parse_quantity
from pykubelet.api.scheduling import Taint
from pykubelet.api.validation.names import dns_subdomain
from pykubelet.base.errors import Invalid
from pykubelet.config.file import KubeletConfiguration
from pykubelet.pod.admission.sysctls import Sysctls

log = logging.getLogger(__name__)

_DRIVERS: Final = ("cgroupfs", "systemd")
_MODES: Final = ("Webhook", "AlwaysAllow")
_ENFORCEABLE: Final = (
    *("none", "pods", "system-reserved", "kube-reserved"),
    *("system-reserved-compressible", "kube-reserved-compressible"),
)
_RESERVABLE: Final = ("cpu", "memory", "ephemeral-storage", "pid")


class NodeOptions(Struct, frozen=True, kw_only=True):
    """What people decide about the node object."""

    max_pods: int = 110
    register: bool = True
    labels: Mapping[str, str] = {}
    taints: tuple[Taint, ...] = ()
    provider_id: str = ""
    kube_reserved: ResourceList = {}
    system_reserved: ResourceList = {}
    update_period: float = 10.0
    report_period: float = 300.0
    lease_seconds: int = 40

    @property
    def reserved(self) -> ResourceList:
        """What is not for pods."""
        total = dict(self.kube_reserved)
        for name, amount in self.system_reserved.items():
            total[name] = total[name] + amount if name in total else amount
        return total


class RuntimeOptions(Struct, frozen=True, kw_only=True):
    endpoint: str = ""
    request_timeout: float = 120.0
    log_max_size: int = 10 << 20
    log_max_files: int = 5
    log_period: float = 10.0
    seccomp_default: bool = False
    cpu_cfs_quota: bool = True
    cpu_cfs_quota_period: float = 0.1


class ImageOptions(Struct, frozen=True, kw_only=True):
    most_pulls: int | None = None
    """At once; None: any number."""
    gc_high: int = 85
    gc_low: int = 80
    gc_minimum_age: float = 120.0
    gc_maximum_age: float = 0.0
    """0: however old."""
    credential_config: str = ""
    credential_bin_dir: str = ""


class CgroupOptions(Struct, frozen=True, kw_only=True):
    per_qos: bool = True
    driver: str = "cgroupfs"
    root: str = ""
    pids_limit: int = -1
    """Of each pod; negative: none."""
    enforce_allocatable: bool = True


class DnsOptions(Struct, frozen=True, kw_only=True):
    servers: tuple[str, ...] = ()
    domain: str = ""
    resolv_conf: str = "/etc/resolv.conf"


class ServerOptions(Struct, frozen=True, kw_only=True):
    """The agent's own HTTP API."""

    enabled: bool = True
    address: str = "0.0.0.0"  # noqa: S104
    port: int = 10250
    read_only_port: int = 0
    healthz_address: str = "127.0.0.1"
    healthz_port: int = 10248
    cert_dir: Path = Path("pki")
    cert_file: str = ""
    key_file: str = ""
    tls_min_version: str = ""
    tls_cipher_suites: tuple[str, ...] = ()
    rotate_server: bool = False
    client_ca_file: str = ""
    anonymous: bool = False
    token_webhook: bool = True
    token_ttl: float = 120.0
    authorization: str = "Webhook"
    allowed_ttl: float = 300.0
    denied_ttl: float = 30.0
    debugging: bool = True
    system_logs: bool = True
    profiling: bool = True
    stream_idle: float = 14400.0


class Config(Struct, frozen=True, kw_only=True):
    """Everything that the agent needs to know, checked."""

    node_name: str
    root_dir: Path
    pod_logs_dir: Path
    node_ips: tuple[str, ...] = ()
    kubeconfig: str = ""
    bootstrap_kubeconfig: str = ""
    rotate_certificates: bool = False
    static_pod_path: str = ""
    static_pod_url: str = ""
    static_pod_url_header: Mapping[str, tuple[str, ...]] = {}
    file_check_frequency: float = 20.0
    http_check_frequency: float = 20.0
    allowed_unsafe_sysctls: tuple[str, ...] = ()
    stop_pods_on_exit: bool = False
    node: NodeOptions = NodeOptions()
    runtime: RuntimeOptions = RuntimeOptions()
    images: ImageOptions = ImageOptions()
    cgroups: CgroupOptions = CgroupOptions()
    dns: DnsOptions = DnsOptions()
    server: ServerOptions = ServerOptions()
    source: KubeletConfiguration = KubeletConfiguration()
    """File and flags together, as they were given, for people who ask."""
    flags: Mapping[str, str] = {}
    """Those of the command line, but for secrets."""

    @property
    def socket(self) -> Path:
        """Where the agent answers the people of its own machine."""
        return self.root_dir / "pykubelet.sock"


def make_config(
    configuration: KubeletConfiguration,
    *,
    hostname_override: str = "",
    kubeconfig: str = "",
    bootstrap_kubeconfig: str = "",
    root_dir: str = "",
    cert_dir: str = "",
    node_ip: str = "",
    node_labels: Mapping[str, str] | None = None,
    image_credential_provider_config: str = "",
    image_credential_provider_bin_dir: str = "",
    stop_pods_on_exit: bool = False,
    flags: Mapping[str, str] | None = None,
) -> Config:
    """Put file and flags together. Raises Invalid."""
    given = configuration
    node_name = (hostname_override or socket.gethostname()).strip().lower()
    if problem := next(iter(dns_subdomain(node_name)), None):
        raise Invalid(f"the node name {node_name!r} cannot be used: {problem}; choose one with --hostname-override")
    root = (Path(root_dir) if root_dir else default_root_dir()).absolute()
    try:
        Sysctls(given.allowed_unsafe_sysctls)
    except ValueError as error:
        raise Invalid(f"allowedUnsafeSysctls: {error}") from None
    if bool(image_credential_provider_config) != bool(image_credential_provider_bin_dir):
        raise Invalid("--image-credential-provider-config and --image-credential-provider-bin-dir need each other")
    if bootstrap_kubeconfig and not kubeconfig:
        raise Invalid("--bootstrap-kubeconfig needs --kubeconfig: that is the file to be made")
    return Config(
        node_name=node_name,
        root_dir=root,
        pod_logs_dir=Path(given.pod_logs_dir or _default_logs(root)).absolute(),
        node_ips=tuple(part.strip() for part in node_ip.split(",") if part.strip()),
        kubeconfig=kubeconfig,
        bootstrap_kubeconfig=bootstrap_kubeconfig,
        rotate_certificates=given.rotate_certificates,
        static_pod_path=given.static_pod_path,
        static_pod_url=given.static_pod_url,
        static_pod_url_header=given.static_pod_url_header,
        file_check_frequency=_frequency("fileCheckFrequency", given.file_check_frequency),
        http_check_frequency=_frequency("httpCheckFrequency", given.http_check_frequency),
        allowed_unsafe_sysctls=given.allowed_unsafe_sysctls,
        stop_pods_on_exit=stop_pods_on_exit,
        node=_node(given, node_labels or {}),
        runtime=_runtime(given),
        images=_images(given, image_credential_provider_config, image_credential_provider_bin_dir),
        cgroups=_cgroups(given),
        dns=_dns(given),
        server=_server(given, Path(cert_dir).absolute() if cert_dir else root / "pki"),
        source=configuration,
        flags=flags or {},
    )


def default_root_dir() -> Path:
    """Upstream's folder for root; for an ordinary user one of their own."""
    if os.geteuid() == 0:
        return Path("/var/lib/kubelet")
    return Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local/share") / "kubelet"


def _default_logs(root: Path) -> Path:
    """Upstream's folder, when the agent keeps its state where upstream does; else beside the state."""
    return Path("/var/log/pods") if root == Path("/var/lib/kubelet") else root / "logs"


# --- one group of options after the other


def _node(given: KubeletConfiguration, labels: Mapping[str, str]) -> NodeOptions:
    if given.max_pods < 0:
        raise Invalid(f"maxPods: must not be negative, got {given.max_pods}")
    if given.node_lease_duration_seconds <= 0:
        raise Invalid(f"nodeLeaseDurationSeconds: must be positive, got {given.node_lease_duration_seconds}")
    return NodeOptions(
        max_pods=given.max_pods,
        register=given.register_node,
        labels=labels,
        taints=given.register_with_taints,
        provider_id=given.provider_id,
        kube_reserved=_amounts("kubeReserved", given.kube_reserved),
        system_reserved=_amounts("systemReserved", given.system_reserved),
        update_period=_frequency("nodeStatusUpdateFrequency", given.node_status_update_frequency, 10.0),
        report_period=_frequency("nodeStatusReportFrequency", given.node_status_report_frequency, 300.0),
        lease_seconds=given.node_lease_duration_seconds,
    )


def _runtime(given: KubeletConfiguration) -> RuntimeOptions:
    if given.container_log_max_files < 2:
        raise Invalid(f"containerLogMaxFiles: must be 2 or more, got {given.container_log_max_files}")
    period = _frequency("cpuCFSQuotaPeriod", given.cpu_cfs_quota_period, 0.1)
    if not 0.001 <= period <= 1.0:
        raise Invalid(f"cpuCFSQuotaPeriod: must be from 1ms to 1s, got {given.cpu_cfs_quota_period}")
    return RuntimeOptions(
        endpoint=given.container_runtime_endpoint,
        request_timeout=_frequency("runtimeRequestTimeout", given.runtime_request_timeout, 120.0),
        log_max_size=_bytes("containerLogMaxSize", given.container_log_max_size),
        log_max_files=given.container_log_max_files,
        log_period=_frequency("containerLogMonitorInterval", given.container_log_monitor_interval, 10.0),
        seccomp_default=given.seccomp_default,
        cpu_cfs_quota=given.cpu_cfs_quota,
        cpu_cfs_quota_period=period,
    )


def _images(given: KubeletConfiguration, credential_config: str, credential_bin_dir: str) -> ImageOptions:
    high, low, most = (
        given.image_gc_high_threshold_percent,
        given.image_gc_low_threshold_percent,
        given.max_parallel_image_pulls,
    )
    if not 0 <= low < high <= 100:
        raise Invalid(f"imageGCLowThresholdPercent: must be below imageGCHighThresholdPercent ({high}), got {low}")
    if most is not None and most < 1:
        raise Invalid(f"maxParallelImagePulls: must be 1 or more, got {most}")
    if given.serialize_image_pulls and most is not None and most > 1:
        raise Invalid("maxParallelImagePulls: cannot be more than 1 while serializeImagePulls is true")
    return ImageOptions(
        most_pulls=1 if given.serialize_image_pulls else most,
        gc_high=high,
        gc_low=low,
        gc_minimum_age=_frequency("imageMinimumGCAge", given.image_minimum_gc_age, 0.0),
        gc_maximum_age=_frequency("imageMaximumGCAge", given.image_maximum_gc_age, 0.0),
        credential_config=credential_config,
        credential_bin_dir=credential_bin_dir,
    )


def _cgroups(given: KubeletConfiguration) -> CgroupOptions:
    if given.cgroup_driver not in _DRIVERS:
        raise Invalid(f"cgroupDriver: must be cgroupfs or systemd, got {given.cgroup_driver!r}")
    _check_enforced(given.enforce_node_allocatable)
    return CgroupOptions(
        per_qos=given.cgroups_per_qos,
        driver=given.cgroup_driver,
        root=given.cgroup_root,
        pids_limit=given.pod_pids_limit if given.pod_pids_limit > 0 else -1,
        enforce_allocatable="pods" in given.enforce_node_allocatable,
    )


def _check_enforced(wanted: tuple[str, ...]) -> None:
    if unknown := [each for each in wanted if each not in _ENFORCEABLE]:
        raise Invalid(f"enforceNodeAllocatable: must be some of {', '.join(_ENFORCEABLE)}, got {unknown[0]!r}")
    if "none" in wanted and len(wanted) > 1:
        raise Invalid("enforceNodeAllocatable: cannot be none and something else")
    for each in (each for each in wanted if each not in ("none", "pods")):
        log.warning("enforceNodeAllocatable: %s has no control group of its own here, and is not enforced", each)


def _dns(given: KubeletConfiguration) -> DnsOptions:
    for address in given.cluster_dns:
        try:
            ipaddress.ip_address(address)
        except ValueError:
            raise Invalid(f"clusterDNS: {address!r} is not an address") from None
    return DnsOptions(servers=given.cluster_dns, domain=given.cluster_domain, resolv_conf=given.resolv_conf)


def _server(given: KubeletConfiguration, cert_dir: Path) -> ServerOptions:
    for name, port in (
        ("port", given.port),
        ("readOnlyPort", given.read_only_port),
        ("healthzPort", given.healthz_port),
    ):
        if not 0 <= port <= 65535:
            raise Invalid(f"{name}: must be from 0 to 65535, got {port}")
    for name, address in (("address", given.address), ("healthzBindAddress", given.healthz_bind_address)):
        try:
            ipaddress.ip_address(address)
        except ValueError:
            raise Invalid(f"{name}: {address!r} is not an address") from None
    who, what = given.authentication, given.authorization
    if what.mode not in _MODES:
        raise Invalid(f"authorization.mode: must be Webhook or AlwaysAllow, got {what.mode!r}")
    if bool(given.tls_cert_file) != bool(given.tls_private_key_file):
        raise Invalid("tlsCertFile and tlsPrivateKeyFile need each other")
    return ServerOptions(
        enabled=given.enable_server,
        address=given.address,
        port=given.port,
        read_only_port=given.read_only_port,
        healthz_address=given.healthz_bind_address,
        healthz_port=given.healthz_port,
        cert_dir=cert_dir,
        cert_file=given.tls_cert_file,
        key_file=given.tls_private_key_file,
        tls_min_version=given.tls_min_version,
        tls_cipher_suites=given.tls_cipher_suites,
        rotate_server=given.server_tls_bootstrap,
        client_ca_file=who.x509.client_ca_file,
        anonymous=who.anonymous.enabled,
        token_webhook=who.webhook.enabled,
        token_ttl=_frequency("authentication.webhook.cacheTTL", who.webhook.cache_ttl, 0.0),
        authorization=what.mode,
        allowed_ttl=_frequency("authorization.webhook.cacheAuthorizedTTL", what.webhook.cache_authorized_ttl, 0.0),
        denied_ttl=_frequency("authorization.webhook.cacheUnauthorizedTTL", what.webhook.cache_unauthorized_ttl, 0.0),
        debugging=given.enable_debugging_handlers,
        system_logs=given.enable_system_log_handler,
        profiling=given.enable_profiling_handler,
        stream_idle=_frequency("streamingConnectionIdleTimeout", given.streaming_connection_idle_timeout, 14400.0),
    )


# --- values


def _frequency(name: str, text: str, unset: float = 20.0) -> float:
    """Upstream takes zero for "not set"."""
    try:
        seconds = parse_duration(text)
    except ValueError as error:
        raise Invalid(f"{name}: {error}") from None
    if seconds < 0:
        raise Invalid(f"{name}: must not be negative, got {text}")
    return seconds or unset


def _amounts(name: str, given: Mapping[str, str]) -> ResourceList:
    amounts = {}
    for resource, text in given.items():
        if resource not in _RESERVABLE:
            raise Invalid(f"{name}: {resource!r} cannot be reserved; there are {', '.join(_RESERVABLE)}")
        try:
            amounts[resource] = parse_quantity(text)
        except ValueError as error:
            raise Invalid(f"{name}.{resource}: {error}") from None
        if amounts[resource].sign < 0:
            raise Invalid(f"{name}.{resource}: must not be negative, got {text}")
    return amounts


def _bytes(name: str, text: str) -> int:
    try:
        amount = parse_quantity(text).value
    except ValueError as error:
        raise Invalid(f"{name}: {error}") from None
    if amount <= 0:
        raise Invalid(f"{name}: must be positive, got {text}")
    return amount
