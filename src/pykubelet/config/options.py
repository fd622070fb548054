"""The table of options: one row for each, with the field of the KubeletConfiguration and the flag that it comes from,
how it is written, and the place in `Config` that it goes to.

A new option is a field in the Settings of the room that heeds it, and a row here. Pure data, and quick to load: who
asks for help does not wait for more.
"""

from enum import Enum, auto
from typing import Any, Final, NamedTuple


class Kind(Enum):
    """How a value is written in a file and in a flag, and what is made of it (`flags`, `kubelet_configuration`,
    `values`)."""

    TEXT = auto()
    TRUTH = auto()
    NUMBER = auto()
    LONG = auto()
    """A number of 64 bits."""
    PERIOD = auto()
    """A duration where zero means "not set", and so the default."""
    DURATION = auto()
    SIZE = auto()
    """A quantity of bytes."""
    ADDRESS = auto()
    LIST = auto()
    ADDRESSES = auto()
    PAIRS = auto()
    RESOURCES = auto()
    """Quantities of resources that can be kept back."""
    HEADERS = auto()
    TAINTS = auto()


class Option(NamedTuple):
    field: str
    """Its path in the KubeletConfiguration, in upstream's spelling; empty for what can only be a flag."""
    kind: Kind
    default: Any
    """As a file would say it."""
    settings: tuple[str, ...]
    """Paths in `Config`, mostly one. None for what `config.agent` makes others of."""
    flag: str = ""
    metavar: str = ""
    help: str = ""
    shown: str = ""
    """What people are told to be the default, when that is not the value itself."""
    secret: bool = False
    """Nobody is told what the flag was."""

    @property
    def key(self) -> str:
        """Under which a given value goes, and by which it is named to people."""
        return self.field or f"--{self.flag}"

    @property
    def told(self) -> str:
        """The default, as people are told."""
        match self.default:
            case bool():
                return str(self.default).lower()
            case int() | str() if not self.shown:
                return str(self.default)
        return self.shown


K = Kind
_MANY: Final = "any number"

