"""Where services are, as environment variables: the oldest way for a program in a pod to find another one."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from pykubelet.api.services import Service
from pykubelet.api.struct import changed

MASTER_NAMESPACE: Final = "default"
MASTER_SERVICE: Final = "kubernetes"
"""The API server itself: every pod is told of it, also those that want to know of no other service."""


def service_variables(
    services: Iterable[Service], namespace: str, *, links: bool, api_server: tuple[str, int] | None = None
) -> Mapping[str, str]:
    """`links` says whether the pod is told of the services of its namespace; `api_server` where that one is, when its
    service's address leads nowhere."""
    chosen: dict[str, Service] = {}
    for service in sorted(services, key=lambda each: (each.metadata.name, each.metadata.namespace == namespace)):
        meta, spec = service.metadata, service.spec
        if spec.cluster_ip in ("", "None") or not spec.ports:
            continue
        is_master = (meta.namespace, meta.name) == (MASTER_NAMESPACE, MASTER_SERVICE)
        if is_master and api_server:
            service = _moved(service, *api_server)
        if is_master or (links and meta.namespace == namespace):
            chosen[meta.name] = service  # of two with one name, the pod's own namespace comes last and counts
    return dict(variable for service in chosen.values() for variable in _variables(service))


def _moved(service: Service, host: str, port: int) -> Service:
    ports = (changed(service.spec.ports[0], port=port),)
    return changed(service, spec=changed(service.spec, cluster_ip=host, ports=ports))


def _variables(service: Service) -> Iterator[tuple[str, str]]:
    prefix, spec = _name(service.metadata.name), service.spec
    yield f"{prefix}_SERVICE_HOST", spec.cluster_ip
    yield f"{prefix}_SERVICE_PORT", str(spec.ports[0].port)
    for port in spec.ports:
        if port.name:
            yield f"{prefix}_SERVICE_PORT_{_name(port.name)}", str(port.port)
    host = f"[{spec.cluster_ip}]" if ":" in spec.cluster_ip else spec.cluster_ip
    for index, port in enumerate(spec.ports):
        protocol = port.protocol or "TCP"
        address = f"{protocol.lower()}://{host}:{port.port}"
        if index == 0:
            yield f"{prefix}_PORT", address
        link = f"{prefix}_PORT_{port.port}_{protocol.upper()}"
        yield link, address
        yield f"{link}_PROTO", protocol.lower()
        yield f"{link}_PORT", str(port.port)
        yield f"{link}_ADDR", spec.cluster_ip


def _name(text: str) -> str:
    return text.replace("-", "_").upper()
