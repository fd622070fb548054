"""Nodes: their agent brings the status, and what it once set of the spec stays."""

from collections.abc import Iterator
from datetime import datetime
from typing import Final

from pykubelet.api.field_errors import FieldError, forbidden
from pykubelet.api.rules.well_known import NOT_READY_TAINT
from pykubelet.apiserver.objects import Object, at
from pykubelet.apiserver.schema.schema import copied
from pykubelet.apiserver.strategies.base import Strategy, keep

_NOT_READY: Final = (NOT_READY_TAINT, "NoSchedule")


class NodeStrategy(Strategy):
    selectable = {"spec.unschedulable": "spec.unschedulable"}

    def normal(self, obj: Object) -> Object:
        result = super().normal(obj)
        told = result.get("status", {})
        if told.get("capacity") and not told.get("allocatable"):
            told["allocatable"] = copied(told["capacity"])
        for condition in told.get("conditions", ()):
            condition.setdefault("lastHeartbeatTime", None)
            condition.setdefault("lastTransitionTime", None)
        return result

    def prepare_create(self, obj: Object, now: datetime) -> None:
        """A node comes with its status, which its agent knows, and takes no pods before it is seen to be ready."""
        taints = obj.setdefault("spec", {}).setdefault("taints", [])
        if not any((each.get("key"), each.get("effect")) == _NOT_READY for each in taints):
            taints.append({"key": _NOT_READY[0], "effect": _NOT_READY[1]})

    def prepare_update(self, obj: Object, old: Object, subresource: str) -> None:
        keep(obj, old, "spec" if subresource == "status" else "status")

    def validate_update(self, obj: Object, old: Object, subresource: str) -> Iterator[FieldError]:
        yield from self.validate_meta(obj)
        for name in ("podCIDR", "podCIDRs", "providerID"):
            was, now = at(old, f"spec.{name}"), at(obj, f"spec.{name}")
            if was and now != was:
                yield forbidden(f"spec.{name}", "node updates may not change it once it is set")

    def fields(self, obj: Object) -> dict[str, str]:
        found = super().fields(obj)
        found["spec.unschedulable"] = found["spec.unschedulable"] or "false"
        return found