# fmt: off
OPTIONS: Final = (
    # what a file cannot say
    Option("", K.TEXT, "", ("client.kubeconfig",), "kubeconfig", "FILE",
           "How to reach the API server; without it, there is none"),
    Option("", K.TEXT, "", ("client.bootstrap_kubeconfig",), "bootstrap-kubeconfig", "FILE",
           "How to get the first --kubeconfig"),
    Option("", K.TEXT, "", (), "hostname-override", "NAME", "Name of this node", "the host's name"),
    Option("", K.LIST, (), ("node_ips",), "node-ip", "IP[,IP]", "Address of this node", "found by the default route"),
    Option("", K.PAIRS, {}, ("node.labels",), "node-labels", "K=V,...", "Labels of a new node"),
    Option("", K.TEXT, "", (), "root-dir", "PATH", "Where the agent keeps its state",
           "/var/lib/kubelet; ~/.local/share/kubelet for an ordinary user"),
    Option("", K.TEXT, "", (), "cert-dir", "PATH", "Where its certificates are", "ROOT/pki"),
    Option("", K.TEXT, "", ("credential_providers.config",), "image-credential-provider-config", "PATH",
           "Plug-ins that log in to registries"),
    Option("", K.TEXT, "", ("credential_providers.bin_dir",), "image-credential-provider-bin-dir", "PATH",
           "Where these plug-ins are"),
    Option("", K.TRUTH, False, ("stop_pods_on_exit",), "stop-pods-on-exit", "BOOL",
           "Stop all pods when the agent is told to stop"),
    # where pods come from
    Option("staticPodPath", K.TEXT, "", ("static_pods.path",), "pod-manifest-path", "PATH",
           "Manifest file, or folder of them, for static pods"),
    Option("staticPodURL", K.TEXT, "", ("static_pods.url",), "manifest-url", "URL", "URL to run static pods from"),
    Option("staticPodURLHeader", K.HEADERS, {}, ("static_pods.url_header",), "manifest-url-header", "NAME:VALUE",
           "Header for --manifest-url, never logged; repeatable", secret=True),
    Option("fileCheckFrequency", K.PERIOD, "20s", ("static_pods.file_check_period",), "file-check-frequency", "",
           "How often manifests are read again"),
    Option("httpCheckFrequency", K.PERIOD, "20s", ("static_pods.http_check_period",), "http-check-frequency", "",
           "How often --manifest-url is asked"),
    # the runtime
    Option("containerRuntimeEndpoint", K.TEXT, "", ("runtime.endpoint",), "container-runtime-endpoint", "URL",
           "The runtime", "the embedded one"),
    Option("runtimeRequestTimeout", K.PERIOD, "2m", ("runtime.request_timeout",), "runtime-request-timeout", "",
           "For calls to the runtime"),
    Option("podLogsDir", K.TEXT, "", (), "pod-logs-dir", "PATH", "Where the containers' logs go",
           "/var/log/pods; beside the state where that is not upstream's"),
    Option("containerLogMaxSize", K.SIZE, "10Mi", ("runtime.log_max_size", "log_rotation.max_size"),
           "container-log-max-size", "", "A log is rotated at this size"),
    Option("containerLogMaxFiles", K.NUMBER, 5, ("runtime.log_max_files", "log_rotation.max_files"),
           "container-log-max-files", "", "Log files kept of a container"),
    Option("containerLogMonitorInterval", K.PERIOD, "10s", ("log_rotation.period",),
           help="How often logs are looked at"),
    Option("seccompDefault", K.TRUTH, False, ("runtime.seccomp_default",), "seccomp-default", "",
           "RuntimeDefault seccomp for everyone"),
    Option("cpuCFSQuota", K.TRUTH, True, ("runtime.cpu_cfs_quota", "cgroups.cpu_cfs_quota"), "cpu-cfs-quota", "",
           "Enforce CPU limits"),
    Option("cpuCFSQuotaPeriod", K.PERIOD, "100ms", ("runtime.cpu_cfs_quota_period", "cgroups.cpu_cfs_quota_period"),
           "cpu-cfs-quota-period", "", "The period of CPU limits"),
    # images
    Option("serializeImagePulls", K.TRUTH, False, ("image_pulls.serialize",), "serialize-image-pulls", "",
           "Pull one image at a time"),
    Option("maxParallelImagePulls", K.NUMBER, None, ("image_pulls.max_parallel",), "max-parallel-image-pulls", "",
           "Images pulled at once", _MANY),
    Option("imageGCHighThresholdPercent", K.NUMBER, 85, ("image_gc.high",), "image-gc-high-threshold", "PERCENT",
           "Disk use that starts image GC"),
    Option("imageGCLowThresholdPercent", K.NUMBER, 80, ("image_gc.low",), "image-gc-low-threshold", "PERCENT",
           "Disk use that image GC stops at"),
    Option("imageMinimumGCAge", K.DURATION, "2m", ("image_gc.minimum_age",), "minimum-image-ttl-duration", "",
           "Age at which an image may go"),
    Option("imageMaximumGCAge", K.DURATION, "0s", ("image_gc.maximum_age",),
           help="Age at which an unused image goes; 0s: never for its age alone"),
    # control groups
    Option("cgroupDriver", K.TEXT, "cgroupfs", ("cgroups.driver",), "cgroup-driver", "DRIVER", "cgroupfs or systemd"),
    Option("cgroupRoot", K.TEXT, "", ("cgroups.cgroup_root",), "cgroup-root", "PATH",
           "Parent of all pods' control groups"),
    Option("cgroupsPerQOS", K.TRUTH, True, ("cgroups.cgroups_per_qos",), "cgroups-per-qos", "",
           "Control groups for QoS classes and pods"),
    Option("enforceNodeAllocatable", K.LIST, ("pods",), ("cgroups.enforce_node_allocatable",),
           "enforce-node-allocatable", "", "What reservations bind: pods, none", "pods"),
    Option("kubeReserved", K.RESOURCES, {}, ("node.kube_reserved",), "kube-reserved", "",
           "Kept for the agent and the runtime"),
    Option("systemReserved", K.RESOURCES, {}, ("node.system_reserved",), "system-reserved", "",
           "Kept for the rest of the system"),
    Option("podPidsLimit", K.LONG, -1, ("cgroups.pod_pids_limit",), "pod-max-pids", "",
           "Processes that a pod may have", _MANY),
    # names
    Option("clusterDNS", K.ADDRESSES, (), ("dns.cluster_servers",), "cluster-dns", "", "Name servers of pods"),
    Option("clusterDomain", K.TEXT, "", ("dns.cluster_domain",), "cluster-domain", "DOMAIN",
           "Domain of the cluster's services"),
    Option("resolvConf", K.TEXT, "/etc/resolv.conf", ("dns.resolv_conf",), "resolv-conf", "FILE",
           "Where pods' DNS settings come from"),
    # the node
    Option("maxPods", K.NUMBER, 110, ("node.max_pods",), "max-pods", "", "How many pods may run here"),
    Option("registerNode", K.TRUTH, True, ("node.register",), "register-node", "", "Make the node object"),
    Option("registerWithTaints", K.TAINTS, (), ("node.taints",), "register-with-taints", "", "Taints of a new node"),
    Option("providerID", K.TEXT, "", ("node.provider_id",), "provider-id", "ID", "The machine's name with its cloud"),
    Option("nodeStatusUpdateFrequency", K.PERIOD, "10s", ("node.update_period",), "node-status-update-frequency", "",
           "How often to look at the node"),
    Option("nodeStatusReportFrequency", K.PERIOD, "5m", ("node.report_period",),
           help="How often a node is reported about which nothing has changed"),
    Option("nodeLeaseDurationSeconds", K.NUMBER, 40, ("node.lease_seconds",), help="For how long a lease holds"),
    Option("allowedUnsafeSysctls", K.LIST, (), ("allowed_unsafe_sysctls",), "allowed-unsafe-sysctls", "",
           "Sysctls allowed beside the safe ones"),
    Option("configMapAndSecretChangeDetectionStrategy", K.TEXT, "Watch", ("client.change_detection",),
           help="How changes of config maps and secrets are noticed: Watch, Cache or Get"),
    # its own HTTP API
    Option("enableServer", K.TRUTH, True, ("server.enabled",), "enable-server", "", "Serve the kubelet's HTTP API"),
    Option("address", K.ADDRESS, "0.0.0.0", ("server.address",), "address", "", "Where to serve it"),  # noqa: S104
    Option("port", K.NUMBER, 10250, ("server.port", "node.port"), "port", "PORT", "Where to serve it"),
    Option("readOnlyPort", K.NUMBER, 0, ("server.read_only_port",), "read-only-port", "PORT",
           "Serve without authentication; 0: never"),
    Option("healthzBindAddress", K.ADDRESS, "127.0.0.1", ("server.healthz_address",), "healthz-bind-address", "",
           "Where to serve /healthz"),
    Option("healthzPort", K.NUMBER, 10248, ("server.healthz_port",), "healthz-port", "PORT",
           "Where to serve /healthz; 0: never"),
    Option("tlsCertFile", K.TEXT, "", ("server.tls.cert_file",), "tls-cert-file", "FILE", "Serving certificate",
           "one that is made"),
    Option("tlsPrivateKeyFile", K.TEXT, "", ("server.tls.key_file",), "tls-private-key-file", "FILE", "Its key"),
    Option("tlsMinVersion", K.TEXT, "", ("server.tls.min_version",), "tls-min-version", "VERSION",
           "VersionTLS12 or VersionTLS13", "VersionTLS12"),
    Option("tlsCipherSuites", K.LIST, (), ("server.tls.cipher_suites",), "tls-cipher-suites", "",
           "Ciphers of TLS 1.2", "the library's"),
    Option("rotateCertificates", K.TRUTH, False, ("client.rotate_certificates",), "rotate-certificates", "",
           "Renew the client certificate"),
    Option("serverTLSBootstrap", K.TRUTH, False, ("server.tls.issued",), "rotate-server-certificates", "",
           "Have the API server issue the serving one"),
    Option("authentication.x509.clientCAFile", K.TEXT, "", ("server.tls.client_ca_file",), "client-ca-file", "FILE",
           "Whose client certificates are trusted"),
    Option("authentication.anonymous.enabled", K.TRUTH, False, ("server.auth.anonymous",), "anonymous-auth", "",
           "Let strangers ask"),
    Option("authentication.webhook.enabled", K.TRUTH, True, ("server.auth.token_webhook",),
           "authentication-token-webhook", "", "Ask the API server who has a token"),
    Option("authentication.webhook.cacheTTL", K.DURATION, "2m", ("server.auth.token_ttl",),
           "authentication-token-webhook-cache-ttl", "", "For how long that holds"),
    Option("authorization.mode", K.TEXT, "Webhook", ("server.auth.authorization",), "authorization-mode", "MODE",
           "Webhook or AlwaysAllow"),
    Option("authorization.webhook.cacheAuthorizedTTL", K.DURATION, "5m", ("server.auth.allowed_ttl",),
           help="For how long a yes holds"),
    Option("authorization.webhook.cacheUnauthorizedTTL", K.DURATION, "30s", ("server.auth.denied_ttl",),
           help="For how long a no holds"),
    Option("enableDebuggingHandlers", K.TRUTH, True, ("server.debugging",), "enable-debugging-handlers", "",
           "Logs, exec and the like"),
    Option("enableSystemLogHandler", K.TRUTH, True, ("server.system_logs",), help="Serve /logs"),
    Option("enableProfilingHandler", K.TRUTH, True, ("server.profiling",), help="Serve /debug/pprof"),
    Option("streamingConnectionIdleTimeout", K.PERIOD, "4h", ("server.stream_idle",),
           "streaming-connection-idle-timeout", "", "An idle stream ends"),
)
# fmt: on

