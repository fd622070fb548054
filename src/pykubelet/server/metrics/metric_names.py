"""Every series that the agent shows, in one table: name, kind, labels and buckets are the Go kubelet's, because
dashboards and alerts are written in them. What starts with `pykubelet_` is our own."""

from itertools import accumulate, repeat
from typing import Final, Literal, NamedTuple


class Named(NamedTuple):
    name: str
    kind: Literal["counter", "gauge", "histogram"]
    help: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()


def _counter(name: str, help: str, *labels: str) -> Named:
    return Named(name, "counter", help, labels)


def _gauge(name: str, help: str, *labels: str) -> Named:
    return Named(name, "gauge", help, labels)


def _histogram(name: str, buckets: tuple[float, ...], help: str, *labels: str) -> Named:
    return Named(name, "histogram", help, labels, buckets)


def _exponential(start: float, factor: float, count: int) -> tuple[float, ...]:
    return tuple(accumulate(repeat(factor, count - 1), float.__mul__, initial=start))


_USUAL: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_STARTUP: Final = (
    *(0.5, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 20.0, 30.0, 45.0, 60.0, 120.0, 180.0, 240.0, 300.0, 360.0),
    *(480.0, 600.0, 900.0, 1200.0, 1800.0, 2700.0, 3600.0),
)
_PULL: Final = (
    *(1.0, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 180.0, 240.0, 300.0, 360.0, 480.0, 600.0, 900.0, 1200.0, 1800.0),
    *(2700.0, 3600.0),
)
_STATUS: Final = (0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 20.0, 30.0, 45.0, 60.0)
_REQUEST: Final = (0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0)
_BYTES: Final = (64.0, 256.0, 512.0, 1024.0, 4096.0, 16384.0, 65536.0, 262144.0, 1048576.0, 4194304.0, 16777216.0)
_LIFETIME: Final = (
    *(60.0, 3600.0, 14400.0, 86400.0, 604800.0, 2592000.0, 7776000.0, 15552000.0, 31104000.0, 124416000.0),
)

_CLAIMS: Final = _exponential(0.1, 400.0 ** (1 / 14), 15)
_STORAGE: Final = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 15.0, 25.0, 50.0, 120.0, 300.0, 600.0)
_RESIZES: Final = (10.0, 50.0, 100.0, 500.0, 1e3, 2e3, 5e3, 1e4, 2e4, 3e4, 6e4, 12e4, 3e5, 6e5)
_DELEGATED: Final = (0.25, 0.5, 0.7, 1.0, 1.5, 3.0, 5.0, 10.0)
_EXPIRATION: Final = (
    *(0.0, 1800.0, 3600.0, 7200.0, 21600.0, 43200.0, 86400.0, 172800.0, 345600.0, 604800.0, 2592000.0, 7776000.0),
    *(15552000.0, 31104000.0),
)

_OPERATION: Final = "operation_type"
_REQUEST_LABELS: Final = ("method", "path", "server_type", "long_running")
_ALIGNED: Final = ("scope", "boundary")
_CLAIM: Final = ("namespace", "persistentvolumeclaim")

