"""The /etc/hosts of a pod's containers."""

import os
from collections.abc import Iterable, Iterator
from typing import Final

from pykubelet.api.pod import HostAlias, Pod
from pykubelet.base.errors import Retry
from pykubelet.host.threads import in_thread
from pykubelet.pod.container.mounts import HOSTS_FILE
from pykubelet.pod.container.sandbox_config import hostname_and_domain

_HEADER: Final = "# Kubernetes-managed hosts file.\n"
_HOST_NETWORK_HEADER: Final = "# Kubernetes-managed hosts file (host network).\n"
_LOCAL: Final = (
    "127.0.0.1\tlocalhost\n"
    "::1\tlocalhost ip6-localhost ip6-loopback\n"
    "fe00::0\tip6-localnet\n"
    "fe00::0\tip6-mcastprefix\n"
    "fe00::1\tip6-allnodes\n"
    "fe00::2\tip6-allrouters\n"
)
_MODE: Final = 0o644


async def write_etc_hosts(path: str, pod: Pod, pod_ips: tuple[str, ...], *, cluster_domain: str = "") -> str | None:
    """Write the file anew if it says anything else. -> `path`, or None while there is nothing to say yet.

    On the host's network it is the host's own file, with the pod's aliases.
    """
    if not pod_ips and not pod.spec.host_network:
        return None
    try:
        await in_thread(_write, path, pod, pod_ips, cluster_domain)
    except OSError as error:
        raise Retry(f"{path} cannot be written: {error.strerror} ({error.filename})") from error
    return path


def managed_hosts(pod: Pod, pod_ips: Iterable[str], cluster_domain: str) -> str:
    """For a pod with a network of its own: itself, and its aliases."""
    hostname, domain = hostname_and_domain(pod, cluster_domain)
    names = f"{hostname}.{domain}\t{hostname}" if domain else hostname
    return _HEADER + _LOCAL + "".join(f"{ip}\t{names}\n" for ip in pod_ips) + "".join(_aliases(pod.spec.host_aliases))


def _host_network_hosts(pod: Pod) -> bytes:
    with open(HOSTS_FILE, "rb") as file:
        return _HOST_NETWORK_HEADER.encode() + file.read() + "".join(_aliases(pod.spec.host_aliases)).encode()


def _aliases(aliases: tuple[HostAlias, ...]) -> Iterator[str]:
    if aliases:
        yield "\n# Entries added by HostAliases.\n"
    for alias in aliases:
        yield "\t".join((alias.ip, *alias.hostnames)) + "\n"


def _write(path: str, pod: Pod, pod_ips: tuple[str, ...], cluster_domain: str) -> None:
    """In place: the file is mounted into containers that run already, and a new one would never reach them."""
    content = (
        _host_network_hosts(pod) if pod.spec.host_network else managed_hosts(pod, pod_ips, cluster_domain).encode()
    )
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, _MODE)
    with open(fd, "r+b") as file:
        os.fchmod(fd, _MODE)  # whatever the umask says
        if file.read() != content:
            file.seek(0)
            file.write(content)
            file.truncate()
