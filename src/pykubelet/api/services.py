"""Services and where their endpoints are: as much of them as it takes to tell containers, to lead packets and to answer
for names."""

from pykubelet.api.meta import Object
from pykubelet.api.objects import ObjectReference
from pykubelet.api.struct import Int32, Struct, written

SERVICE_LABEL = "kubernetes.io/service-name"
"""On a slice: whose it is."""


class ServicePort(Struct, frozen=True):
    name: str = ""
    protocol: str = ""
    port: Int32 = written(int)
    node_port: Int32 = 0


class ClientIPConfig(Struct, frozen=True):
    timeout_seconds: Int32 | None = None


class SessionAffinityConfig(Struct, frozen=True):
    client_ip: ClientIPConfig | None = None


class ServiceSpec(Struct, frozen=True):
    type: str = ""
    cluster_ip: str = ""
    cluster_ips: tuple[str, ...] = ()
    ports: tuple[ServicePort, ...] = ()
    selector: dict[str, str] = {}
    external_ips: tuple[str, ...] = ()
    external_name: str = ""
    session_affinity: str = ""
    session_affinity_config: SessionAffinityConfig | None = None
    internal_traffic_policy: str = ""
    external_traffic_policy: str = ""
    publish_not_ready_addresses: bool = False


class Service(Object, frozen=True):
    spec: ServiceSpec = written(ServiceSpec)


class EndpointConditions(Struct, frozen=True):
    ready: bool | None = None
    serving: bool | None = None
    terminating: bool | None = None


class Endpoint(Struct, frozen=True):
    addresses: tuple[str, ...] = ()
    conditions: EndpointConditions = written(EndpointConditions)
    hostname: str = ""
    node_name: str = ""
    target_ref: ObjectReference | None = None


class EndpointPort(Struct, frozen=True):
    name: str = ""
    protocol: str = ""
    port: Int32 = 0


class EndpointSlice(Object, frozen=True):
    address_type: str = ""
    endpoints: tuple[Endpoint, ...] = ()
    ports: tuple[EndpointPort, ...] = ()
