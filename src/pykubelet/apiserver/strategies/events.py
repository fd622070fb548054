"""Events: one storage behind two groups of the API, which name the same fields differently."""

from collections.abc import Iterator
from typing import Any, ClassVar, Final

from pykubelet.api.field_errors import FieldError, invalid
from pykubelet.api.validation import names
from pykubelet.api.validation.rules import spelled
from pykubelet.apiserver.objects import Object, at
from pykubelet.apiserver.schema.resources import Resource
from pykubelet.apiserver.strategies.base import Strategy

# The name in the new group, and in the old one.
_RENAMED: Final = (
    ("regarding", "involvedObject"),
    ("note", "message"),
    ("deprecatedSource", "source"),
    ("deprecatedFirstTimestamp", "firstTimestamp"),
    ("deprecatedLastTimestamp", "lastTimestamp"),
    ("deprecatedCount", "count"),
    ("reportingController", "reportingComponent"),
)
_TIMES: Final = {
    False: ("firstTimestamp", "lastTimestamp", "eventTime"),
    True: ("deprecatedFirstTimestamp", "deprecatedLastTimestamp", "eventTime"),
}
_TO_CORE: Final = dict(_RENAMED)
_FROM_CORE: Final = {core: new for new, core in _RENAMED}
_OLD: Final = ("deprecatedFirstTimestamp", "deprecatedLastTimestamp", "deprecatedCount", "deprecatedSource")
_REFERENCE: Final = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")


class EventStrategy(Strategy):
    creates_on_update: ClassVar[bool] = True
    selectable = {
        **{f"involvedObject.{name}": f"involvedObject.{name}" for name in _REFERENCE},
        "reason": "reason",
        "reportingComponent": "reportingComponent",
        "source": "source.component",
        "type": "type",
    }

    def __init__(self, resource: Resource) -> None:
        super().__init__(resource)
        self.is_new_group = self.converts = bool(resource.group)

    def from_storage(self, obj: Object) -> Object:
        if not self.is_new_group:
            return obj
        result = {_FROM_CORE.get(key, key): value for key, value in obj.items()}
        return {**result, "apiVersion": self.resource.api_version}

    def to_storage(self, obj: Object) -> Object:
        if not self.is_new_group:
            return obj
        return {**{_TO_CORE.get(key, key): value for key, value in obj.items()}, "apiVersion": "v1"}

    def normal(self, obj: Object) -> Object:
        result = super().normal(obj)
        for name in _TIMES[self.is_new_group]:
            result.setdefault(name, None)
        if self.is_new_group:
            result.setdefault("deprecatedSource", {})
        return result

    def validate(self, obj: Object) -> Iterator[FieldError]:
        yield from super().validate(obj)
        name = "regarding" if self.is_new_group else "involvedObject"
        namespace = at(obj, f"{name}.namespace", "")
        own = obj["metadata"].get("namespace", "")
        agrees = (namespace or "default") == own
        if obj.get("eventTime"):  # of newer ones it is only said where those belong that are about no namespace
            agrees = bool(namespace) or own in ("default", "kube-system")
        if not agrees:
            yield invalid(f"{name}.namespace", namespace, "does not match event.namespace")
        if self.is_new_group:
            yield from self._new_faults(obj)

    def _new_faults(self, obj: Object) -> Iterator[FieldError]:
        needed: dict[str, Any] = {
            "eventTime": obj.get("eventTime"),
            "reportingController": obj.get("reportingController"),
            "reportingInstance": obj.get("reportingInstance"),
            "action": obj.get("action"),
            "reason": obj.get("reason"),
        }
        for name, value in needed.items():
            if not value:
                yield FieldError("FieldValueRequired", name, "")
        if obj.get("type") not in ("Normal", "Warning"):
            yield invalid("type", obj.get("type", ""), "has to be Normal or Warning")
        controller = obj.get("reportingController") or ""
        yield from spelled("reportingController", controller, names.qualified_name(controller))
        for name in _OLD:
            if obj.get(name):
                yield invalid(_TO_CORE[name], "", "needs to be unset")
        if (series := obj.get("series")) is not None:
            if series.get("count", 0) < 2:
                yield invalid("series.count", "", "should be at least 2")
            if not series.get("lastObservedTime"):
                yield FieldError("FieldValueRequired", "series.lastObservedTime", "")

    def is_selectable(self, field: str) -> bool:
        if self.is_new_group and field.startswith("regarding."):
            return super().is_selectable(field.replace("regarding.", "involvedObject.", 1))
        return super().is_selectable(field)

    def fields(self, obj: Object) -> dict[str, str]:
        core = self.to_storage(obj)
        found = super().fields(core)
        found["source"] = found["source"] or found["reportingComponent"]
        found |= {f"regarding.{name}": found[f"involvedObject.{name}"] for name in _REFERENCE}
        return found
