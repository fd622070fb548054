"""The flags and fields that are taken and checked, and have no effect: each says why, and people who set one are told.

They are here so that a node's existing file and command line work as they are, and so that nobody relies in vain on
what is not done.
"""

from typing import Any, Final

from pykubelet.config.option import Kind, Option

K = Kind


def _field(field: str, kind: Kind, default: Any, flag: str, why: str) -> Option:
    return Option(field, kind, default, (), flag, vain=why)


def _flag(flag: str, why: str, kind: Kind = K.TEXT, default: Any = "", *, is_old: bool = True) -> Option:
    return Option("", kind, default, (), flag, vain=why, is_old=is_old)


_QOS_MEMORY: Final = "memory is not throttled or kept back by QoS class"
_IPTABLES: Final = "kube-proxy owns the packet filter's marks; upstream's kubelet ignores it, too"
_BUFFERS: Final = "every line of the log is written at once, to standard error"
_CADVISOR: Final = "statistics are read when somebody asks, without cAdvisor"
_VERIFICATION: Final = "an image that is on the node is there for every pod of the node"
_DEAD: Final = "dead containers go with their pod or when a newer one has ended, as upstream's defaults have it"

# fmt: off
UNHEEDED: Final = (
    # memory by class of service
    _field("qosReserved", K.PAIRS, {}, "qos-reserved", _QOS_MEMORY),
    _field("memoryThrottlingFactor", K.FLOAT, 0.9, "", _QOS_MEMORY),
    # control groups that are not for pods
    _flag("runtime-cgroups", "the runtime stays in the group that it is in", is_old=False),
    # the network
    _field("hairpinMode", K.TEXT, "promiscuous-bridge", "hairpin-mode", "the runtime's CNI plug-ins decide it"),
    _field("iptablesMasqueradeBit", K.NUMBER, 14, "", _IPTABLES),
    _field("iptablesDropBit", K.NUMBER, 15, "", _IPTABLES),
    # images
    _field("imagePullCredentialsVerificationPolicy", K.TEXT, "", "", _VERIFICATION),
    _field("preloadedImagesVerificationAllowlist", K.LIST, (), "", _VERIFICATION),
    _flag("pod-infra-container-image", "the runtime says itself which image its sandboxes need, and that one stays"),
    # volumes
    _field("volumePluginDir", K.TEXT, "/usr/libexec/kubernetes/kubelet-plugins/volume/exec/", "volume-plugin-dir",
           "there are no FlexVolumes here"),
    _flag("experimental-mounter-path", "volumes are mounted by the kernel's own call"),
    # what is written about the agent
    _field("logging.flushFrequency", K.FLUSH_PERIOD, "5s", "log-flush-frequency", _BUFFERS),
    _field("logging.options.text.splitStream", K.SWITCH, False, "log-text-split-stream", _BUFFERS),
    _field("logging.options.text.infoBufferSize", K.QUANTITY, "0", "log-text-info-buffer-size", _BUFFERS),
    _field("logging.options.json.splitStream", K.SWITCH, False, "", _BUFFERS),
    _field("logging.options.json.infoBufferSize", K.QUANTITY, "0", "", _BUFFERS),
    _field("showHiddenMetricsForVersion", K.TEXT, "", "", "no metric is hidden here"),
    _field("enableContentionProfiling", K.SWITCH, False, "contention-profiling", "there are no locks to wait for"),
    # the way to the API server
    _field("contentType", K.TEXT, "application/vnd.kubernetes.protobuf", "kube-api-content-type",
           "objects travel as JSON"),
    # what upstream's kubelet is being rid of
    _field("runOnce", K.SWITCH, False, "runonce", "upstream has removed it"),
    _flag("minimum-container-ttl-duration", _DEAD, K.DURATION, "0s"),
    _flag("maximum-dead-containers-per-container", _DEAD, K.NUMBER, 1),
    _flag("maximum-dead-containers", _DEAD, K.NUMBER, -1),
    _flag("lock-file", "the agent has a lock of its own in --root-dir", is_old=False),
    _flag("exit-on-lock-contention", "the agent has a lock of its own in --root-dir", K.TRUTH, False, is_old=False),
    _flag("housekeeping-interval", _CADVISOR, K.DURATION, "10s", is_old=False),
    _flag("global-housekeeping-interval", _CADVISOR, K.DURATION, "1m"),
    _flag("application-metrics-count-limit", _CADVISOR, K.NUMBER, 100),
    _flag("boot-id-file", _CADVISOR, default="/proc/sys/kernel/random/boot_id"),
    _flag("container-hints", _CADVISOR, default="/etc/cadvisor/container_hints.json"),
    _flag("containerd", _CADVISOR, default="/run/containerd/containerd.sock"),
    _flag("containerd-namespace", _CADVISOR, default="k8s.io"),
    _flag("enable-load-reader", _CADVISOR, K.TRUTH, False),
    _flag("event-storage-age-limit", _CADVISOR, default="default=0"),
    _flag("event-storage-event-limit", _CADVISOR, default="default=0"),
    _flag("log-cadvisor-usage", _CADVISOR, K.TRUTH, False),
    _flag("machine-id-file", _CADVISOR, default="/etc/machine-id,/var/lib/dbus/machine-id"),
    _flag("storage-driver-buffer-duration", _CADVISOR, K.DURATION, "1m"),
    _flag("storage-driver-db", _CADVISOR, default="cadvisor"),
    _flag("storage-driver-host", _CADVISOR, default="localhost:8086"),
    _flag("storage-driver-password", _CADVISOR, default="root"),
    _flag("storage-driver-secure", _CADVISOR, K.TRUTH, False),
    _flag("storage-driver-table", _CADVISOR, default="stats"),
    _flag("storage-driver-user", _CADVISOR, default="root"),
)
# fmt: on
