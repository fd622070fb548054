"""Everything that the agent is told: the rooms' own Settings, made from file and flags by the table of options.

Names and defaults are upstream's, so that a node's existing file works as it is.
"""

import logging
import os
import re
import socket
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

from msgspec import Struct, structs

from pykubelet.api.quantity import Quantity
from pykubelet.api.rules.resources import CPU
from pykubelet.api.scheduling import Taint
from pykubelet.api.validation.names import dns_subdomain
from pykubelet.api.validation.options import PodValidationOptions
from pykubelet.base.errors import Invalid
from pykubelet.base.log import LogSettings
from pykubelet.config import feature_gates
from pykubelet.config.configz import configz
from pykubelet.config.options import EVICTION_HARD, OPTIONS
from pykubelet.config.pinning import pinning_settings
from pykubelet.config.validation import SOFT_EVICTION, faults
from pykubelet.config.values import cpu_set, setting
from pykubelet.host.cgroups import CgroupSettings
from pykubelet.host.credential_providers import CredentialProviderSettings
from pykubelet.host.dns import HostDnsSettings
from pykubelet.host.prepare import MachineSettings
from pykubelet.kube.settings import ClientSettings
from pykubelet.node.images import ImagePullSettings
from pykubelet.node.log_rotation import RotationSettings
from pykubelet.pod.eviction.thresholds import EvictionSettings, parse_thresholds
from pykubelet.pod.images.image_gc import ImageGcSettings
from pykubelet.pod.lifecycle.crash_loop_backoff import RestartWaits
from pykubelet.pod.lifecycle.node_shutdown import ShutdownPeriod, shutdown_periods
from pykubelet.pod.lifecycle.pod_features import PodFeatures
from pykubelet.pod.node.node_object import KUBELET_VERSION, NodeSettings
from pykubelet.pod.pinning.settings import PinningSettings
from pykubelet.runtime.endpoints import EMBEDDED
from pykubelet.runtime.settings import RuntimeSettings
from pykubelet.server.settings import ServerSettings
from pykubelet.services.settings import ServiceSettings
from pykubelet.sources.settings import StaticPodSettings
from pykubelet.web.otlp import TracingSettings

log = logging.getLogger(__name__)

S = TypeVar("S", bound=Struct)

_UPSTREAMS_ROOT: Final = Path("/var/lib/kubelet")
_PRIVATE: Final = (
    "--kubeconfig",
    "--bootstrap-kubeconfig",
    "--image-credential-provider-config",
    "staticPodPath",
    "tlsCertFile",
    "tlsPrivateKeyFile",
)
_PROGRAMS: Final = tuple(Path(f"{place}/{name}") for place in ("", "/usr", "/usr/local") for name in ("bin", "sbin"))


UPSTREAMS_DEFAULTS: Final[Mapping[str, Any]] = {
    "--cert-dir": "/var/lib/kubelet/pki",
    "containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock",
    "evictionHard": {
        "imagefs.available": "15%",
        "imagefs.inodesFree": "5%",
        "memory.available": "100Mi",
        "nodefs.available": "10%",
        "nodefs.inodesFree": "5%",
    },
    "failSwapOn": True,
    "makeIPTablesUtilChains": True,
    "maxOpenFiles": 1_000_000,
    "oomScoreAdj": -999,
    "podLogsDir": "/var/log/pods",
    "serializeImagePulls": True,
}
"""Where an agent that is called `kubelet` does as upstream's, and not as suits a machine of one's own."""

_UNINITIALIZED: Final = Taint(key="node.cloudprovider.kubernetes.io/uninitialized", value="true", effect="NoSchedule")