_UNUSED: Final = """
    containerLogMaxWorkers contentType cpuManagerPolicy
    cpuManagerPolicyOptions cpuManagerReconcilePeriod crashLoopBackOff.maxContainerRestartPeriod
    enableContentionProfiling enableControllerAttachDetach enableDebugFlagsHandler enableSystemLogQuery eventBurst
    eventRecordQPS evictionHard evictionMaxPodGracePeriod evictionMinimumReclaim evictionPressureTransitionPeriod
    evictionSoft evictionSoftGracePeriod failCgroupV1 failSwapOn featureGates hairpinMode
    imagePullCredentialsVerificationPolicy imageServiceEndpoint iptablesDropBit iptablesMasqueradeBit
    kernelMemcgNotification kubeAPIBurst kubeAPIQPS kubeReservedCgroup kubeletCgroups localStorageCapacityIsolation
    logging.flushFrequency logging.format logging.options.json logging.options.text logging.verbosity logging.vmodule
    makeIPTablesUtilChains maxOpenFiles memoryManagerPolicy memorySwap.swapBehavior memoryThrottlingFactor
    mergeDefaultEvictionSettings nodeStatusMaxImages oomScoreAdj podCIDR podsPerCore
    preloadedImagesVerificationAllowlist protectKernelDefaults qosReserved registryBurst registryPullQPS
    reservedMemory.limits reservedMemory.numaNode reservedSystemCPUs runOnce showHiddenMetricsForVersion
    shutdownGracePeriod shutdownGracePeriodByPodPriority.priority
    shutdownGracePeriodByPodPriority.shutdownGracePeriodSeconds shutdownGracePeriodCriticalPods singleProcessOOMKill
    syncFrequency systemCgroups systemReservedCgroup topologyManagerPolicy topologyManagerPolicyOptions
    topologyManagerScope tracing.endpoint tracing.samplingRatePerMillion userNamespaces.idsPerPod volumePluginDir
    volumeStatsAggPeriod
"""
UNUSED: Final = frozenset(_UNUSED.split())
"""Fields of upstream's KubeletConfiguration (1.34) that have no row yet: to set one is no typing error, but in vain."""
