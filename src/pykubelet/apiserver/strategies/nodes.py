"""Nodes: their agent brings the status, and what it once set of the spec stays."""

from collections.abc import Iterator
from datetime import datetime
from typing import Final

from pykubelet.api.field_errors import FieldError, forbidden
from pykubelet.api.rules.well_known import NOT_READY_TAINT
from pykubelet.api.validation import names
from pykubelet.api.validation.rules import needed_one_of, spelled
from pykubelet.apiserver.objects import Object, at
from pykubelet.apiserver.schema.schema import copied
from pykubelet.apiserver.strategies.addresses import pair_faults, range_faults
from pykubelet.apiserver.strategies.base import Strategy, keep

_NOT_READY: Final = (NOT_READY_TAINT, "NoSchedule")


class NodeStrategy(Strategy):
    selectable = {"spec.unschedulable": "spec.unschedulable"}

    def normal(self, obj: Object) -> Object:
        result = super().normal(obj)
        _agree_on_ranges(result.get("spec") or {})
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
        yield from self.content_faults(obj)
        for name in ("podCIDR", "podCIDRs", "providerID"):
            was, now = at(old, f"spec.{name}"), at(obj, f"spec.{name}")
            if was and now != was:
                yield forbidden(f"spec.{name}", "node updates may not change it once it is set")

    def content_faults(self, obj: Object) -> Iterator[FieldError]:
        seen: set[tuple[str, str]] = set()
        for index, taint in enumerate(at(obj, "spec.taints", ())):
            field, key, effect = f"metadata.taints[{index}]", taint.get("key", ""), taint.get("effect", "")
            yield from spelled(f"{field}.key", key, names.qualified_name(key))
            yield from spelled(f"{field}.value", taint.get("value", ""), names.label_value(taint.get("value", "")))
            yield from needed_one_of(f"{field}.effect", effect, ("NoExecute", "NoSchedule", "PreferNoSchedule"))
            if (key, effect) in seen:
                detail = "taints must be unique by key and effect pair"
                yield FieldError("FieldValueDuplicate", field, detail, taint)
            seen.add((key, effect))
        ranges = at(obj, "spec.podCIDRs", [])
        for index, each in enumerate(ranges):
            yield from range_faults(f"spec.podCIDRs[{index}]", each)
        yield from pair_faults("spec.podCIDRs", ranges)

    def fields(self, obj: Object) -> dict[str, str]:
        found = super().fields(obj)
        found["spec.unschedulable"] = found["spec.unschedulable"] or "false"
        return found


def _agree_on_ranges(spec: Object) -> None:
    """One range may be told in two places: the older one counts."""
    first, ranges = spec.get("podCIDR"), spec.get("podCIDRs") or []
    if first and ranges[:1] != [first]:
        spec["podCIDRs"] = [first]
    elif ranges:
        spec["podCIDR"] = ranges[0]
