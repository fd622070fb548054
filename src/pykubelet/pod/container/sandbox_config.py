"""The sandbox of a pod: its name on the network, its ports, its place for logs."""

import posixpath
from collections.abc import Iterator
from typing import Final

from pykubelet.api.container import Container
from pykubelet.api.pod import Pod
from pykubelet.base.errors import Invalid
from pykubelet.pod.container.labels import sandbox_annotations, sandbox_labels
from pykubelet.pod.container.user_namespaces import IdMapping
from pykubelet.pod.ports.runtime import PortMapping, SandboxConfig

_LONGEST_HOSTNAME: Final = 63
_LONGEST_FQDN: Final = 64  # what the kernel's field for the name of a machine holds


def sandbox_config(
    pod: Pod,
    attempt: int,
    *,
    log_root: str,
    cluster_domain: str = "",
    dns_servers: tuple[str, ...] = (),
    dns_searches: tuple[str, ...] = (),
    dns_options: tuple[str, ...] = (),
    cgroup_parent: str = "",
    runtime_handler: str = "",
    id_mappings: tuple[IdMapping, ...] = (),
) -> SandboxConfig:
    return SandboxConfig(
        pod=pod,
        attempt=attempt,
        hostname=kernel_hostname(pod, cluster_domain),
        log_directory=log_directory(pod, log_root),
        dns_servers=dns_servers,
        dns_searches=dns_searches,
        dns_options=dns_options,
        ports=tuple(mapping for container in pod.spec.containers for mapping in _port_mappings(container)),
        labels=sandbox_labels(pod),
        annotations=sandbox_annotations(pod),
        cgroup_parent=cgroup_parent,
        runtime_handler=runtime_handler,
        id_mappings=id_mappings,
    )


def log_directory(pod: Pod, log_root: str) -> str:
    meta = pod.metadata
    return posixpath.join(log_root, f"{meta.namespace}_{meta.name}_{meta.uid}")


def hostname_and_domain(pod: Pod, cluster_domain: str) -> tuple[str, str]:
    """What a pod is called, and the domain that this name lives in, if any: both appear in its hosts file.

    In a cluster without a domain it ends in `svc.`, as upstream's does.
    """
    spec = pod.spec
    if spec.hostname_override is not None:
        return _shortened(spec.hostname_override), ""
    domain = f"{spec.subdomain}.{pod.metadata.namespace}.svc.{cluster_domain}" if spec.subdomain else ""
    return _shortened(spec.hostname or pod.metadata.name), domain


def kernel_hostname(pod: Pod, cluster_domain: str) -> str:
    """What `hostname` says inside; empty on the host's network, where it is the host's."""
    if pod.spec.host_network:
        return ""
    hostname, domain = hostname_and_domain(pod, cluster_domain)
    if not domain or not pod.spec.set_hostname_as_fqdn:
        return hostname
    fqdn = f"{hostname}.{domain}"
    if len(fqdn) > _LONGEST_FQDN:
        raise Invalid(
            f"failed to construct FQDN from pod hostname and cluster domain, FQDN {fqdn} is too long "
            f"({_LONGEST_FQDN} characters is the max, {len(fqdn)} characters requested)"
        )
    return fqdn


def _shortened(hostname: str) -> str:
    if len(hostname) <= _LONGEST_HOSTNAME:
        return hostname
    shortened = hostname[:_LONGEST_HOSTNAME].rstrip("-.")
    if not shortened:
        raise Invalid(f"{hostname} is not a hostname")
    return shortened


def _port_mappings(container: Container) -> Iterator[PortMapping]:
    """Every port once, those with no host port (0) too: a runtime publishes none of these."""
    seen: set[object] = set()
    for port in container.ports:
        mapping = PortMapping(
            container_port=port.container_port,
            host_port=port.host_port or 0,
            protocol=port.protocol or "TCP",
            host_ip=port.host_ip,
        )
        identity = port.name or mapping
        if identity not in seen:
            seen.add(identity)
            yield mapping
