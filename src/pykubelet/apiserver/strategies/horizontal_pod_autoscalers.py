"""Horizontal pod autoscalers, in both versions that are served."""

from pykubelet.apiserver.objects import Object, clean
from pykubelet.apiserver.schema.catalogue import schema_of
from pykubelet.apiserver.schema.resources import Resource
from pykubelet.apiserver.strategies.autoscaler_versions import v1_of, v2_of
from pykubelet.apiserver.strategies.base import Strategy


class HorizontalPodAutoscalerStrategy(Strategy):
    def __init__(self, resource: Resource) -> None:
        super().__init__(resource)
        self.converts = resource.version == "v1"

    def from_storage(self, obj: Object) -> Object:
        return v1_of(obj) if self.converts else obj

    def to_storage(self, obj: Object) -> Object:
        """Also for rules that are the same in both versions, and are said of v2."""
        if not self.converts:
            return obj
        made: Object = clean(v2_of(obj), schema_of("autoscaling/v2", self.resource.kind))
        return made
