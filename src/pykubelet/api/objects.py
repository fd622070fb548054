"""The other objects that a node agent reads and writes: secrets, config maps, events and leases."""

from collections.abc import Mapping

from pykubelet.api.meta import ListMeta, ObjectMeta
from pykubelet.api.struct import Int32, MicroTime, Struct, Time, written


class Secret(Struct, frozen=True):
    kind: str = ""
    api_version: str = ""
    metadata: ObjectMeta = written(ObjectMeta)
    immutable: bool | None = None
    data: Mapping[str, bytes] = {}
    string_data: Mapping[str, str] = {}
    type: str = ""


class SecretList(Struct, frozen=True):
    kind: str = ""
    api_version: str = ""
    metadata: ListMeta = written(ListMeta)
    items: tuple[Secret, ...] = written(tuple)


class ConfigMap(Struct, frozen=True):
    kind: str = ""
    api_version: str = ""
    metadata: ObjectMeta = written(ObjectMeta)
    immutable: bool | None = None
    data: Mapping[str, str] = {}
    binary_data: Mapping[str, bytes] = {}


class ConfigMapList(Struct, frozen=True):
    kind: str = ""
    api_version: str = ""
    metadata: ListMeta = written(ListMeta)
    items: tuple[ConfigMap, ...] = written(tuple)


class ObjectReference(Struct, frozen=True):
    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""
    api_version: str = ""
    resource_version: str = ""
    field_path: str = ""


class EventSource(Struct, frozen=True):
    component: str = ""
    host: str = ""


class EventSeries(Struct, frozen=True):
    count: Int32 | None = None
    last_observed_time: MicroTime | None = None


class Event(Struct, frozen=True):
    kind: str = ""
    api_version: str = ""
    metadata: ObjectMeta = written(ObjectMeta)
    involved_object: ObjectReference = written(ObjectReference)
    reason: str = ""
    message: str = ""
    source: EventSource = written(EventSource)
    first_timestamp: Time | None = None
    last_timestamp: Time | None = None
    count: Int32 | None = None
    type: str = ""
    event_time: MicroTime | None = None
    series: EventSeries | None = None
    action: str = ""
    related: ObjectReference | None = None
    reporting_component: str = written(str)
    reporting_instance: str = written(str)


class EventList(Struct, frozen=True):
    kind: str = ""
    api_version: str = ""
    metadata: ListMeta = written(ListMeta)
    items: tuple[Event, ...] = written(tuple)


class LeaseSpec(Struct, frozen=True):
    holder_identity: str | None = None
    lease_duration_seconds: Int32 | None = None
    acquire_time: MicroTime | None = None
    renew_time: MicroTime | None = None
    lease_transitions: Int32 | None = None
    strategy: str | None = None
    preferred_holder: str | None = None


class Lease(Struct, frozen=True):
    kind: str = ""
    api_version: str = ""
    metadata: ObjectMeta = written(ObjectMeta)
    spec: LeaseSpec = written(LeaseSpec)


class LeaseList(Struct, frozen=True):
    kind: str = ""
    api_version: str = ""
    metadata: ListMeta = written(ListMeta)
    items: tuple[Lease, ...] = written(tuple)