PODS: Final = (
    _gauge("kubelet_graceful_shutdown_start_time_seconds", "When pods last began to end before the machine went down."),
    _gauge("kubelet_graceful_shutdown_end_time_seconds", "When they had all ended, or were given up."),
    _gauge("kubelet_node_name", "The name of this node; the value is always 1.", "node"),
    _gauge("kubelet_running_pods", "Pods that have a running sandbox."),
    _gauge("kubelet_running_containers", "Containers in the runtime, by state.", "container_state"),
    _gauge("kubelet_desired_pods", "Pods that the node was told to run.", "static"),
    _gauge("kubelet_active_pods", "Pods that have not ended and count when others are admitted.", "static"),
    _gauge("kubelet_mirror_pods", "Mirror pods, which show static pods to the cluster."),
    _gauge("kubelet_working_pods", "Pods that have a worker, by how far they are.", *("lifecycle", "config", "static")),
    _gauge("kubelet_managed_ephemeral_containers", "Ephemeral containers in the pods of this node."),
    _counter("kubelet_orphaned_runtime_pods_total", "Pods found in the runtime that nobody knew."),
    _counter("kubelet_restarted_pods_total", "Pods that came back with the uid that they had before.", "static"),
    _histogram("kubelet_containers_per_pod_count", _exponential(1.0, 2.0, 5), "Containers of each pod."),
    _histogram(
        "kubelet_pod_worker_start_duration_seconds", _USUAL, "From the first sight of a pod to its worker's first step."
    ),
    _histogram("kubelet_pod_worker_duration_seconds", _USUAL, "How long each step of a pod's worker took.", _OPERATION),
    _histogram("kubelet_pod_start_duration_seconds", _STARTUP, "From the first sight of a pod until it runs."),
    _histogram(
        "kubelet_pod_start_sli_duration_seconds",
        _STARTUP,
        "From a pod's creation until it is reported to run, without image pulls and init containers; stateless pods.",
    ),
    _histogram(
        "kubelet_pod_start_total_duration_seconds",
        _STARTUP,
        "From a pod's creation until it is reported to run, everything included.",
    ),
    _gauge(
        "kubelet_first_network_pod_start_sli_duration_seconds",
        "The start of the first pod with a network of its own, without image pulls and init containers.",
    ),
    _histogram(
        "kubelet_pod_status_sync_duration_seconds",
        _STATUS,
        "From a change of a pod's status until the API server has it.",
    ),
    _counter("kubelet_started_pods_total", "Attempts to start a pod's sandbox."),
    _counter("kubelet_started_pods_errors_total", "Attempts to start a pod's sandbox that failed."),
    _counter("kubelet_started_user_namespaced_pods_total", "Attempts to start a pod with a user namespace of its own."),
    _counter("kubelet_started_user_namespaced_pods_errors_total", "Those of them that failed."),
    _counter("kubelet_started_containers_total", "Attempts to start a container.", "container_type"),
    _counter(
        "kubelet_started_containers_errors_total",
        "Attempts to start a container that failed, by reason.",
        *("container_type", "code"),
    ),
    _counter("kubelet_started_host_process_containers_total", "Only Windows has such containers.", "container_type"),
    _counter(
        "kubelet_started_host_process_containers_errors_total",
        "Only Windows has such containers.",
        *("container_type", "code"),
    ),
    _counter("kubelet_admission_rejections_total", "Pods that were not admitted, by reason.", "reason"),
    _counter(
        "kubelet_container_requested_resizes_total",
        "Changes of size that containers were asked for.",
        "resource",
        "requirement",
        "operation",
    ),
    _histogram(
        "kubelet_pod_resize_duration_milliseconds", _RESIZES, "How long telling a pod's containers took.", "success"
    ),
    _gauge("kubelet_pod_pending_resizes", "Pods that have not the size they ask for, by reason.", "reason"),
    _gauge("kubelet_pod_in_progress_resizes", "Pods whose containers are being told."),
    _counter("kubelet_pod_infeasible_resizes_total", "Sizes that pods asked for in vain, by reason.", "reason_detail"),
    _counter(
        "kubelet_pod_deferred_accepted_resizes_total", "Sizes that pods waited for, by what made room.", "retry_trigger"
    ),
    _counter("kubelet_cpu_manager_pinning_requests_total", "Containers that asked for processors of their own."),
    _counter("kubelet_cpu_manager_pinning_errors_total", "Those of them that could not have any."),
    _gauge("kubelet_cpu_manager_shared_pool_size_millicores", "Processors that pods share, in thousandths."),
    _gauge("kubelet_cpu_manager_exclusive_cpu_allocation_count", "Processors that belong to single containers."),
    _gauge("kubelet_cpu_manager_allocation_per_numa", "Those of them on each NUMA node.", "numa_node"),
    _counter("kubelet_memory_manager_pinning_requests_total", "Containers that asked for memory of NUMA nodes."),
    _counter("kubelet_memory_manager_pinning_errors_total", "Those of them that could not have any."),
    _counter("kubelet_topology_manager_admission_requests_total", "Pods that were looked at for NUMA nodes."),
    _counter("kubelet_topology_manager_admission_errors_total", "Those of them that were refused for these."),
    _histogram(
        "kubelet_topology_manager_admission_duration_ms", _exponential(0.05, 2.0, 15), "How long such a look took."
    ),
    _counter(
        "kubelet_container_aligned_compute_resources_count",
        "Allocations that lie within one boundary, where that was asked for.",
        *_ALIGNED,
    ),
    _counter(
        "kubelet_container_aligned_compute_resources_failure_count",
        "Allocations that could not lie within one boundary.",
        *_ALIGNED,
    ),
    _counter("kubelet_evictions", "Pods that were evicted, by what ran short.", "eviction_signal"),
    _histogram(
        "kubelet_eviction_stats_age_seconds", _USUAL, "Age of what said that a pod has to go.", "eviction_signal"
    ),
    _counter("kubelet_preemptions", "Pods that made room for critical ones, by what ran short.", "preemption_signal"),
    _counter(
        "kubelet_lifecycle_handler_http_fallbacks_total", "Hooks that were asked for over HTTPS and ran over HTTP."
    ),
    _counter("kubelet_sleep_action_terminated_early_total", "Hooks that were to sleep for longer than the grace."),
    _gauge("kubelet_orphan_pod_cleaned_volumes", "Unknown pods whose folders the last sweep took away."),
    _gauge("kubelet_orphan_pod_cleaned_volumes_errors", "Unknown pods whose folders could not be taken away."),
)

