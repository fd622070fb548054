"""Horizontal pod autoscalers, in both versions that are served."""

from collections.abc import Iterator

from pykubelet.api.field_errors import FieldError
from pykubelet.api.validation.rules import not_negative
from pykubelet.apiserver.objects import Object, at, clean
from pykubelet.apiserver.schema.catalogue import schema_of
from pykubelet.apiserver.schema.resources import Resource
from pykubelet.apiserver.strategies.autoscaler_rules import fill, spec_faults
from pykubelet.apiserver.strategies.autoscaler_versions import v1_of, v2_of
from pykubelet.apiserver.strategies.base import Strategy


class HorizontalPodAutoscalerStrategy(Strategy):
    def __init__(self, resource: Resource) -> None:
        super().__init__(resource)
        self.converts = resource.version == "v1"

    def normal(self, obj: Object) -> Object:
        result = super().normal(obj)
        spec = result.setdefault("spec", {})
        if self.converts:
            spec.setdefault("minReplicas", 1)
        else:
            fill(spec)
        return result

    def give_status(self, obj: Object) -> None:
        more: Object = {"currentReplicas": 0} if self.converts else {"currentMetrics": None}
        obj["status"] = {"desiredReplicas": 0, **more}

    def content_faults(self, obj: Object) -> Iterator[FieldError]:
        stored = self.to_storage(obj)
        yield from spec_faults(stored["spec"])
        for name in ("currentReplicas", "desiredReplicas"):
            yield from not_negative(f"status.{name}", at(stored, f"status.{name}"))

    def from_storage(self, obj: Object) -> Object:
        return v1_of(obj) if self.converts else obj

    def to_storage(self, obj: Object) -> Object:
        """Also for rules that are the same in both versions, and are said of v2."""
        if not self.converts:
            return obj
        made: Object = clean(v2_of(obj), schema_of("autoscaling/v2", self.resource.kind))
        fill(made.setdefault("spec", {}))
        return made
