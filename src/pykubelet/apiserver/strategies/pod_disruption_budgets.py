"""Pod disruption budgets: how many pods may be missing, and what makes no sense."""

from collections.abc import Iterator
from typing import ClassVar, Final

from pykubelet.api.codec import DecodeError, convert
from pykubelet.api.field_errors import FieldError, invalid, not_supported
from pykubelet.api.meta import LabelSelector
from pykubelet.api.validation.meta import validate_label_selector
from pykubelet.api.validation.rules import not_negative
from pykubelet.apiserver.objects import Object, at
from pykubelet.apiserver.strategies.base import Strategy
from pykubelet.apiserver.strategies.status_conditions import conditions_faults
from pykubelet.apiserver.strategies.workloads import amount_faults, percent_faults

_COUNTS: Final = ("currentHealthy", "desiredHealthy", "disruptionsAllowed", "expectedPods")
_POLICIES: Final = ("AlwaysAllow", "IfHealthyBudget")


class PodDisruptionBudgetStrategy(Strategy):
    updates_unconditionally: ClassVar[bool] = False

    def normal(self, obj: Object) -> Object:
        result = super().normal(obj)
        if (status := result.get("status")) is not None:
            for name in _COUNTS:
                status.setdefault(name, 0)
        return result

    def give_status(self, obj: Object) -> None:
        obj["status"] = dict.fromkeys(_COUNTS, 0)

    def content_faults(self, obj: Object) -> Iterator[FieldError]:
        spec = obj.get("spec") or {}
        if spec.get("minAvailable") is not None and spec.get("maxUnavailable") is not None:
            yield invalid("spec", spec, "minAvailable and maxUnavailable cannot be both set")
        for name in ("minAvailable", "maxUnavailable"):
            if spec.get(name) is not None:
                yield from amount_faults(f"spec.{name}", spec[name])
                yield from percent_faults(f"spec.{name}", spec[name])
        if spec.get("selector") is not None:
            try:
                yield from validate_label_selector(convert(LabelSelector, spec["selector"]), "spec.selector")
            except DecodeError as error:
                yield invalid("spec.selector", spec["selector"], str(error))
        policy = spec.get("unhealthyPodEvictionPolicy")
        if policy is not None and policy not in _POLICIES:
            yield not_supported("spec.unhealthyPodEvictionPolicy", policy, _POLICIES)
        for name in _COUNTS:
            yield from not_negative(f"status.{name}", at(obj, f"status.{name}"))
        yield from conditions_faults(at(obj, "status.conditions", ()))
