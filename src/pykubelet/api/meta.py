"""What every Kubernetes object carries, and the Status that an API server answers with instead of one."""

from collections.abc import Mapping
from typing import Any

from pykubelet.api.struct import Int32, Int64, Struct, Time, written


class OwnerReference(Struct, frozen=True):
    api_version: str = written(str)
    kind: str = written(str)
    name: str = written(str)
    uid: str = written(str)
    controller: bool | None = None
    block_owner_deletion: bool | None = None


class ManagedFieldsEntry(Struct, frozen=True):
    manager: str = ""
    operation: str = ""
    api_version: str = ""
    time: Time | None = None
    fields_type: str = ""
    fields_v1: Mapping[str, Any] | None = None
    subresource: str = ""


class ObjectMeta(Struct, frozen=True):
    name: str = ""
    generate_name: str = ""
    namespace: str = ""
    self_link: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: Int64 | None = None
    creation_timestamp: Time | None = None
    deletion_timestamp: Time | None = None
    deletion_grace_period_seconds: Int64 | None = None
    labels: Mapping[str, str] = {}
    annotations: Mapping[str, str] = {}
    owner_references: tuple[OwnerReference, ...] = ()
    finalizers: tuple[str, ...] = ()
    managed_fields: tuple[ManagedFieldsEntry, ...] = ()


class Object(Struct, frozen=True):
    kind: str = ""
    api_version: str = ""
    metadata: ObjectMeta = written(ObjectMeta)


class ListMeta(Struct, frozen=True):
    self_link: str = ""
    resource_version: str = ""
    continue_: str = ""
    remaining_item_count: Int64 | None = None


class LocalObjectReference(Struct, frozen=True):
    name: str = ""


class LabelSelectorRequirement(Struct, frozen=True):
    key: str = written(str)
    operator: str = written(str)
    values: tuple[str, ...] = ()


class LabelSelector(Struct, frozen=True):
    match_labels: Mapping[str, str] = {}
    match_expressions: tuple[LabelSelectorRequirement, ...] = ()


class StatusCause(Struct, frozen=True):
    reason: str = ""
    message: str = ""
    field: str = ""


class StatusDetails(Struct, frozen=True):
    name: str = ""
    group: str = ""
    kind: str = ""
    uid: str = ""
    causes: tuple[StatusCause, ...] = ()
    retry_after_seconds: Int32 | None = None


class Status(Struct, frozen=True):
    kind: str = ""
    api_version: str = ""
    metadata: ListMeta = written(ListMeta)
    status: str = ""
    message: str = ""
    reason: str = ""
    details: StatusDetails | None = None
    code: Int32 | None = None
