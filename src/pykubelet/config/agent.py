"""Everything that the agent is told: the rooms' own Settings, made from file and flags by the table of options.

Names and defaults are upstream's, so that a node's existing file works as it is.
"""

import os
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

from msgspec import Struct, structs

from pykubelet.api.validation.names import dns_subdomain
from pykubelet.base.errors import Invalid
from pykubelet.config.kubelet_configuration import nested
from pykubelet.config.options import OPTIONS
from pykubelet.config.validation import faults
from pykubelet.config.values import setting
from pykubelet.host.cgroups import CgroupSettings
from pykubelet.host.credential_providers import CredentialProviderSettings
from pykubelet.host.dns import HostDnsSettings
from pykubelet.kube.settings import ClientSettings
from pykubelet.node.images import ImagePullSettings
from pykubelet.node.log_rotation import RotationSettings
from pykubelet.pod.images.image_gc import ImageGcSettings
from pykubelet.pod.node.node_object import NodeSettings
from pykubelet.runtime.settings import RuntimeSettings
from pykubelet.server.settings import ServerSettings
from pykubelet.sources.settings import StaticPodSettings

S = TypeVar("S", bound=Struct)

_UPSTREAMS_ROOT: Final = Path("/var/lib/kubelet")


class Config(Struct, frozen=True, kw_only=True):
    """Everything that the agent needs to know, checked."""

    root_dir: Path
    pod_logs_dir: Path
    node_ips: tuple[str, ...] = ()
    allowed_unsafe_sysctls: tuple[str, ...] = ()
    stop_pods_on_exit: bool = False
    static_pods: StaticPodSettings
    client: ClientSettings
    node: NodeSettings
    runtime: RuntimeSettings
    log_rotation: RotationSettings
    image_pulls: ImagePullSettings
    image_gc: ImageGcSettings
    credential_providers: CredentialProviderSettings
    cgroups: CgroupSettings
    dns: HostDnsSettings
    server: ServerSettings
    configuration: Mapping[str, Any] = {}
    """The KubeletConfiguration in force, as a file would have it, for people who ask."""
    flags: Mapping[str, str] = {}
    """Those of the command line, but for secrets."""

    @property
    def socket(self) -> Path:
        """Where the agent answers the people of its own machine."""
        return self.root_dir / "pykubelet.sock"


def make_config(given: Mapping[str, Any], *, flags: Mapping[str, str] | None = None) -> Config:
    """From what file and flags give, by the options' keys. `flags` are for people who ask. Raises Invalid."""
    values = {option.key: option.default for option in OPTIONS}
    assert given.keys() <= values.keys(), given.keys() - values.keys()
    values.update(given)
    node_name = _node_name(values["--hostname-override"])
    for fault in faults(values):
        raise Invalid(fault)
    made = {path: setting(option, values[option.key]) for option in OPTIONS for path in option.settings}
    period = made["runtime.cpu_cfs_quota_period"]
    if not 0.001 <= period <= 1.0:
        raise Invalid(f"cpuCFSQuotaPeriod: must be from 1ms to 1s, got {values['cpuCFSQuotaPeriod']}")
    root = Path(values["--root-dir"] or default_root_dir()).absolute()
    logs = Path(values["podLogsDir"] or _default_logs(root)).absolute()
    certificates = Path(values["--cert-dir"] or root / "pki").absolute()
    made |= {"root_dir": root, "pod_logs_dir": logs, "flags": flags or {}}
    made |= {f"{room}.node_name": node_name for room in ("client", "server.tls")} | {"node.name": node_name}
    made |= {f"{room}.cert_dir": certificates for room in ("client", "server.tls")}
    made |= {"runtime.root": root / "runtime", "runtime.log_root": logs, "runtime.hidden": (root, logs)}
    fields = {option.field: values[option.key] for option in OPTIONS if option.field}
    made["configuration"] = nested({field: value for field, value in fields.items() if value is not None})
    return _built(Config, made)


def default_root_dir() -> Path:
    """Upstream's folder for root; for an ordinary user one of their own."""
    if os.geteuid() == 0:
        return _UPSTREAMS_ROOT
    return Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local/share") / "kubelet"


def _default_logs(root: Path) -> Path:
    """Upstream's folder, when the agent keeps its state where upstream does; else beside the state."""
    return Path("/var/log/pods") if root == _UPSTREAMS_ROOT else root / "logs"


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
