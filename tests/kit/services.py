"""Services and their endpoints, as an API server tells of them."""

from datetime import UTC, datetime
from typing import Any

from pykubelet.api.meta import ObjectMeta
from pykubelet.api.services import (
    SERVICE_LABEL,
    Endpoint,
    EndpointConditions,
    EndpointPort,
    EndpointSlice,
    Service,
    ServicePort,
    ServiceSpec,
)

HTTP = ServicePort(name="http", port=80, protocol="TCP")


def a_service(name: str = "web", ip: str = "10.96.0.100", *ports: ServicePort, age: int = 0, **spec: Any) -> Service:
    """`age`: how many seconds after the others it was made."""
    made = datetime(2026, 1, 1, 0, 0, age, tzinfo=UTC)
    meta = ObjectMeta(namespace="default", name=name, uid=f"uid-{name}", creation_timestamp=made)
    spec = {
        "type": "ClusterIP",
        "cluster_ip": ip,
        "cluster_ips": (ip,) if ip else (),
        "ports": ports or (HTTP,),
        **spec,
    }
    return Service(metadata=meta, spec=ServiceSpec(**spec))


def an_endpoint(ip: str, *, node: str = "n1", ready: bool | None = True, hostname: str = "", **more: bool) -> Endpoint:
    conditions = EndpointConditions(ready=ready, **more)
    return Endpoint(addresses=(ip,), conditions=conditions, node_name=node, hostname=hostname)


def a_slice(service: str, *endpoints: Endpoint, port: int = 8080, name: str = "http", **more: Any) -> EndpointSlice:
    meta = ObjectMeta(namespace="default", name=f"{service}-x", labels={SERVICE_LABEL: service})
    ports = (EndpointPort(name=name, port=port, protocol="TCP"),)
    kind = "IPv6" if endpoints and ":" in endpoints[0].addresses[0] else "IPv4"
    return EndpointSlice(metadata=meta, **{"address_type": kind, "endpoints": endpoints, "ports": ports, **more})
