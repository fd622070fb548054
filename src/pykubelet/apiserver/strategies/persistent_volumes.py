"""Persistent volumes: their defaults, and what each has to say of itself."""

from collections.abc import Iterator
from datetime import datetime

from pykubelet.api.field_errors import FieldError, required
from pykubelet.api.struct import rfc3339
from pykubelet.apiserver.objects import Object, at
from pykubelet.apiserver.strategies.base import Strategy


class PersistentVolumeStrategy(Strategy):
    def normal(self, obj: Object) -> Object:
        result = super().normal(obj)
        spec = result.setdefault("spec", {})
        spec.setdefault("persistentVolumeReclaimPolicy", "Retain")
        spec.setdefault("volumeMode", "Filesystem")
        return result

    def prepare_create(self, obj: Object, now: datetime) -> None:
        obj["status"] = {"phase": "Pending", "lastPhaseTransitionTime": rfc3339(now)}

    def validate(self, obj: Object) -> Iterator[FieldError]:
        yield from super().validate(obj)
        if not at(obj, "spec.accessModes"):
            yield required("spec.accessModes", "")
        if not at(obj, "spec.capacity"):
            yield required("spec.capacity", "")
