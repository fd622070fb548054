"""The other objects that a node agent reads and writes: secrets, config maps, events, leases."""

from collections.abc import Mapping

from pykubelet.api.meta import Object
from pykubelet.api.struct import Int32, MicroTime, Struct, Time, written


class Secret(Object, frozen=True):
    immutable: bool | None = None
    data: Mapping[str, bytes] = {}
    string_data: Mapping[str, str] = {}
    type: str = ""


class ConfigMap(Object, frozen=True):
    immutable: bool | None = None
    data: Mapping[str, str] = {}
    binary_data: Mapping[str, bytes] = {}


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


class Event(Object, frozen=True):
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


class LeaseSpec(Struct, frozen=True):
    holder_identity: str | None = None
    lease_duration_seconds: Int32 | None = None
    acquire_time: MicroTime | None = None
    renew_time: MicroTime | None = None
    lease_transitions: Int32 | None = None
    strategy: str | None = None
    preferred_holder: str | None = None


class Lease(Object, frozen=True):
    spec: LeaseSpec = written(LeaseSpec)
