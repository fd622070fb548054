"""What the agent is told to do: the kubelet's own configuration file and flags, checked and turned into one value.

Names and defaults are upstream's, so that a node's existing file works as it is.
"""

import logging
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from pykubelet.api import codec
from pykubelet.api.codec import DecodeError
from pykubelet.api.documents import Document, DocumentError, read_documents
from pykubelet.api.durations import parse_duration
from pykubelet.api.struct import Struct
from pykubelet.api.validation.names import dns_subdomain
from pykubelet.base.errors import Invalid

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


class Config(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that the agent needs to know, checked."""

    node_name: str
    kubeconfig: str = ""
    static_pod_path: str = ""
    static_pod_url: str = ""
    static_pod_url_header: Mapping[str, tuple[str, ...]] = {}
    file_check_frequency: float = 20.0
    http_check_frequency: float = 20.0


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
    for field in _unused(document.value):
        log.warning("%s: %s is not used by this version and has no effect", path, field)
    return configuration


def make_config(configuration: KubeletConfiguration, *, hostname_override: str = "", kubeconfig: str = "") -> Config:
    """Put file and flags together. Raises Invalid."""
    node_name = (hostname_override or socket.gethostname()).strip().lower()
    if problem := next(iter(dns_subdomain(node_name)), None):
        raise Invalid(f"the node name {node_name!r} cannot be used: {problem}; choose one with --hostname-override")
    return Config(
        node_name=node_name,
        kubeconfig=kubeconfig,
        static_pod_path=configuration.static_pod_path,
        static_pod_url=configuration.static_pod_url,
        static_pod_url_header=configuration.static_pod_url_header,
        file_check_frequency=_frequency("fileCheckFrequency", configuration.file_check_frequency),
        http_check_frequency=_frequency("httpCheckFrequency", configuration.http_check_frequency),
    )


def parse_header_flags(flags: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    """`a:hello,b:again` -> headers, as `--manifest-url-header` takes them. Raises Invalid without showing a value."""
    headers: dict[str, tuple[str, ...]] = {}
    for part in (part for flag in flags for part in flag.split(",") if part):
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


def _unused(value: Any) -> list[str]:
    known = set(KubeletConfiguration.__struct_encode_fields__)
    return sorted(str(field) for field in value if field not in known) if isinstance(value, dict) else []


def _fault(path: str, document: Document, field: str, reason: str) -> Invalid:
    place = document.place(field)
    where = f"{path}:{place[0]}:{place[1]}" if place else path
    return Invalid(f"{where}: {field}: {reason}" if field else f"{where}: {reason}")
