"""Classes of storage, and of what may be changed of it: fixed once they are made, since volumes were made by them."""

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any, Final

from pykubelet.api.field_errors import FieldError, duplicate, forbidden, invalid, required, too_long
from pykubelet.api.rules.well_known import DEFAULT_CLASS_ANNOTATION, OLD_CLASS_ANNOTATION
from pykubelet.api.validation import names
from pykubelet.api.validation.rules import needed, one_of, spelled
from pykubelet.apiserver.objects import Object, at
from pykubelet.apiserver.schema.schema import same
from pykubelet.apiserver.strategies.base import Strategy

_MOST_PARAMETERS: Final = 512
_MOST_BYTES: Final = 256 << 10
CLASS_PROTECTION: Final = "kubernetes.io/vac-protection"


class StorageClassStrategy(Strategy):
    def normal(self, obj: Object) -> Object:
        result = super().normal(obj)
        result.setdefault("reclaimPolicy", "Delete")
        result.setdefault("volumeBindingMode", "Immediate")
        return result

    def content_faults(self, obj: Object) -> Iterator[FieldError]:
        yield from needed("provisioner", obj.get("provisioner", ""), lambda name: names.qualified_name(name.lower()))
        yield from parameter_faults(obj.get("parameters") or {})
        yield from one_of("reclaimPolicy", obj["reclaimPolicy"], ("Delete", "Retain"))
        yield from one_of("volumeBindingMode", obj["volumeBindingMode"], ("Immediate", "WaitForFirstConsumer"))
        yield from _topology_faults(obj.get("allowedTopologies") or ())

    def validate_update(self, obj: Object, old: Object, subresource: str) -> Iterator[FieldError]:
        yield from super().validate_update(obj, old, subresource)
        for name in ("parameters", "provisioner", "reclaimPolicy"):
            if obj.get(name) != old.get(name):
                yield forbidden(name, f"updates to {name} are forbidden.")
        if obj["volumeBindingMode"] != old.get("volumeBindingMode", "Immediate"):
            yield invalid("volumeBindingMode", obj["volumeBindingMode"], "field is immutable")


def parameter_faults(parameters: dict[str, str]) -> Iterator[FieldError]:
    if len(parameters) > _MOST_PARAMETERS:
        yield too_long("parameters", _MOST_PARAMETERS)
        return
    if "" in parameters:
        yield invalid("parameters", "", "field can not be empty.")
    if sum(names.size(key) + names.size(value) for key, value in parameters.items()) > _MOST_BYTES:
        yield too_long("parameters", _MOST_BYTES)


def _topology_faults(terms: Any) -> Iterator[FieldError]:
    for index, term in enumerate(terms):
        seen: set[str] = set()
        for number, each in enumerate(term.get("matchLabelExpressions") or ()):
            field, key = f"allowedTopologies[{index}].matchLabelExpressions[{number}]", each.get("key", "")
            yield from spelled(f"{field}.key", key, names.qualified_name(key))
            if key in seen:
                yield duplicate(f"{field}.key", key)
            seen.add(key)
            if not each.get("values"):
                yield required(f"{field}.values", "")
        if any(same(term, other) for other in terms[:index]):
            yield duplicate(f"allowedTopologies[{index}].matchLabelExpressions", "")


class VolumeAttributesClassStrategy(Strategy):
    def prepare_create(self, obj: Object, now: datetime) -> None:
        super().prepare_create(obj, now)
        protect(obj, CLASS_PROTECTION)

    def content_faults(self, obj: Object) -> Iterator[FieldError]:
        yield from needed("driverName", obj.get("driverName", ""), lambda name: names.qualified_name(name.lower()))
        yield from parameter_faults(obj.get("parameters") or {})
        if not obj.get("parameters"):
            yield required("parameters", "must contain at least one key/value pair")

    def validate_update(self, obj: Object, old: Object, subresource: str) -> Iterator[FieldError]:
        yield from super().validate_update(obj, old, subresource)
        for name in ("driverName", "parameters"):
            if obj.get(name) != old.get(name):
                yield forbidden(name, f"updates to {name} are forbidden.")


def class_of(obj: Object) -> str:
    """The class of a claim or a volume; empty: it is in none."""
    annotations: dict[str, str] = obj["metadata"].get("annotations") or {}
    return annotations.get(OLD_CLASS_ANNOTATION) or at(obj, "spec.storageClassName", "")


def default_class(classes: Iterable[Object]) -> str:
    """The newest of those that say so; empty: none does."""
    found = (each for each in classes if at(each, "metadata.annotations", {}).get(DEFAULT_CLASS_ANNOTATION) == "true")
    newest = max(found, key=lambda each: str(each["metadata"].get("creationTimestamp", "")), default=None)
    return newest["metadata"]["name"] if newest is not None else ""


def protect(obj: Object, finalizer: str) -> None:
    """Keep it from going as long as somebody uses it."""
    finalizers = obj["metadata"].setdefault("finalizers", [])
    if finalizer not in finalizers:
        finalizers.append(finalizer)
