"""Services: as much of them as a node needs to tell its containers where they are."""

from pykubelet.api.meta import Object
from pykubelet.api.struct import Int32, Struct, written


class ServicePort(Struct, frozen=True):
    name: str = ""
    protocol: str = ""
    port: Int32 = written(int)


class ServiceSpec(Struct, frozen=True):
    cluster_ip: str = ""
    ports: tuple[ServicePort, ...] = ()


class Service(Object, frozen=True):
    spec: ServiceSpec = written(ServiceSpec)