class Config(Struct, frozen=True, kw_only=True):
    """Everything that the agent needs to know, checked."""

    root_dir: Path
    pod_logs_dir: Path
    node_ips: tuple[str, ...] = ()
    allowed_unsafe_sysctls: tuple[str, ...] = ()
    stop_pods_on_exit: bool = False
    refuse_unenforced: bool = False
    keep_secrets: bool = False
    """Whether secrets and tokens of pods may lie on this machine's disk."""
    record: str = ""
    """The file that all is written to which the agent is told and does; empty: none."""
    remove_pods: bool = False
    """Run none: an agent that clears away what others have left."""
    users_per_pod: int = 65536
    """Of a pod with a user namespace of its own."""
    user_namespaces: bool = True
    """Whether pods may have their own, where the runtime can do that."""
    image_volumes: bool = False
    """Whether the files of images may be volumes."""
    shutdown_periods: tuple[ShutdownPeriod, ...] = ()
    """How long pods have when the machine goes down; none: they are not ended before it."""
    shutdown_on_term: bool = False
    """SIGTERM means that, not systemd's word."""
    pod_cidr: str = ""
    """What the runtime is told without an API server."""
    resync_period: float = 60.0
    volume_stats_period: float = 60.0
    watchdog: bool = True
    """Whether the service manager is told again and again that the agent is well, if it wants that."""
    machine: MachineSettings
    restart_waits: RestartWaits
    features: PodFeatures = PodFeatures()
    logging: LogSettings = LogSettings()
    feature_gates: Mapping[str, bool] = {}
    """All of upstream's, and whether each is on."""
    static_pods: StaticPodSettings
    client: ClientSettings
    node: NodeSettings
    runtime: RuntimeSettings
    log_rotation: RotationSettings
    image_pulls: ImagePullSettings
    image_gc: ImageGcSettings
    credential_providers: CredentialProviderSettings
    cgroups: CgroupSettings
    eviction: EvictionSettings
    pinning: PinningSettings
    dns: HostDnsSettings
    services: ServiceSettings = ServiceSettings()
    tracing: TracingSettings = TracingSettings()
    server: ServerSettings
    configuration: Mapping[str, Any] = {}
    """The KubeletConfiguration in force, as a file would have it, for people who ask."""
    flags: Mapping[str, str] = {}
    """Those of the command line, but for secrets."""

    @property
    def socket(self) -> Path:
        """Where the agent answers the people of its own machine."""
        return self.root_dir / "pykubelet.sock"


def make_config(
    given: Mapping[str, Any],
    *,
    is_kubelet: bool = False,
    flags: Mapping[str, str] | None = None,
    version: str = "",
) -> Config:
    """From what file and flags give, by the options' keys, as an agent of our own or as one that is called kubelet.
    `flags` are for people who ask; a `version` that begins with a v is what the node says instead of ours. Raises
    Invalid."""
    values = {option.key: option.default for option in OPTIONS}
    if is_kubelet:
        values.update(UPSTREAMS_DEFAULTS)
    assert given.keys() <= values.keys(), given.keys() - values.keys()
    values.update(given)
    _default_by_others(values, given)
    node_name = _node_name(values["--hostname-override"])
    read = {
        option.key: setting(option, values[option.key])
        for option in OPTIONS
        if values[option.key] is not None  # then the room has a default of its own
    }
    made = {path: read[option.key] for option in OPTIONS if option.key in read for path in option.settings}
    if wrong := list(faults(values, made["feature_gates"])):
        raise Invalid("; ".join(wrong))
    root = Path(values["--root-dir"] or default_root_dir()).absolute()
    logs = Path(values["podLogsDir"] or _default_logs(root, values["containerRuntimeEndpoint"])).absolute()
    certificates = Path(values["--cert-dir"] or root / "pki").absolute()
    made |= {"root_dir": root, "pod_logs_dir": logs, "flags": flags or {}}
    made |= {f"{room}.node_name": node_name for room in ("client", "server.tls")} | {"node.name": node_name}
    made |= {f"{room}.cert_dir": certificates for room in ("client", "server.tls")}
    made |= {"runtime.root": root / "runtime", "runtime.log_root": logs}
    made["runtime.hidden"] = (root, logs, certificates, *_private(values))
    if cpus := cpu_set("reservedSystemCPUs", values["reservedSystemCPUs"]):
        made["node.reserved_cpus"] = cpus
        made["node.system_reserved"] = {**made["node.system_reserved"], CPU: Quantity.of(len(cpus))}
        made["node.kube_reserved"] = {name: each for name, each in made["node.kube_reserved"].items() if name != CPU}
    if values["--cloud-provider"] == "external":
        made["node.taints"] = (*made["node.taints"], _UNINITIALIZED)
    if version.startswith("v"):
        made["node.kubelet_version"] = _reported(version)
    gates = made["feature_gates"]
    made |= {path: gates[name] for name, path in feature_gates.SWITCHES.items() if path}
    made |= _restart_waits(gates, read.get("crashLoopBackOff.maxContainerRestartPeriod"))
    made["shutdown_periods"] = shutdown_periods(
        read["shutdownGracePeriod"],
        read["shutdownGracePeriodCriticalPods"],
        values["shutdownGracePeriodByPodPriority"] if gates["GracefulNodeShutdownBasedOnPodPriority"] else (),
    )
    made["machine.limited_swap"] = values["memorySwap.swapBehavior"] == "LimitedSwap"
    made["machine.kernel"] = "check" if values["protectKernelDefaults"] else "set" if is_kubelet else "leave"
    rules = PodValidationOptions(container_restart_rules=gates["ContainerRestartRules"])
    made |= {"logging": log_settings(values), "static_pods.lenient": is_kubelet, "static_pods.validation": rules}
    made |= _thresholds(values) | pinning_settings(values, gates)
    if not values["tlsCertFile"] and not values["serverTLSBootstrap"]:  # then one is made there
        values |= {"tlsCertFile": f"{certificates}/kubelet.crt", "tlsPrivateKeyFile": f"{certificates}/kubelet.key"}
    made["configuration"] = configz({**values, "podLogsDir": str(logs)})
    return _built(Config, made)


