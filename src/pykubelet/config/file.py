"""The kubelet's own configuration file, read as upstream writes it, with the place of every fault."""

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

from pykubelet.api import codec
from pykubelet.api.codec import DecodeError
from pykubelet.api.documents import Document, DocumentError, read_documents
from pykubelet.api.scheduling import Taint
from pykubelet.api.struct import Int32, Int64, Struct
from pykubelet.base.errors import Invalid
from pykubelet.config.fields import given_fields, unknown_fields

log = logging.getLogger(__name__)

API_VERSION: Final = "kubelet.config.k8s.io/v1beta1"
KIND: Final = "KubeletConfiguration"


class AnonymousAuthentication(Struct, frozen=True):
    enabled: bool = False


class WebhookAuthentication(Struct, frozen=True):
    enabled: bool = True
    cache_ttl: str = msgspec.field(name="cacheTTL", default="2m")


class X509Authentication(Struct, frozen=True):
    client_ca_file: str = msgspec.field(name="clientCAFile", default="")


class Authentication(Struct, frozen=True):
    anonymous: AnonymousAuthentication = AnonymousAuthentication()
    webhook: WebhookAuthentication = WebhookAuthentication()
    x509: X509Authentication = X509Authentication()


class WebhookAuthorization(Struct, frozen=True):
    cache_authorized_ttl: str = msgspec.field(name="cacheAuthorizedTTL", default="5m")
    cache_unauthorized_ttl: str = msgspec.field(name="cacheUnauthorizedTTL", default="30s")


class Authorization(Struct, frozen=True):
    mode: str = "Webhook"
    webhook: WebhookAuthorization = WebhookAuthorization()


class KubeletConfiguration(Struct, frozen=True):
    """The part of upstream's file that this version acts on, with upstream's defaults."""

    api_version: str = ""
    kind: str = ""
    # where pods come from
    static_pod_path: str = ""
    static_pod_url: str = msgspec.field(name="staticPodURL", default="")
    static_pod_url_header: Mapping[str, tuple[str, ...]] = msgspec.field(name="staticPodURLHeader", default={})
    file_check_frequency: str = "20s"
    http_check_frequency: str = "20s"
    # the runtime
    container_runtime_endpoint: str = ""
    runtime_request_timeout: str = "2m"
    pod_logs_dir: str = ""
    container_log_max_size: str = "10Mi"
    container_log_max_files: Int32 = 5
    container_log_monitor_interval: str = "10s"
    seccomp_default: bool = False
    cpu_cfs_quota: bool = msgspec.field(name="cpuCFSQuota", default=True)
    cpu_cfs_quota_period: str = msgspec.field(name="cpuCFSQuotaPeriod", default="100ms")
    # images
    serialize_image_pulls: bool = False
    max_parallel_image_pulls: Int32 | None = None
    image_gc_high_threshold_percent: Int32 = msgspec.field(name="imageGCHighThresholdPercent", default=85)
    image_gc_low_threshold_percent: Int32 = msgspec.field(name="imageGCLowThresholdPercent", default=80)
    image_minimum_gc_age: str = msgspec.field(name="imageMinimumGCAge", default="2m")
    image_maximum_gc_age: str = msgspec.field(name="imageMaximumGCAge", default="0s")
    # control groups
    cgroup_driver: str = "cgroupfs"
    cgroup_root: str = ""
    cgroups_per_qos: bool = msgspec.field(name="cgroupsPerQOS", default=True)
    enforce_node_allocatable: tuple[str, ...] = ("pods",)
    kube_reserved: Mapping[str, str] = {}
    system_reserved: Mapping[str, str] = {}
    pod_pids_limit: Int64 = -1
    # names
    cluster_dns: tuple[str, ...] = msgspec.field(name="clusterDNS", default=())
    cluster_domain: str = ""
    resolv_conf: str = "/etc/resolv.conf"
    # the node
    max_pods: Int32 = 110
    register_node: bool = True
    register_with_taints: tuple[Taint, ...] = ()
    provider_id: str = msgspec.field(name="providerID", default="")
    node_status_update_frequency: str = "10s"
    node_status_report_frequency: str = "5m"
    node_lease_duration_seconds: Int32 = 40
    allowed_unsafe_sysctls: tuple[str, ...] = ()
    # its own HTTP API
    enable_server: bool = True
    address: str = "0.0.0.0"  # noqa: S104 as upstream: an API server has to reach it; who may ask what is decided below
    port: Int32 = 10250
    read_only_port: Int32 = 0
    healthz_bind_address: str = "127.0.0.1"
    healthz_port: Int32 = 10248
    tls_cert_file: str = ""
    tls_private_key_file: str = ""
    tls_min_version: str = ""
    tls_cipher_suites: tuple[str, ...] = ()
    rotate_certificates: bool = False
    server_tls_bootstrap: bool = msgspec.field(name="serverTLSBootstrap", default=False)
    authentication: Authentication = Authentication()
    authorization: Authorization = Authorization()
    enable_debugging_handlers: bool = True
    enable_system_log_handler: bool = True
    enable_profiling_handler: bool = True
    streaming_connection_idle_timeout: str = "4h"


_NESTED: Final = frozenset(
    (
        "authentication.anonymous.enabled",
        "authentication.webhook.cacheTTL",
        "authentication.webhook.enabled",
        "authentication.x509.clientCAFile",
        "authorization.mode",
        "authorization.webhook.cacheAuthorizedTTL",
        "authorization.webhook.cacheUnauthorizedTTL",
    )
)


def load_configuration(path: str) -> KubeletConfiguration:
    """Read a configuration file, YAML or JSON. Raises Invalid with the place of the fault."""
    try:
        documents = read_documents(Path(path).read_bytes())
    except OSError as error:
        raise Invalid(f"{path}: cannot be read: {error.strerror}") from None
    except DocumentError as error:
        place = f":{error.line}:{error.column}" if error.line else ""
        raise Invalid(f"{path}{place}: {error.reason}") from None
    if len(documents) != 1:
        raise Invalid(f"{path}: must hold one {KIND}, but holds {len(documents)} documents")
    document = documents[0]
    try:
        configuration = codec.convert(KubeletConfiguration, document.value)
    except DecodeError as error:
        raise _fault(path, document, error.field, error.reason) from None
    if (configuration.api_version, configuration.kind) != (API_VERSION, KIND):
        found = f"apiVersion {configuration.api_version or '(none)'}, kind {configuration.kind or '(none)'}"
        raise _fault(path, document, "", f"must be of apiVersion {API_VERSION}, kind {KIND}, but is of {found}")
    for field in unknown_fields(document.value):
        raise _fault(path, document, field, "there is no such field; is it a typing error?")
    used = _NESTED.union(KubeletConfiguration.__struct_encode_fields__)
    for field in given_fields(document.value):
        if field not in used:
            log.warning("%s: %s is not used by this version and has no effect", path, field)
    return configuration


def _fault(path: str, document: Document, field: str, reason: str) -> Invalid:
    place = document.place(field)
    where = f"{path}:{place[0]}:{place[1]}" if place else path
    return Invalid(f"{where}: {field}: {reason}" if field else f"{where}: {reason}")
