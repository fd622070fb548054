"""The Go kubelet's flags: which field of the configuration file each one overrides, and how its value is written.

A truth value may stand alone (`--register-node`) or be given with an equals sign (`--register-node=false`).
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

import click

from pykubelet.base.errors import Invalid

if TYPE_CHECKING:
    from pykubelet.api.scheduling import Taint
    from pykubelet.config.file import KubeletConfiguration

F = TypeVar("F", bound=Callable[..., Any])


def _pairs(flag: str, text: str) -> dict[str, str]:
    found = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, equals, value = part.partition("=")
        if not equals or not name:
            raise Invalid(f"--{flag}: write name=value, several separated by commas, not {part!r}")
        found[name.strip()] = value.strip()
    return found


def _taints(flag: str, text: str) -> "tuple[Taint, ...]":
    from pykubelet.api.scheduling import Taint  # who asks for help does not wait for it

    taints = []
    for part in filter(None, (part.strip() for part in text.split(","))):
        rest, colon, effect = part.rpartition(":")
        key, _, value = rest.partition("=")
        if not colon or not key or effect not in ("NoSchedule", "PreferNoSchedule", "NoExecute"):
            raise Invalid(f"--{flag}: write key=value:Effect, such as dedicated=db:NoSchedule, not {part!r}")
        taints.append(Taint(key=key, value=value, effect=effect))
    return tuple(taints)


def _list(_: str, text: str) -> tuple[str, ...]:
    return tuple(filter(None, (part.strip() for part in text.split(","))))


def _truth(flag: str, text: str) -> bool:
    """The spellings that Go takes."""
    if text in ("1", "t", "T", "TRUE", "true", "True"):
        return True
    if text in ("0", "f", "F", "FALSE", "false", "False"):
        return False
    raise Invalid(f"--{flag}: write true or false, not {text!r}")


def _text(_: str, text: str) -> str:
    return text


def _number(flag: str, text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise Invalid(f"--{flag}: {text!r} is not a whole number") from None


class Flag(NamedTuple):
    name: str
    field: str
    """A path in KubeletConfiguration."""
    read: Callable[[str, str], Any]
    metavar: str
    help: str


FLAGS: Final = (
    Flag("pod-manifest-path", "static_pod_path", _text, "PATH", "Manifest file, or folder of them, for static pods."),
    Flag("manifest-url", "static_pod_url", _text, "URL", "URL to run static pods from."),
    Flag(
        "file-check-frequency", "file_check_frequency", _text, "DURATION", "How often manifests are read again [20s]."
    ),
    Flag("http-check-frequency", "http_check_frequency", _text, "DURATION", "How often --manifest-url is asked [20s]."),
    Flag("container-runtime-endpoint", "container_runtime_endpoint", _text, "URL", "The runtime [the embedded one]."),
    Flag("runtime-request-timeout", "runtime_request_timeout", _text, "DURATION", "For calls to the runtime [2m]."),
    Flag("pod-logs-dir", "pod_logs_dir", _text, "PATH", "Where the containers' logs go."),
    Flag("container-log-max-size", "container_log_max_size", _text, "SIZE", "A log is rotated at this size [10Mi]."),
    Flag("container-log-max-files", "container_log_max_files", _number, "N", "Log files kept of a container [5]."),
    Flag("seccomp-default", "seccomp_default", _truth, "BOOL", "RuntimeDefault seccomp for everyone [false]."),
    Flag("cpu-cfs-quota", "cpu_cfs_quota", _truth, "BOOL", "Enforce CPU limits [true]."),
    Flag("cpu-cfs-quota-period", "cpu_cfs_quota_period", _text, "DURATION", "The period of CPU limits [100ms]."),
    Flag("serialize-image-pulls", "serialize_image_pulls", _truth, "BOOL", "Pull one image at a time [false]."),
    Flag("max-parallel-image-pulls", "max_parallel_image_pulls", _number, "N", "Images pulled at once [any number]."),
    Flag(
        "image-gc-high-threshold",
        "image_gc_high_threshold_percent",
        _number,
        "PERCENT",
        "Disk use that starts image GC [85].",
    ),
    Flag(
        "image-gc-low-threshold",
        "image_gc_low_threshold_percent",
        _number,
        "PERCENT",
        "Disk use that image GC stops at [80].",
    ),
    Flag("minimum-image-ttl-duration", "image_minimum_gc_age", _text, "DURATION", "Age at which an image may go [2m]."),
    Flag("cgroup-driver", "cgroup_driver", _text, "DRIVER", "cgroupfs or systemd [cgroupfs]."),
    Flag("cgroup-root", "cgroup_root", _text, "PATH", "Parent of all pods' control groups."),
    Flag("cgroups-per-qos", "cgroups_per_qos", _truth, "BOOL", "Control groups for QoS classes and pods [true]."),
    Flag(
        "enforce-node-allocatable",
        "enforce_node_allocatable",
        _list,
        "LIST",
        "What reservations bind: pods, none [pods].",
    ),
    Flag("kube-reserved", "kube_reserved", _pairs, "cpu=...,...", "Kept for the agent and the runtime."),
    Flag("system-reserved", "system_reserved", _pairs, "cpu=...,...", "Kept for the rest of the system."),
    Flag("pod-max-pids", "pod_pids_limit", _number, "N", "Processes that a pod may have [any number]."),
    Flag("cluster-dns", "cluster_dns", _list, "IP[,IP]", "Name servers of pods."),
    Flag("cluster-domain", "cluster_domain", _text, "DOMAIN", "Domain of the cluster's services."),
    Flag("resolv-conf", "resolv_conf", _text, "FILE", "Where pods' DNS settings come from [/etc/resolv.conf]."),
    Flag("max-pods", "max_pods", _number, "N", "How many pods may run here [110]."),
    Flag("register-node", "register_node", _truth, "BOOL", "Make the node object [true]."),
    Flag("register-with-taints", "register_with_taints", _taints, "K=V:EFFECT,...", "Taints of a new node."),
    Flag("provider-id", "provider_id", _text, "ID", "The machine's name with its cloud."),
    Flag(
        "node-status-update-frequency",
        "node_status_update_frequency",
        _text,
        "DURATION",
        "How often to look at the node [10s].",
    ),
    Flag("allowed-unsafe-sysctls", "allowed_unsafe_sysctls", _list, "LIST", "Sysctls allowed beside the safe ones."),
    Flag("enable-server", "enable_server", _truth, "BOOL", "Serve the kubelet's HTTP API [true]."),
    Flag("address", "address", _text, "IP", "Where to serve it [0.0.0.0]."),
    Flag("port", "port", _number, "PORT", "Where to serve it [10250]."),
    Flag("read-only-port", "read_only_port", _number, "PORT", "Serve without authentication; 0: never [0]."),
    Flag("healthz-bind-address", "healthz_bind_address", _text, "IP", "Where to serve /healthz [127.0.0.1]."),
    Flag("healthz-port", "healthz_port", _number, "PORT", "Where to serve /healthz; 0: never [10248]."),
    Flag("tls-cert-file", "tls_cert_file", _text, "FILE", "Serving certificate [one that is made]."),
    Flag("tls-private-key-file", "tls_private_key_file", _text, "FILE", "Its key."),
    Flag("tls-min-version", "tls_min_version", _text, "VERSION", "VersionTLS12 or VersionTLS13 [VersionTLS12]."),
    Flag("tls-cipher-suites", "tls_cipher_suites", _list, "LIST", "Ciphers of TLS 1.2 [the library's]."),
    Flag("rotate-certificates", "rotate_certificates", _truth, "BOOL", "Renew the client certificate [false]."),
    Flag(
        "rotate-server-certificates",
        "server_tls_bootstrap",
        _truth,
        "BOOL",
        "Have the API server issue the serving one [false].",
    ),
    Flag(
        "client-ca-file", "authentication.x509.client_ca_file", _text, "FILE", "Whose client certificates are trusted."
    ),
    Flag("anonymous-auth", "authentication.anonymous.enabled", _truth, "BOOL", "Let strangers ask [false]."),
    Flag(
        "authentication-token-webhook",
        "authentication.webhook.enabled",
        _truth,
        "BOOL",
        "Ask the API server who has a token [true].",
    ),
    Flag(
        "authentication-token-webhook-cache-ttl",
        "authentication.webhook.cache_ttl",
        _text,
        "DURATION",
        "For how long that holds [2m].",
    ),
    Flag("authorization-mode", "authorization.mode", _text, "MODE", "Webhook or AlwaysAllow [Webhook]."),
    Flag("enable-debugging-handlers", "enable_debugging_handlers", _truth, "BOOL", "Logs, exec and the like [true]."),
    Flag(
        "streaming-connection-idle-timeout",
        "streaming_connection_idle_timeout",
        _text,
        "DURATION",
        "An idle stream ends [4h].",
    ),
)


def options(command: F) -> F:
    """Give a command all the flags. Their values arrive as text, None when not given."""
    for flag in reversed(FLAGS):
        alone: dict[str, Any] = {"is_flag": False, "flag_value": "true"} if flag.read is _truth else {}
        option = click.option(f"--{flag.name}", _key(flag), metavar=flag.metavar, help=flag.help, **alone)
        command = option(command)
    return command


def overridden(configuration: "KubeletConfiguration", given: Mapping[str, str | None]) -> "KubeletConfiguration":
    """The configuration with what the flags say; `given` has their values by `options`' names. Raises Invalid."""
    for flag in FLAGS:
        text = given.get(_key(flag))
        if text is not None:
            configuration = _replaced(configuration, flag.field.split("."), flag.read(flag.name, text))
    return configuration


def names() -> tuple[str, ...]:
    return tuple(_key(flag) for flag in FLAGS)


def node_labels(text: str) -> dict[str, str]:
    return _pairs("node-labels", text)


def headers(flags: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    """`a:hello,b:again` -> headers, as `--manifest-url-header` takes them. Raises Invalid without showing a value."""
    found: dict[str, tuple[str, ...]] = {}
    for part in (part for flag in flags for part in flag.split(",") if part.strip()):
        name, colon, value = part.partition(":")
        if not colon or not name.strip():
            raise Invalid("--manifest-url-header: write name:value, several separated by commas")
        found[name.strip()] = (*found.get(name.strip(), ()), value.strip())
    return found


def _key(flag: Flag) -> str:
    return flag.name.replace("-", "_")


def _replaced(value: Any, path: list[str], new: Any) -> Any:
    from pykubelet.api.struct import changed

    first, *rest = path
    return changed(value, **{first: _replaced(getattr(value, first), rest, new) if rest else new})
