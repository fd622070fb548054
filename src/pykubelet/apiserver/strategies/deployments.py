"""Deployments: how they roll out by default, and what makes no sense."""

from collections.abc import Iterator
from typing import Any, ClassVar

from pykubelet.api.field_errors import FieldError, forbidden, invalid, not_supported
from pykubelet.api.validation.rules import not_negative
from pykubelet.apiserver.objects import Object, at
from pykubelet.apiserver.schema.schema import same
from pykubelet.apiserver.strategies.base import keep
from pykubelet.apiserver.strategies.workloads import (
    WorkloadStrategy,
    amount_faults,
    amount_of,
    is_readable,
    percent_faults,
    pods_faults,
    selector_faults,
)


class DeploymentStrategy(WorkloadStrategy):
    counts: ClassVar[tuple[str, ...]] = (
        "replicas",
        "updatedReplicas",
        "readyReplicas",
        "availableReplicas",
        "unavailableReplicas",
    )
    condition_times: ClassVar[tuple[str, ...]] = ("lastUpdateTime", "lastTransitionTime")

    def fill(self, obj: Object) -> None:
        spec = obj["spec"]
        spec.setdefault("replicas", 1)
        strategy = spec.setdefault("strategy", {})
        strategy["type"] = strategy.get("type") or "RollingUpdate"
        if strategy["type"] == "RollingUpdate":
            rolling = strategy.setdefault("rollingUpdate", {})
            rolling.setdefault("maxSurge", "25%")
            rolling.setdefault("maxUnavailable", "25%")
        spec.setdefault("revisionHistoryLimit", 10)
        spec.setdefault("progressDeadlineSeconds", 600)

    def prepare_update(self, obj: Object, old: Object, subresource: str) -> None:
        super().prepare_update(obj, old, subresource)
        if subresource == "status":
            keep(obj["metadata"], old["metadata"], "labels")

    def count_generation(self, obj: Object, old: Object) -> None:
        """Annotations count, too: they are copied to the replica sets."""
        super().count_generation(obj, old)
        one, other = at(obj, "metadata.annotations", {}), at(old, "metadata.annotations", {})
        if obj["metadata"]["generation"] == at(old, "metadata.generation", 0) and not same(one, other):
            obj["metadata"]["generation"] += 1

    def content_faults(self, obj: Object) -> Iterator[FieldError]:
        spec = obj["spec"]
        yield from not_negative("spec.replicas", spec.get("replicas"))
        yield from selector_faults(spec, "deployment")
        if is_readable(spec.get("selector")):
            yield from pods_faults(spec, "ReplicaSet")
        yield from _strategy_faults(spec.get("strategy") or {})
        least, deadline = spec.get("minReadySeconds", 0), spec.get("progressDeadlineSeconds")
        yield from not_negative("spec.minReadySeconds", least)
        yield from not_negative("spec.revisionHistoryLimit", spec.get("revisionHistoryLimit"))
        yield from not_negative("spec.progressDeadlineSeconds", deadline)
        if deadline is not None and deadline <= least:
            yield invalid("spec.progressDeadlineSeconds", deadline, "must be greater than minReadySeconds")


def _strategy_faults(strategy: dict[str, Any]) -> Iterator[FieldError]:
    match strategy.get("type"):
        case "Recreate":
            if strategy.get("rollingUpdate") is not None:
                text = "may not be specified when strategy `type` is 'Recreate'"
                yield forbidden("spec.strategy.rollingUpdate", text)
        case "RollingUpdate":
            rolling, path = strategy.get("rollingUpdate") or {}, "spec.strategy.rollingUpdate"
            fewer, more = rolling.get("maxUnavailable"), rolling.get("maxSurge")
            yield from amount_faults(f"{path}.maxUnavailable", fewer)
            yield from amount_faults(f"{path}.maxSurge", more)
            if amount_of(fewer) == 0 and amount_of(more) == 0:
                yield invalid(f"{path}.maxUnavailable", fewer, "may not be 0 when `maxSurge` is 0")
            yield from percent_faults(f"{path}.maxUnavailable", fewer)
        case _:
            yield not_supported("spec.strategy", strategy, ("Recreate", "RollingUpdate"))