RUNTIME: Final = (
    _histogram("kubelet_pleg_relist_duration_seconds", _USUAL, "How long it took to look at all pods of the runtime."),
    _histogram("kubelet_pleg_relist_interval_seconds", _USUAL, "Time between two looks at all pods of the runtime."),
    _gauge("kubelet_pleg_last_seen_seconds", "When all pods of the runtime were last looked at."),
    _counter("kubelet_pleg_discard_events", "Events of the runtime that were thrown away; this agent never does."),
    _counter("kubelet_evented_pleg_connection_success_count", "How often the runtime's events were listened to anew."),
    _counter("kubelet_evented_pleg_connection_error_count", "How often the runtime's events were lost."),
    _gauge(
        "kubelet_cri_losing_support",
        "1: the runtime lacks what kubelets from this version on will not do without.",
        "version",
    ),
    _counter("kubelet_runtime_operations_total", "Calls to the runtime.", _OPERATION),
    _counter("kubelet_runtime_operations_errors_total", "Calls to the runtime that failed.", _OPERATION),
    _histogram(
        "kubelet_runtime_operations_duration_seconds",
        _exponential(0.005, 2.5, 14),
        "How long calls to the runtime took.",
        _OPERATION,
    ),
    _histogram(
        "kubelet_run_podsandbox_duration_seconds", _USUAL, "How long it took to start a sandbox.", "runtime_handler"
    ),
    _counter("kubelet_run_podsandbox_errors_total", "Sandboxes that could not be started.", "runtime_handler"),
    _histogram(
        "kubelet_cgroup_manager_duration_seconds",
        _USUAL,
        "How long it took to change the control groups of pods.",
        _OPERATION,
    ),
    _gauge("kubelet_cgroup_version", "The version of the machine's control groups."),
    _histogram(
        "kubelet_image_pull_duration_seconds", _PULL, "How long it took to pull an image.", "image_size_in_bytes"
    ),
    _counter("kubelet_image_garbage_collected_total", "Images that were cleared away, by reason.", "reason"),
    _counter("kubelet_image_volume_requested_total", "Images that containers wanted to mount."),
    _counter("kubelet_image_volume_mounted_succeed_total", "Images that were mounted in a container."),
    _counter("kubelet_image_volume_mounted_errors_total", "Containers that were not made for an image to mount."),
)

