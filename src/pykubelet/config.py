"""What the agent is told to do: the kubelet's own configuration file and flags, checked and turned into one value.

Names and defaults are upstream's, so that a node's existing file works as it is.
"""

import logging
import os
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

from pykubelet.api import codec
from pykubelet.api.codec import DecodeError
from pykubelet.api.documents import Document, DocumentError, read_documents
from pykubelet.api.durations import parse_duration
from pykubelet.api.scheduling import Taint
from pykubelet.api.struct import Int32, Struct
from pykubelet.api.validation.names import dns_subdomain
from pykubelet.base.errors import Invalid
from pykubelet.config_fields import given_fields, unknown_fields
from pykubelet.pod.sysctls import Sysctls

log = logging.getLogger(__name__)

API_VERSION: Final = "kubelet.config.k8s.io/v1beta1"
KIND: Final = "KubeletConfiguration"


class KubeletConfiguration(Struct, frozen=True):
    """The part of upstream's file that this version acts on."""

    api_version: str = ""
    kind: str = ""
    static_pod_path: str = ""
    static_pod_url: str = ""
    static_pod_url_header: Mapping[str, tuple[str, ...]] = {}
    file_check_frequency: str = "20s"
    http_check_frequency: str = "20s"
    container_runtime_endpoint: str = ""
    pod_logs_dir: str = ""
    max_pods: Int32 = 110
    register_node: bool = True
    register_with_taints: tuple[Taint, ...] = ()
    allowed_unsafe_sysctls: tuple[str, ...] = ()


class Config(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that the agent needs to know, checked."""

    node_name: str
    root_dir: Path
    pod_logs_dir: Path
    node_ips: tuple[str, ...] = ()
    kubeconfig: str = ""
    static_pod_path: str = ""
    static_pod_url: str = ""
    static_pod_url_header: Mapping[str, tuple[str, ...]] = {}
    file_check_frequency: float = 20.0
    http_check_frequency: float = 20.0
    container_runtime_endpoint: str = ""
    max_pods: int = 110
    register_node: bool = True
    register_with_taints: tuple[Taint, ...] = ()
    allowed_unsafe_sysctls: tuple[str, ...] = ()
    stop_pods_on_exit: bool = False

    @property
    def socket(self) -> Path:
        """Where the agent answers the people of its own machine."""
        return self.root_dir / "pykubelet.sock"


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
    used = set(KubeletConfiguration.__struct_encode_fields__)
    for field in given_fields(document.value):
        if field not in used:
            log.warning("%s: %s is not used by this version and has no effect", path, field)
    return configuration


def make_config(
    configuration: KubeletConfiguration,
    *,
    hostname_override: str = "",
    kubeconfig: str = "",
    root_dir: str = "",
    node_ip: str = "",
    stop_pods_on_exit: bool = False,
) -> Config:
    """Put file and flags together. Raises Invalid."""
    node_name = (hostname_override or socket.gethostname()).strip().lower()
    if problem := next(iter(dns_subdomain(node_name)), None):
        raise Invalid(f"the node name {node_name!r} cannot be used: {problem}; choose one with --hostname-override")
    root = Path(root_dir) if root_dir else default_root_dir()
    try:
        Sysctls(configuration.allowed_unsafe_sysctls)
    except ValueError as error:
        raise Invalid(f"allowedUnsafeSysctls: {error}") from None
    if configuration.max_pods < 0:
        raise Invalid(f"maxPods: must not be negative, got {configuration.max_pods}")
    return Config(
        node_name=node_name,
        root_dir=root.absolute(),
        pod_logs_dir=Path(configuration.pod_logs_dir or _default_logs(root)).absolute(),
        node_ips=tuple(part.strip() for part in node_ip.split(",") if part.strip()),
        kubeconfig=kubeconfig,
        static_pod_path=configuration.static_pod_path,
        static_pod_url=configuration.static_pod_url,
        static_pod_url_header=configuration.static_pod_url_header,
        file_check_frequency=_frequency("fileCheckFrequency", configuration.file_check_frequency),
        http_check_frequency=_frequency("httpCheckFrequency", configuration.http_check_frequency),
        container_runtime_endpoint=configuration.container_runtime_endpoint,
        max_pods=configuration.max_pods,
        register_node=configuration.register_node,
        register_with_taints=configuration.register_with_taints,
        allowed_unsafe_sysctls=configuration.allowed_unsafe_sysctls,
        stop_pods_on_exit=stop_pods_on_exit,
    )


def default_root_dir() -> Path:
    """Upstream's folder for root; for an ordinary user one of their own."""
    if os.geteuid() == 0:
        return Path("/var/lib/kubelet")
    return Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local/share") / "kubelet"


def _default_logs(root: Path) -> Path:
    """Upstream's folder, when the agent keeps its state where upstream does; else beside the state."""
    return Path("/var/log/pods") if root == Path("/var/lib/kubelet") else root / "logs"


def parse_header_flags(flags: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    """`a:hello,b:again` -> headers, as `--manifest-url-header` takes them. Raises Invalid without showing a value."""
    headers: dict[str, tuple[str, ...]] = {}
    for part in (part for flag in flags for part in flag.split(",") if part.strip()):
        name, colon, value = part.partition(":")
        if not colon or not name.strip():
            raise Invalid("--manifest-url-header: write name:value, several separated by commas")
        headers[name.strip()] = (*headers.get(name.strip(), ()), value.strip())
    return headers


def _frequency(name: str, text: str) -> float:
    try:
        seconds = parse_duration(text)
    except ValueError as error:
        raise Invalid(f"{name}: {error}") from None
    if seconds < 0:
        raise Invalid(f"{name}: must not be negative, got {text}")
    return seconds or 20.0  # upstream takes zero for "not set"


def _fault(path: str, document: Document, field: str, reason: str) -> Invalid:
    place = document.place(field)
    where = f"{path}:{place[0]}:{place[1]}" if place else path
    return Invalid(f"{where}: {field}: {reason}" if field else f"{where}: {reason}")
