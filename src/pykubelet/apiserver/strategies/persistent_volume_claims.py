"""Persistent volume claims: the class that each gets, and what may change once it is made."""

from collections.abc import Iterator
from datetime import datetime
from typing import Final

from pykubelet.api.codec import convert
from pykubelet.api.field_errors import FieldError, forbidden, invalid, not_supported
from pykubelet.api.quantity import Quantity
from pykubelet.api.quantity import parse as parse_quantity
from pykubelet.api.rules.well_known import OLD_CLASS_ANNOTATION
from pykubelet.api.validation import names
from pykubelet.api.validation.claims import validate_claim_spec
from pykubelet.api.validation.rules import one_of, spelled
from pykubelet.api.volume_sources import PersistentVolumeClaimSpec
from pykubelet.apiserver import status
from pykubelet.apiserver.objects import Object, at
from pykubelet.apiserver.schema.schema import copied, same
from pykubelet.apiserver.strategies.base import Lookup, Strategy
from pykubelet.apiserver.strategies.limit_ranges import check_claim
from pykubelet.apiserver.strategies.storage_classes import class_of, default_class, protect

CLAIM_PROTECTION: Final = "kubernetes.io/pvc-protection"
_RESIZE_STATUSES: Final = (
    "ControllerResizeInProgress",
    "ControllerResizeInfeasible",
    "NodeResizePending",
    "NodeResizeInProgress",
    "NodeResizeInfeasible",
)
_SOURCES: Final = (("", "PersistentVolumeClaim"), ("snapshot.storage.k8s.io", "VolumeSnapshot"))


class PersistentVolumeClaimStrategy(Strategy):
    def normal(self, obj: Object) -> Object:
        result = super().normal(obj)
        result.setdefault("spec", {}).setdefault("volumeMode", "Filesystem")
        return result

    async def admit(self, obj: Object, old: Object | None, subresource: str, lookup: Lookup) -> None:
        """A claim that names no class gets the default one, if there is one; only some classes let claims grow."""
        if not subresource and (old is None or _size(obj) != _size(old)):
            await check_claim(obj, lookup)
        if old is not None and not subresource and _size(obj) > _size(old):
            await _check_growth(obj, old, lookup)
        annotated = OLD_CLASS_ANNOTATION in at(obj, "metadata.annotations", {})
        if old is not None or annotated or at(obj, "spec.storageClassName") is not None:
            return
        if name := default_class(await lookup.all("storage.k8s.io", "storageclasses")):
            obj["spec"]["storageClassName"] = name

    def give_status(self, obj: Object) -> None:
        obj["status"] = {"phase": "Pending"}

    def prepare_create(self, obj: Object, now: datetime) -> None:
        super().prepare_create(obj, now)
        _agree_on_source(obj["spec"])
        protect(obj, CLAIM_PROTECTION)

    def content_faults(self, obj: Object) -> Iterator[FieldError]:
        yield from validate_claim_spec(convert(PersistentVolumeClaimSpec, obj["spec"]), "spec")

    def validate_update(self, obj: Object, old: Object, subresource: str) -> Iterator[FieldError]:
        yield from super().validate_update(obj, old, subresource)
        if subresource == "status":
            yield from _status_faults(obj)
        if subresource:
            return
        rest, was = copied(obj["spec"]), copied(old["spec"])
        if at(old, "status.phase") == "Bound":
            for spec in (rest, was):
                spec.pop("volumeAttributesClassName", None)
                at(spec, "resources.requests", {}).pop("storage", None)
        if not was.get("volumeName"):
            rest.pop("volumeName", None)
        annotated = at(old, "metadata.annotations", {}).get(OLD_CLASS_ANNOTATION)
        if was.get("storageClassName") is None and annotated in (None, rest.get("storageClassName")):
            rest.pop("storageClassName", None)
        if not same(rest, was):
            detail = (
                "spec is immutable after creation except resources.requests and volumeAttributesClassName "
                "for bound claims\n"
            )
            yield forbidden("spec", detail)
        if _size(obj) < _size(old) and _size(obj) <= parse_quantity(str(at(old, "status.capacity.storage", "0"))):
            yield forbidden("spec.resources.requests.storage", "field can not be less than status.capacity")
        if at(old, "status.currentVolumeAttributesClassName") and not obj["spec"].get("volumeAttributesClassName"):
            shown = "nil" if obj["spec"].get("volumeAttributesClassName") is None else "empty string"
            detail = f"update to {shown} is forbidden when status.currentVolumeAttributesClassName is not nil"
            if not same(obj["spec"].get("volumeAttributesClassName"), old["spec"].get("volumeAttributesClassName")):
                yield forbidden("spec.volumeAttributesClassName", detail)
        if obj["spec"]["volumeMode"] != old["spec"].get("volumeMode", "Filesystem"):
            yield invalid("volumeMode", obj["spec"]["volumeMode"], "field is immutable")


def _status_faults(claim: Object) -> Iterator[FieldError]:
    for field in ("capacity", "allocatedResources"):
        for name, amount in at(claim, f"status.{field}", {}).items():
            if parse_quantity(str(amount)).sign < 0:
                yield invalid(f"status.{field}[{name}]", amount, "must be greater than or equal to 0")
    for field in ("allocatedResources", "allocatedResourceStatuses"):
        for name in at(claim, f"status.{field}", {}):
            yield from spelled(f"status.{field}", name, names.qualified_name(name))
            if "/" not in name and name != "storage":
                yield not_supported(f"status.{field}", name, ("storage",))
    for said in at(claim, "status.allocatedResourceStatuses", {}).values():
        yield from one_of("status.allocatedResourceStatuses", said, _RESIZE_STATUSES)


def _agree_on_source(spec: Object) -> None:
    """What it is filled from is said in two fields. The older knows two kinds only, and anything else is not heard."""
    old, new = spec.get("dataSource"), spec.get("dataSourceRef")
    if old is not None and (old.get("apiGroup") or "", old.get("kind")) not in _SOURCES:
        del spec["dataSource"]
        old = None
    if old is not None and new is None:
        spec["dataSourceRef"] = dict(old)
    known = new if new is not None and old is None and not new.get("namespace") else {}
    if (known.get("apiGroup") or "", known.get("kind")) in _SOURCES:
        spec["dataSource"] = dict(known)


def _size(claim: Object) -> Quantity:
    return parse_quantity(str(at(claim, "spec.resources.requests.storage", "0")))


async def _check_growth(obj: Object, old: Object, lookup: Lookup) -> None:
    """Raises 403."""
    if at(old, "status.phase") != "Bound":
        return  # which the rules refuse
    name = class_of(old)
    found = await lookup.find("storage.k8s.io", "storageclasses", "", name) if name else None
    if found is None or not found.get("allowVolumeExpansion"):
        why = (
            "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must "
            "support resize"
        )
        raise status.forbidden("persistentvolumeclaims", obj["metadata"].get("name", ""), why)