def log_settings(given: Mapping[str, Any]) -> LogSettings:
    """From what file and flags give, by the names of the KubeletConfiguration."""
    return LogSettings(
        given.get("logging.verbosity") or 0,
        "json" if given.get("logging.format") == "json" else "text",
        {each["filePattern"]: each["verbosity"] for each in given.get("logging.vmodule") or ()},
    )


def _restart_waits(gates: Mapping[str, bool], longest: float | None) -> dict[str, float]:
    waits = RestartWaits(first=1.0, longest=60.0) if gates["ReduceDefaultCrashLoopBackOffDecay"] else RestartWaits()
    if gates["KubeletCrashLoopBackOffMax"] and longest is not None:
        waits = RestartWaits(first=min(waits.first, longest), longest=longest)
    return {"restart_waits.first": waits.first, "restart_waits.longest": waits.longest}


def _thresholds(values: Mapping[str, Any]) -> dict[str, Any]:
    """Upstream's flag for giving pods what has to stay free also keeps all of them together from being watched."""
    hard, (soft, graces, reclaims) = values["evictionHard"], (values[name] or {} for name in SOFT_EVICTION)
    for_pods = not values["--experimental-allocatable-ignore-eviction"]
    is_enforced = for_pods and "pods" in values["enforceNodeAllocatable"]
    return {
        "eviction.thresholds": parse_thresholds(hard, soft, graces, reclaims, for_allocatable=is_enforced),
        "node.thresholds": parse_thresholds(hard, {}, {}, {}, for_allocatable=False) if for_pods else (),
    }


def eviction_hard(*, is_kubelet: bool) -> Mapping[str, str]:
    """The default, which a file may add to."""
    return UPSTREAMS_DEFAULTS["evictionHard"] if is_kubelet else EVICTION_HARD


def _reported(version: str) -> str:
    base = KUBELET_VERSION.partition("+")[0]
    if re.fullmatch(rf"{re.escape(base)}([-+][0-9A-Za-z.+-]+)?", version) is None:
        raise Invalid(f"--version: a version to report must begin with {base}, got {version!r}")
    return version


def tell_what_is_in_vain(given: Mapping[str, Any]) -> None:
    """Say in the log what has no effect of all that was given."""
    for option in OPTIONS:
        if option.vain and option.key in given and (not option.field or given[option.key] != option.default):
            log.warning("%s has no effect: %s", option.key, option.vain)
    feature_gates.tell(given.get("featureGates", {}))


def _default_by_others(values: dict[str, Any], given: Mapping[str, Any]) -> None:
    """The defaults that depend on what else is said."""
    if "serializeImagePulls" not in given and (values["maxParallelImagePulls"] or 0) > 1:
        values["serializeImagePulls"] = False
    values["podPidsLimit"] = max(values["podPidsLimit"], -1)


def _private(values: Mapping[str, Any]) -> Iterator[Path]:
    """Where else the agent was told of credentials, and of pods with theirs."""
    for key in _PRIVATE:
        if values[key]:
            yield Path(values[key]).absolute()
    plug_ins = values["--image-credential-provider-bin-dir"]
    if plug_ins and Path(plug_ins).absolute() not in _PROGRAMS:
        yield Path(plug_ins).absolute()


def default_root_dir() -> Path:
    """Upstream's folder for root; for an ordinary user one of their own."""
    if os.geteuid() == 0:
        return _UPSTREAMS_ROOT
    return Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local/share") / "kubelet"


def _default_logs(root: Path, endpoint: str) -> Path:
    """Upstream's folder, wherever the state is. Beside the state for an ordinary user, who may not write there, and for
    an embedded runtime with a state of its own: it must not clear away the logs of a node on the same machine."""
    is_apart = root != _UPSTREAMS_ROOT and endpoint.partition("://")[0] in ("", EMBEDDED)
    return root / "logs" if is_apart or os.geteuid() != 0 else Path("/var/log/pods")


def _node_name(wanted: str) -> str:
    name = (wanted or socket.gethostname()).strip().lower()
    if problem := next(iter(dns_subdomain(name)), None):
        raise Invalid(f"the node name {name!r} cannot be used: {problem}; choose one with --hostname-override")
    return name


def _built(kind: type[S], values: Mapping[str, Any], prefix: str = "") -> S:
    """The Settings with what is in them, from values by their paths; what has none keeps the room's own default."""
    made: dict[str, Any] = {}
    for field in structs.fields(kind):
        path = f"{prefix}{field.name}"
        if path in values:
            made[field.name] = values[path]
        elif isinstance(field.type, type) and issubclass(field.type, Struct):
            made[field.name] = _built(field.type, values, f"{path}.")
    return kind(**made)
