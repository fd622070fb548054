"""What the kinds that make pods have in common: a template, a selector that finds its pods, counts in the status."""

import re
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Final

from pykubelet.api.codec import DecodeError, convert
from pykubelet.api.field_errors import FieldError, forbidden, invalid, not_supported, required
from pykubelet.api.meta import LabelSelector
from pykubelet.api.validation.meta import validate_label_selector
from pykubelet.api.validation.rules import not_negative
from pykubelet.apiserver.objects import Object, at
from pykubelet.apiserver.schema.schema import same
from pykubelet.apiserver.strategies.base import Strategy, keep
from pykubelet.apiserver.strategies.pod_templates import normal_template, selection_faults, template_faults

TEMPLATE: Final = "spec.template"
_NOT_COMPARED: Final = ("replicas", "unavailableReplicas")
_PERCENT: Final = re.compile("[0-9]+%")


class WorkloadStrategy(Strategy):
    counts: ClassVar[tuple[str, ...]] = ()
    """What the status counts."""
    always_counted: ClassVar[tuple[str, ...]] = ()
    """Those of them that are there even when they are 0."""

    condition_times: ClassVar[tuple[str, ...]] = ("lastTransitionTime",)
    """What each condition of the status has, if only as null."""
    needs_template: ClassVar[bool] = False
    """Whether one that is not there is told from an empty one."""

    def normal(self, obj: Object) -> Object:
        result = super().normal(obj)
        spec = result.setdefault("spec", {})
        if spec.get("template") is not None or not self.needs_template:
            spec["template"] = normal_template(spec.get("template") or {}, TEMPLATE)
        self.fill(result)
        if (status := result.get("status")) is not None:
            for name in self.always_counted:
                status.setdefault(name, 0)
            for condition in status.get("conditions", ()):
                for name in self.condition_times:
                    condition.setdefault(name, None)
        return result

    def fill(self, obj: Object) -> None:
        """The defaults of the kind itself."""

    def give_status(self, obj: Object) -> None:
        obj["status"] = dict.fromkeys(self.always_counted, 0)

    def prepare_update(self, obj: Object, old: Object, subresource: str) -> None:
        if subresource == "status":
            keep(obj, old, "spec")
            if "terminatingReplicas" not in (old.get("status") or {}):  # as long as that is not everybody's feature
                (obj.get("status") or {}).pop("terminatingReplicas", None)
        else:
            keep(obj, old, "status")
            self.count_generation(obj, old)

    def validate_update(self, obj: Object, old: Object, subresource: str) -> Iterator[FieldError]:
        yield from self.validate_meta(obj)
        if subresource == "status":
            yield from self.status_faults(obj.get("status") or {}, old.get("status") or {})
        else:
            yield from self.content_faults(obj)
            yield from self.change_faults(obj, old)

    def change_faults(self, obj: Object, old: Object) -> Iterator[FieldError]:
        """What may not change."""
        if not same(at(obj, "spec.selector"), at(old, "spec.selector")):
            yield invalid("spec.selector", at(obj, "spec.selector"), "field is immutable")

    def status_faults(self, status: Mapping[str, Any], old: Mapping[str, Any]) -> Iterator[FieldError]:
        for name in (*self.counts, "observedGeneration", "collisionCount"):
            yield from not_negative(f"status.{name}", status.get(name))
        total, available = status.get("replicas", 0), status.get("availableReplicas", 0)
        for name in self.counts if "replicas" in self.counts else ():
            if name not in _NOT_COMPARED and (count := status.get(name, 0)) > total:
                yield invalid(f"status.{name}", count, "cannot be greater than status.replicas")
        if available > status.get("readyReplicas", 0):
            yield invalid("status.availableReplicas", available, "cannot be greater than readyReplicas")
        if status.get("collisionCount", 0) < old.get("collisionCount", 0):
            yield invalid("status.collisionCount", status.get("collisionCount", 0), "cannot be decremented")


def selector_faults(spec: Mapping[str, Any], what: str, *, as_a_whole: bool = True) -> Iterator[FieldError]:
    """What is wrong with the selector of a kind that has to have one, and with pods that it does not find.

    `as_a_whole`: that it cannot be read is told besides why.
    """
    given = spec.get("selector")
    if given is None:
        yield required("spec.selector")
        yield unselected(spec)
        return
    faults = list(spelling_faults(given))
    yield from faults
    if not given.get("matchLabels") and not given.get("matchExpressions"):
        yield invalid("spec.selector", given, f"empty selector is invalid for {what}")
    if faults and as_a_whole:
        yield invalid("spec.selector", given, "invalid label selector")
    if not faults:
        yield from selection_faults(given, spec.get("template") or {})


def spelling_faults(selector: Mapping[str, Any]) -> Iterator[FieldError]:
    try:
        yield from validate_label_selector(convert(LabelSelector, selector), "spec.selector")
    except DecodeError as error:
        yield invalid("spec.selector", selector, error.reason)


def is_readable(selector: Mapping[str, Any] | None) -> bool:
    """Whether it can be asked which pods it finds; if not, nothing is said of the template."""
    return not any(spelling_faults(selector or {}))


def unselected(spec: Mapping[str, Any]) -> FieldError:
    labels = at(spec, "template.metadata.labels")
    return invalid(f"{TEMPLATE}.metadata.labels", labels, "`selector` does not match template `labels`")


def pods_faults(spec: Mapping[str, Any], what: str) -> Iterator[FieldError]:
    """What is wrong with the template of a kind whose pods run for ever."""
    template = spec.get("template") or {}
    yield from template_faults(template, TEMPLATE)
    policy = at(template, "spec.restartPolicy", "")
    if policy != "Always":
        yield not_supported(f"{TEMPLATE}.spec.restartPolicy", policy, ("Always",))
    if at(template, "spec.activeDeadlineSeconds") is not None:
        yield forbidden(f"{TEMPLATE}.spec.activeDeadlineSeconds", f"activeDeadlineSeconds in {what} is not Supported")


def amount_faults(field: str, value: Any) -> Iterator[FieldError]:
    """Of a number that may be a percentage."""
    if isinstance(value, str):
        if not _PERCENT.fullmatch(value):
            yield invalid(field, value, "must be a percentage, such as 25%")
    elif value is None or value < 0:
        yield invalid(field, value, "must be greater than or equal to 0")


def percent_faults(field: str, value: Any) -> Iterator[FieldError]:
    if isinstance(value, str) and _PERCENT.fullmatch(value) and int(value[:-1]) > 100:
        yield invalid(field, value, "must not be greater than 100%")


def amount_of(value: Any) -> int:
    """The number, whatever it is a part of."""
    if isinstance(value, str):
        return int(value[:-1]) if _PERCENT.fullmatch(value) else 0
    return int(value or 0)