MACHINE: Final = (
    _gauge("kubelet_node_startup_pre_kubelet_duration_seconds", "From the machine's boot to the agent's start."),
    _gauge("kubelet_node_startup_pre_registration_duration_seconds", "From there until the node asked to be known."),
    _gauge("kubelet_node_startup_registration_duration_seconds", "From there until the API server knew the node."),
    _gauge("kubelet_node_startup_post_registration_duration_seconds", "From there until the node was ready."),
    _gauge("kubelet_node_startup_duration_seconds", "From the machine's boot until the node was ready."),
    _gauge("kubelet_volume_stats_capacity_bytes", "The size of a claimed volume.", *_CLAIM),
    _gauge("kubelet_volume_stats_available_bytes", "What is free of a claimed volume.", *_CLAIM),
    _gauge("kubelet_volume_stats_used_bytes", "What is used of a claimed volume.", *_CLAIM),
    _gauge("kubelet_volume_stats_inodes", "The inodes of a claimed volume.", *_CLAIM),
    _gauge("kubelet_volume_stats_inodes_free", "The free inodes of a claimed volume.", *_CLAIM),
    _gauge("kubelet_volume_stats_inodes_used", "The used inodes of a claimed volume.", *_CLAIM),
    _gauge("kubelet_volume_stats_health_status_abnormal", "1: the claimed volume is not well.", *_CLAIM),
    _gauge(
        "kubelet_container_log_filesystem_used_bytes",
        "What a container's logs take.",
        *("uid", "namespace", "pod", "container"),
    ),
    _gauge("kubernetes_feature_enabled", "Whether a feature gate is on.", "name", "stage"),
    _gauge("kubelet_certificate_manager_client_ttl_seconds", "Until the client certificate expires; +Inf: none."),
    _gauge("kubelet_certificate_manager_server_ttl_seconds", "Until the serving certificate expires; +Inf: none."),
    _histogram(
        "kubelet_certificate_manager_server_rotation_seconds", _LIFETIME, "How long serving certificates were used."
    ),
    _counter("kubelet_certificate_manager_client_expiration_renew_errors", "Failed renewals of client certificates."),
    _counter("kubelet_server_expiration_renew_errors", "Failed renewals of serving certificates."),
    _gauge("pykubelet_sync_loop_lateness_seconds", "For how long the sync loop has not come round."),
)

VOLUMES: Final = (
    _histogram(
        "storage_operation_duration_seconds",
        _STORAGE,
        "How long it took to make volumes and to give them back.",
        *("volume_plugin", "operation_name", "status", "migrated"),
    ),
    _histogram(
        "volume_operation_total_seconds",
        _STORAGE,
        "The same of those that went well.",
        *("plugin_name", "operation_name"),
    ),
    _histogram(
        "csi_operations_seconds",
        _STORAGE,
        "How long storage drivers took to answer.",
        *("driver_name", "method_name", "grpc_status_code", "migrated"),
    ),
    _gauge("volume_manager_total_volumes", "Volumes that there are, and that pods want.", *("plugin_name", "state")),
)

CLAIMS: Final = (
    _histogram(
        "dra_operations_duration_seconds",
        _CLAIMS,
        "How long it took to prepare all resource claims of a pod, or to give them back; is_error is true of success.",
        *("operation_name", "is_error"),
    ),
    _histogram(
        "dra_grpc_operations_duration_seconds",
        _CLAIMS,
        "How long drivers of allocated devices took to answer.",
        *("driver_name", "method_name", "grpc_status_code"),
    ),
    _gauge(
        "dra_resource_claims_in_use", "Resource claims that are prepared: by driver, and of any (<any>).", "driver_name"
    ),
)

