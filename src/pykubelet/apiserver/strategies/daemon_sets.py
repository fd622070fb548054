"""Daemon sets: how they are renewed by default, and the count of their templates."""

from collections.abc import Iterator
from datetime import datetime
from typing import Any, ClassVar, Final

from pykubelet.api.codec import DecodeError
from pykubelet.api.field_errors import FieldError, invalid, not_supported, required
from pykubelet.api.validation.rules import not_negative
from pykubelet.apiserver.objects import Object, at
from pykubelet.apiserver.schema.schema import same
from pykubelet.apiserver.strategies.workloads import (
    WorkloadStrategy,
    amount_faults,
    amount_of,
    percent_faults,
    pods_faults,
    selector_faults,
    unselected,
)

GENERATION: Final = "deprecated.daemonset.template.generation"


class DaemonSetStrategy(WorkloadStrategy):
    counts: ClassVar[tuple[str, ...]] = (
        "currentNumberScheduled",
        "numberMisscheduled",
        "desiredNumberScheduled",
        "numberReady",
        "updatedNumberScheduled",
        "numberAvailable",
        "numberUnavailable",
    )
    always_counted: ClassVar[tuple[str, ...]] = counts[:4]

    def fill(self, obj: Object) -> None:
        spec = obj["spec"]
        strategy = spec.setdefault("updateStrategy", {})
        strategy["type"] = strategy.get("type") or "RollingUpdate"
        if strategy["type"] == "RollingUpdate":
            rolling = strategy.setdefault("rollingUpdate", {})
            rolling.setdefault("maxUnavailable", 1)
            rolling.setdefault("maxSurge", 0)
        spec.setdefault("revisionHistoryLimit", 10)
        given = at(obj, "metadata.annotations", {}).get(GENERATION, "0")
        if not (given.isascii() and given.removeprefix("-").isdigit()):
            raise DecodeError(f"must be a whole number, got {given[:80]!r}", f"metadata.annotations[{GENERATION}]")
        _number(obj, int(given))  # whoever writes one has written it, too

    def prepare_create(self, obj: Object, now: datetime) -> None:
        super().prepare_create(obj, now)
        _number(obj, max(_generation(obj), 1))

    def prepare_update(self, obj: Object, old: Object, subresource: str) -> None:
        generation = _generation(old)
        super().prepare_update(obj, old, subresource)
        if subresource == "status":
            _number(obj, generation)
            return
        is_new = not same(at(obj, "spec.template"), at(old, "spec.template"))
        _number(obj, generation + 1 if is_new else generation)

    def content_faults(self, obj: Object) -> Iterator[FieldError]:
        spec = obj["spec"]
        if spec.get("selector") is None:
            yield unselected(spec)
        else:
            yield from selector_faults(spec, "daemonset", as_a_whole=False)
        yield from pods_faults(spec, "DaemonSet")
        yield from not_negative("spec.minReadySeconds", spec.get("minReadySeconds"))
        yield from _strategy_faults(spec.get("updateStrategy") or {})
        yield from not_negative("spec.revisionHistoryLimit", spec.get("revisionHistoryLimit"))


def _generation(obj: Object) -> int:
    return int(at(obj, "metadata.annotations", {}).get(GENERATION, "0"))


def _number(obj: Object, generation: int) -> None:
    obj["metadata"]["annotations"] = {**(obj["metadata"].get("annotations") or {}), GENERATION: str(generation)}


def _strategy_faults(strategy: dict[str, Any]) -> Iterator[FieldError]:
    match strategy.get("type"):
        case "OnDelete":
            return
        case "RollingUpdate":
            rolling, path = strategy.get("rollingUpdate") or {}, "spec.updateStrategy.rollingUpdate"
            fewer, more = rolling.get("maxUnavailable"), rolling.get("maxSurge")
            for name, value in (("maxUnavailable", fewer), ("maxSurge", more)):
                yield from amount_faults(f"{path}.{name}", value)
                yield from percent_faults(f"{path}.{name}", value)
            if amount_of(fewer) and amount_of(more):
                yield invalid(f"{path}.maxSurge", more, "may not be set when maxUnavailable is non-zero")
            if not amount_of(fewer) and not amount_of(more):
                yield required(f"{path}.maxUnavailable", "cannot be 0 when maxSurge is 0")
        case _:
            yield not_supported("spec.updateStrategy", strategy, ("RollingUpdate", "OnDelete"))
