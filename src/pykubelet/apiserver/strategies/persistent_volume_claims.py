"""Persistent volume claims: the class that each gets, and what may change once it is made."""

from collections.abc import Iterator

from pykubelet.api.field_errors import FieldError, forbidden, required
from pykubelet.api.rules.well_known import DEFAULT_CLASS_ANNOTATION, OLD_CLASS_ANNOTATION
from pykubelet.apiserver.objects import Object, at
from pykubelet.apiserver.schema.schema import copied, same
from pykubelet.apiserver.strategies.base import Lookup, Strategy


class PersistentVolumeClaimStrategy(Strategy):
    def normal(self, obj: Object) -> Object:
        result = super().normal(obj)
        result.setdefault("spec", {}).setdefault("volumeMode", "Filesystem")
        return result

    async def admit(self, obj: Object, old: Object | None, subresource: str, lookup: Lookup) -> None:
        """A claim that names no class gets the default one, if there is one."""
        annotated = OLD_CLASS_ANNOTATION in at(obj, "metadata.annotations", {})
        if old is not None or annotated or at(obj, "spec.storageClassName") is not None:
            return
        classes = await lookup.all("storage.k8s.io", "storageclasses")
        default = [
            each for each in classes if at(each, "metadata.annotations", {}).get(DEFAULT_CLASS_ANNOTATION) == "true"
        ]
        if default:
            newest = max(default, key=lambda each: str(each["metadata"].get("creationTimestamp", "")))
            obj["spec"]["storageClassName"] = newest["metadata"]["name"]

    def give_status(self, obj: Object) -> None:
        obj["status"] = {"phase": "Pending"}

    def validate(self, obj: Object) -> Iterator[FieldError]:
        yield from super().validate(obj)
        if not at(obj, "spec.accessModes"):
            yield required("spec.accessModes", "at least 1 access mode is required")
        if not at(obj, "spec.resources.requests.storage"):
            yield required("spec.resources[storage]", "")

    def validate_update(self, obj: Object, old: Object, subresource: str) -> Iterator[FieldError]:
        yield from super().validate_update(obj, old, subresource)
        rest, was = copied(obj["spec"]), copied(old["spec"])
        for spec in (rest, was):
            spec.pop("resources", None)
            spec.pop("volumeAttributesClassName", None)
        if not was.get("volumeName"):
            rest.pop("volumeName", None)
        if not was.get("storageClassName"):
            rest.pop("storageClassName", None)
        if not same(rest, was):
            detail = (
                "spec is immutable after creation except resources.requests and volumeAttributesClassName "
                "for bound claims\n"
            )
            yield forbidden("spec", detail)
