"""Jobs: the selector that finds the pods of one job and of no other, what may change while it runs, and what its status
may say."""

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Final

from pykubelet.api.codec import DecodeError, convert
from pykubelet.api.field_errors import FieldError, invalid, required
from pykubelet.api.meta import LabelSelector
from pykubelet.api.selectors import from_json, matches
from pykubelet.api.validation import names
from pykubelet.api.validation.meta import validate_label_selector
from pykubelet.apiserver.objects import Object, at
from pykubelet.apiserver.schema.schema import copied, same
from pykubelet.apiserver.strategies.job_specs import fill_spec, spec_faults
from pykubelet.apiserver.strategies.job_statuses import change_faults, status_faults
from pykubelet.apiserver.strategies.pod_templates import selection_faults
from pykubelet.apiserver.strategies.workloads import WorkloadStrategy

_UID_LABEL: Final = "batch.kubernetes.io/controller-uid"
_IMMUTABLE: Final = (
    "selector",
    "completionMode",
    "podFailurePolicy",
    "backoffLimitPerIndex",
    "managedBy",
    "successPolicy",
)
_WHERE_PODS_RUN: Final = ("nodeSelector", "tolerations", "schedulingGates")


class JobStrategy(WorkloadStrategy):
    orphans_by_default: ClassVar[bool] = True
    selectable = {"status.successful": "status.succeeded"}

    def fill(self, obj: Object) -> None:
        if at(obj, "spec.selector") or at(obj, "spec.manualSelector"):
            _take_labels(obj)
        fill_spec(obj["spec"])
        obj["spec"].setdefault("manualSelector", False)

    def give_status(self, obj: Object) -> None:
        obj["status"] = {}
        if not obj["spec"].get("manualSelector"):
            _generate_selector(obj)
        _take_labels(obj)

    def fields(self, obj: Object) -> dict[str, str]:
        found = super().fields(obj)
        return {**found, "status.successful": found["status.successful"] or "0"}

    def content_faults(self, obj: Object) -> Iterator[FieldError]:
        spec = obj["spec"]
        if not spec.get("manualSelector"):
            yield from _generated_faults(obj)
        yield from spec_faults(spec, "spec")
        if spec.get("selector") is None:
            yield required("spec.selector")
        else:
            try:
                yield from validate_label_selector(convert(LabelSelector, spec["selector"]), "spec.selector")
            except DecodeError as error:
                yield invalid("spec.selector", spec["selector"], str(error))
            yield from selection_faults(spec["selector"], spec.get("template") or {})
        if spec.get("completionMode") == "Indexed" and (spec.get("completions") or 0) > 0:
            name = f"{obj['metadata'].get('name', '')}-{spec['completions'] - 1}"
            if names.dns_label(name):
                text = f"will not able to create pod with invalid DNS label: {name}"
                yield invalid("metadata.name", obj["metadata"].get("name", ""), text)

    def change_faults(self, obj: Object, old: Object) -> Iterator[FieldError]:
        spec, was = obj["spec"], old["spec"]
        yield from _completions_faults(spec, was)
        for name in _IMMUTABLE:
            if not same(spec.get(name), was.get(name)):
                yield invalid(f"spec.{name}", spec.get(name), "field is immutable")
        template = was["template"]
        if was.get("suspend") and not at(old, "status.startTime"):
            template = _movable(template, spec["template"])
        if not same(spec["template"], template):
            yield invalid("spec.template", spec["template"], "field is immutable")

    def validate_update(self, obj: Object, old: Object, subresource: str) -> Iterator[FieldError]:
        if subresource == "status":
            yield from self.validate_meta(obj)
            yield from status_faults(obj, old)
            yield from change_faults(obj, old)
        else:
            yield from super().validate_update(obj, old, subresource)


def _take_labels(job: Object) -> None:
    """One that has no labels has those of its pods, the generated ones too."""
    labels = at(job, "spec.template.metadata.labels", {})
    if labels and not at(job, "metadata.labels"):
        job.setdefault("metadata", {})["labels"] = dict(labels)


def _generate_selector(job: Object) -> None:
    """Labels that no other job has; what somebody has set by hand is left, and refused later."""
    metadata, spec = job["metadata"], job["spec"]
    spec["template"]["metadata"] = template = {**spec["template"].get("metadata", {})}
    template["labels"] = labels = {**template.get("labels", {})}
    for name, value in _own_labels(metadata).items():
        labels.setdefault(name, value)
    spec["selector"] = selector = {**(spec.get("selector") or {})}
    selector["matchLabels"] = {_UID_LABEL: metadata["uid"], **selector.get("matchLabels", {})}


def _own_labels(metadata: Mapping[str, Any]) -> dict[str, str]:
    name, uid = metadata.get("name", ""), metadata.get("uid", "")
    return {"job-name": name, "batch.kubernetes.io/job-name": name, "controller-uid": uid, _UID_LABEL: uid}


def _generated_faults(job: Object) -> Iterator[FieldError]:
    if at(job, "spec.selector") is None:
        return
    own, labels = _own_labels(job["metadata"]), at(job, "spec.template.metadata.labels", {})
    for name, value in own.items():
        if name not in labels:
            yield required(f"spec.template.metadata.labels[{name}]", f"must be {value!r}")
        elif labels[name] != value:
            yield invalid(f"spec.template.metadata.labels[{name}]", labels[name], f"must be {value!r}")
    try:
        finds = matches(from_json(at(job, "spec.selector")), own)
    except ValueError:
        return  # what is wrong with it is told elsewhere
    if not finds:
        yield invalid("spec.selector", at(job, "spec.selector"), "`selector` not auto-generated")


def _completions_faults(spec: Mapping[str, Any], was: Mapping[str, Any]) -> Iterator[FieldError]:
    completions = spec.get("completions")
    if completions == was.get("completions"):
        return
    if spec.get("completionMode") != "Indexed":
        yield invalid("spec.completions", completions, "field is immutable")
    elif completions is not None and completions != spec.get("parallelism"):
        yield invalid("spec.completions", completions, "can only be modified in tandem with spec.parallelism")


def _movable(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    """The old template with what decides on where its pods run taken from the new one."""
    result = copied(old)
    for name in ("labels", "annotations"):
        _take(result.setdefault("metadata", {}), new.get("metadata", {}), name)
    spec, wanted = result.setdefault("spec", {}), new.get("spec", {})
    for name in _WHERE_PODS_RUN:
        _take(spec, wanted, name)
    if wanted.get("affinity") is None:
        if set(spec.get("affinity") or {}) <= {"nodeAffinity"}:
            spec.pop("affinity", None)
    else:
        _take(spec.setdefault("affinity", {}), wanted["affinity"], "nodeAffinity")
    return dict(result)


def _take(target: dict[str, Any], source: Mapping[str, Any], name: str) -> None:
    target.pop(name, None)
    if name in source:
        target[name] = source[name]
