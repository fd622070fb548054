"""Which kernel settings a pod may have: those that the kernel keeps apart for each pod, as far as they are allowed."""

import re
from collections.abc import Iterable
from typing import Final

from pykubelet.api.pod import Pod
from pykubelet.api.rules.sysctls import sysctl_namespace, with_dots

_SAFE: Final[dict[str, tuple[int, int]]] = {
    "kernel.shm_rmid_forced": (0, 0),
    "net.ipv4.ip_local_port_range": (0, 0),
    "net.ipv4.tcp_syncookies": (0, 0),
    "net.ipv4.ping_group_range": (0, 0),
    "net.ipv4.ip_unprivileged_port_start": (0, 0),
    "net.ipv4.ip_local_reserved_ports": (3, 16),
    "net.ipv4.tcp_keepalive_time": (4, 5),
    "net.ipv4.tcp_fin_timeout": (4, 6),
    "net.ipv4.tcp_keepalive_intvl": (4, 5),
    "net.ipv4.tcp_keepalive_probes": (4, 5),
    "net.ipv4.tcp_rmem": (4, 15),
    "net.ipv4.tcp_wmem": (4, 15),
}
"""Settings of no consequence for other pods, each since the kernel version that keeps it apart."""

_LONGEST: Final = 253
_PATTERN: Final = re.compile(r"(?:[a-z0-9](?:[-_a-z0-9]*[a-z0-9])?[./])*(?:[a-z0-9][-_a-z0-9]*)?[a-z0-9*]")
_VERSION: Final = re.compile(r"\s*v?([0-9]+)\.([0-9]+)")


def safe_sysctls(kernel_version: str) -> tuple[str, ...]:
    """The settings that are allowed on every node with such a kernel. An unknown kernel counts as older than all."""
    match = _VERSION.match(kernel_version)
    version = (int(match[1]), int(match[2])) if match else (0, 0)
    return tuple(name for name, since in _SAFE.items() if since <= version)


class Sysctls:
    """The settings that are allowed here, as names and as patterns that end in `*`.

    Raises ValueError for a pattern that could touch what the kernel does not keep apart.
    """

    def __init__(self, patterns: Iterable[str]) -> None:
        self._names: dict[str, str] = {}
        self._prefixes: dict[str, str] = {}
        for pattern in patterns:
            if len(pattern) > _LONGEST or not _PATTERN.fullmatch(pattern):
                raise ValueError(
                    f'sysctl "{pattern}" must have at most {_LONGEST} characters and match {_PATTERN.pattern}'
                )
            name, star, _ = with_dots(pattern).partition("*")
            namespace = sysctl_namespace(name)
            if not namespace:
                raise ValueError(f'the sysctls "{name}" are not known to be namespaced')
            (self._prefixes if star else self._names)[name] = namespace

    def fault(self, pod: Pod) -> str:
        """What forbids the first setting that is not allowed; empty when all are."""
        context = pod.spec.security_context
        shared = {"Net": pod.spec.host_network, "IPC": pod.spec.host_ipc}
        for name in map(with_dots, (each.name for each in context.sysctls) if context else ()):
            namespace = self._allowed_in(name)
            if namespace is None:
                return f'"{name}" not allowlisted'
            if shared[namespace]:
                return f'"{name}" not allowed with host {namespace} enabled'
        return ""

    def _allowed_in(self, name: str) -> str | None:
        """The namespace of an allowed setting."""
        if name in self._names:
            return self._names[name]
        return next((space for prefix, space in self._prefixes.items() if name.startswith(prefix)), None)
