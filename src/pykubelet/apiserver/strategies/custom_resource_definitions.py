"""Custom resource definitions: schemas are checked when they are written, so that no object finds a broken one."""

import re
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any, Final

import msgspec

from pykubelet.api.field_errors import FieldError, invalid
from pykubelet.api.struct import rfc3339
from pykubelet.apiserver.custom.naming import is_established
from pykubelet.apiserver.objects import Object, at
from pykubelet.apiserver.schema.schema import same
from pykubelet.apiserver.strategies.base import Strategy

FINALIZER: Final = "customresourcecleanup.apiextensions.k8s.io"
"""Holds a definition until its objects are gone."""
TERMINATING: Final = {
    "type": "Terminating",
    "status": "True",
    "reason": "InstanceDeletionInProgress",
    "message": "CustomResource deletion is in progress",
}

_IN_VERSION: Final = re.compile(r"spec\.versions\[(\d+)\]\.(\w+)(.*)")
_SHARED: Final = {
    "schema": "validation.openAPIV3Schema",
    "subresources": "subresources",
    "additionalPrinterColumns": "additionalPrinterColumns",
    "selectableFields": "selectableFields",
}
_PATH: Final = {"additionalPrinterColumns": ".JSONPath"}


class CustomResourceDefinitionStrategy(Strategy):
    has_plain_finalizers = True
    updates_unconditionally = False

    def normal(self, obj: Object) -> Object:
        result = super().normal(obj)
        spec = result.get("spec")
        if isinstance(spec, dict):
            names = spec.setdefault("names", {})
            if names.get("kind"):
                names.setdefault("singular", names["kind"].lower())
                names.setdefault("listKind", f"{names['kind']}List")
            spec.setdefault("conversion", {}).setdefault("strategy", "None")
            webhook = spec["conversion"].get("webhook") or {}
            if isinstance(service := at(webhook, "clientConfig.service"), dict):
                service.setdefault("port", 443)
        return result

    def prepare_create(self, obj: Object, now: datetime) -> None:
        super().prepare_create(obj, now)
        obj["status"] = {"storedVersions": [], "conditions": None, "acceptedNames": {"plural": "", "kind": ""}}
        _note_storage(obj)

    def prepare_update(self, obj: Object, old: Object, subresource: str) -> None:
        super().prepare_update(obj, old, subresource)
        if subresource != "status":
            _note_storage(obj)

    def validate(self, obj: Object) -> Iterator[FieldError]:
        from pykubelet.apiserver.custom.definition_rules import (
            approval_faults,
            definition_faults,
        )  # much, rarely needed

        yield from super().validate(obj)
        yield from _as_told(obj.get("spec") or {}, definition_faults(obj.get("spec") or {}))
        yield from approval_faults(obj)

    def validate_update(self, obj: Object, old: Object, subresource: str) -> Iterator[FieldError]:
        from pykubelet.apiserver.custom.definition_rules import change_faults, definition_faults, status_faults

        yield from super().validate_update(obj, old, subresource)
        yield from status_faults(obj)
        spec, before = obj.get("spec") or {}, old.get("spec") or {}
        if subresource == "status" or same(spec, before):
            return
        faults = list(definition_faults(spec))
        kept = {_sort(each) for each in definition_faults(before)} if faults else set()
        yield from _as_told(spec, (each for each in faults if _sort(each) not in kept))
        yield from change_faults(spec, before, is_established=is_established(old))

    def validate_meta(self, obj: Object) -> Iterator[FieldError]:
        yield from super().validate_meta(obj)
        spec, name = obj.get("spec") or {}, obj["metadata"].get("name") or ""
        if name and name != f"{at(spec, 'names.plural', '')}.{spec.get('group') or ''}":
            yield invalid("metadata.name", name, 'must be spec.names.plural+"."+spec.group')

    def marked(self, obj: Object, wanted: int | None, now: datetime, *, hold: str = "") -> tuple[Object, bool]:
        """It goes after its objects."""
        metadata = obj["metadata"]
        if metadata.get("deletionTimestamp"):
            return super().marked(obj, wanted, now, hold=hold)
        held = [*(each for each in metadata.get("finalizers", ()) if each != FINALIZER), FINALIZER]
        marked, goes = super().marked({**obj, "metadata": {**metadata, "finalizers": held}}, wanted, now, hold=hold)
        marked["metadata"].pop("deletionGracePeriodSeconds", None)
        if "generation" in metadata:
            marked["metadata"]["generation"] = metadata["generation"]
        conditions = [each for each in at(obj, "status.conditions", []) if each.get("type") != "Terminating"]
        condition = {**TERMINATING, "lastTransitionTime": rfc3339(now)}
        return {**marked, "status": {**obj.get("status", {}), "conditions": [*conditions, condition]}}, goes


def _sort(fault: FieldError) -> tuple[str, str, str]:
    """What was wrong before, because another server let it pass, may be so again, wherever it is."""
    return fault.type, fault.field.rpartition(".")[2], fault.detail


def _as_told(spec: Object, faults: Iterable[FieldError]) -> Iterator[FieldError]:
    """Where upstream says that a fault is: what all versions share is told once, by the place that it had when there
    was one version only."""
    versions = spec.get("versions") or []
    shared = {
        part: place
        for part, place in _SHARED.items()
        if all(same(each.get(part), versions[0].get(part)) for each in versions)
    }
    for fault in faults:
        found = _IN_VERSION.fullmatch(fault.field)
        if found is None or found[2] not in shared:
            yield fault
        elif found[1] == "0":
            rest = found[3].removeprefix(".openAPIV3Schema").replace(".jsonPath", _PATH.get(found[2], ".jsonPath"))
            yield msgspec.structs.replace(fault, field=f"spec.{shared[found[2]]}{rest}")


def _note_storage(obj: Object) -> None:
    """Objects may be stored in this version from now on."""
    spec, status = obj.get("spec") or {}, obj.setdefault("status", {})
    storage: list[Any] = [each.get("name") for each in spec.get("versions") or () if each.get("storage")]
    stored = status.get("storedVersions") or []
    obj["status"] = {**status, "storedVersions": [*stored, *(each for each in storage[:1] if each not in stored)]}
