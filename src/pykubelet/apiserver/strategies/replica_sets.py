"""Replica sets and, under their older name, replication controllers."""

from collections.abc import Iterator
from typing import ClassVar

from pykubelet.api.field_errors import FieldError, required
from pykubelet.api.validation.meta import validate_labels
from pykubelet.api.validation.rules import not_negative
from pykubelet.apiserver.objects import Object, at
from pykubelet.apiserver.strategies.pod_templates import selection_faults
from pykubelet.apiserver.strategies.workloads import WorkloadStrategy, is_readable, pods_faults, selector_faults


class ReplicaSetStrategy(WorkloadStrategy):
    selectable = {"status.replicas": "status.replicas"}
    counts: ClassVar[tuple[str, ...]] = ("replicas", "fullyLabeledReplicas", "readyReplicas", "availableReplicas")
    always_counted: ClassVar[tuple[str, ...]] = ("replicas",)

    def fill(self, obj: Object) -> None:
        obj["spec"].setdefault("replicas", 1)

    def content_faults(self, obj: Object) -> Iterator[FieldError]:
        spec = obj["spec"]
        yield from not_negative("spec.replicas", spec.get("replicas"))
        yield from not_negative("spec.minReadySeconds", spec.get("minReadySeconds"))
        yield from selector_faults(spec, "deployment")
        if is_readable(spec.get("selector")):
            yield from pods_faults(spec, "ReplicaSet")


class ReplicationControllerStrategy(ReplicaSetStrategy):
    orphans_by_default: ClassVar[bool] = True
    needs_template: ClassVar[bool] = True

    def fill(self, obj: Object) -> None:
        super().fill(obj)
        labels = at(obj, "spec.template.metadata.labels", {})
        if labels and not obj["spec"].get("selector"):
            obj["spec"]["selector"] = dict(labels)
        if labels and not at(obj, "metadata.labels"):
            obj.setdefault("metadata", {})["labels"] = dict(labels)

    def content_faults(self, obj: Object) -> Iterator[FieldError]:
        spec = obj["spec"]
        yield from not_negative("spec.minReadySeconds", spec.get("minReadySeconds"))
        selector = spec.get("selector") or {}
        if not selector:
            yield required("spec.selector")
        yield from validate_labels(selector, "spec.selector")
        yield from not_negative("spec.replicas", spec.get("replicas"))
        if spec.get("template") is None:
            yield required("spec.template")
            return
        yield from selection_faults({"matchLabels": selector}, spec["template"])
        yield from pods_faults(spec, "ReplicationController")

    def change_faults(self, obj: Object, old: Object) -> Iterator[FieldError]:
        return iter(())