AUTH: Final = (
    _histogram(
        "apiserver_client_certificate_expiration_seconds",
        _EXPIRATION,
        "For how long the certificates of those who asked are still good.",
    ),
    _counter("apiserver_delegated_authn_request_total", "Tokens that the API server was asked about.", "code"),
    _histogram("apiserver_delegated_authn_request_duration_seconds", _DELEGATED, "How long that took.", "code"),
    _counter("apiserver_delegated_authz_request_total", "Rights that the API server was asked about.", "code"),
    _histogram("apiserver_delegated_authz_request_duration_seconds", _DELEGATED, "How long that took.", "code"),
    _counter("authentication_token_cache_request_total", "Tokens that somebody came with: known, or not.", "status"),
    _histogram("authentication_token_cache_request_duration_seconds", _USUAL, "How long they took.", "status"),
    _counter("authentication_token_cache_fetch_total", "Tokens that had to be asked about.", "status"),
    _gauge("authentication_token_cache_active_fetch_count", "Tokens that are being asked about.", "status"),
)

HTTP: Final = (
    _counter("kubelet_http_requests_total", "Requests to the agent's HTTP API.", *_REQUEST_LABELS),
    _histogram("kubelet_http_requests_duration_seconds", _USUAL, "How long requests took.", *_REQUEST_LABELS),
    _gauge("kubelet_http_inflight_requests", "Requests that are being answered.", *_REQUEST_LABELS),
    _counter(
        "rest_client_request_retries_total",
        "Requests to API servers that were sent once more, by the answer before.",
        *("code", "verb", "host"),
    ),
    _counter("rest_client_requests_total", "Requests to API servers.", *("code", "method", "host")),
    _histogram("rest_client_request_duration_seconds", _REQUEST, "How long API servers took.", *("verb", "host")),
    _histogram("rest_client_request_size_bytes", _BYTES, "The size of requests to API servers.", *("verb", "host")),
    _histogram("rest_client_response_size_bytes", _BYTES, "The size of API servers' answers.", *("verb", "host")),
    _histogram(
        "rest_client_rate_limiter_duration_seconds",
        _REQUEST,
        "How long requests to API servers were held back here.",
        *("verb", "host"),
    ),
)

DEVICES: Final = (
    _counter("kubelet_device_plugin_registration_total", "Device plug-ins that registered.", "resource_name"),
    _histogram(
        "kubelet_device_plugin_alloc_duration_seconds", _USUAL, "How long plug-ins took to allocate.", "resource_name"
    ),
    _counter("kubelet_pod_resources_endpoint_requests_total", "Questions for pod resources.", "server_api_version"),
    *(
        _counter(f"kubelet_pod_resources_endpoint_{what}_{method}", f"{words} {method}.", "server_api_version")
        for what, words in (("requests", "Of those,"), ("errors", "Of those, what could not be answered:"))
        for method in ("list", "get", "get_allocatable")
    ),
)

_BUILD_LABELS: Final = (
    *("major", "minor", "git_version", "git_commit", "git_tree_state", "build_date", "go_version", "compiler"),
    "platform",
)

METRICS: Final = (
    *PODS,
    *RUNTIME,
    *MACHINE,
    *VOLUMES,
    *CLAIMS,
    *DEVICES,
    *AUTH,
    *HTTP,
    _gauge("kubernetes_build_info", "Which program this is; the value is always 1.", *_BUILD_LABELS),
)
"""Of `/metrics`, besides those of the process."""

PROBES: Final = (
    _counter(
        "prober_probe_total",
        "Probes, by result.",
        *("probe_type", "result", "container", "pod", "namespace", "pod_uid"),
    ),
    _histogram(
        "prober_probe_duration_seconds",
        _USUAL,
        "How long probes took.",
        *("probe_type", "container", "pod", "namespace"),
    ),
)
"""Of `/metrics/probes`."""

SLIS: Final = (
    _gauge("kubernetes_healthcheck", "1: the check passed when it was last made.", *("name", "type")),
    _counter("kubernetes_healthchecks_total", "Checks that were made, by result.", *("name", "type", "status")),
)
"""Of `/metrics/slis`."""
