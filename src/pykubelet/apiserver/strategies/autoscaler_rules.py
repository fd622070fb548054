"""What a horizontal pod autoscaler has to say, in version 2: what is filled in, and what makes no sense. Pure."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from pykubelet.api.field_errors import FieldError, forbidden, invalid, not_supported, required
from pykubelet.api.quantity import parse
from pykubelet.api.validation import names
from pykubelet.api.validation.rules import spelled
from pykubelet.apiserver.objects import at
from pykubelet.apiserver.schema.schema import copied

_CPU_PERCENT: Final = 80
_LONGEST_WINDOW: Final = 3600
_LONGEST_PERIOD: Final = 1800
_MEMBERS: Final = {
    "Object": "object",
    "External": "external",
    "Pods": "pods",
    "Resource": "resource",
    "ContainerResource": "containerResource",
}
_UP: Final[dict[str, Any]] = {
    "stabilizationWindowSeconds": 0,
    "selectPolicy": "Max",
    "policies": [
        {"type": "Pods", "value": 4, "periodSeconds": 15},
        {"type": "Percent", "value": 100, "periodSeconds": 15},
    ],
}
_DOWN: Final[dict[str, Any]] = {
    "selectPolicy": "Max",
    "policies": [{"type": "Percent", "value": 100, "periodSeconds": 15}],
}
Spec = dict[str, Any]


def fill(spec: Spec) -> None:
    spec.setdefault("minReplicas", 1)
    if not spec.get("metrics"):
        target = {"type": "Utilization", "averageUtilization": _CPU_PERCENT}
        spec["metrics"] = [{"type": "Resource", "resource": {"name": "cpu", "target": target}}]
    if (behavior := spec.get("behavior")) is not None:
        for name, default in (("scaleUp", _UP), ("scaleDown", _DOWN)):
            behavior[name] = {**copied(default), **(behavior.get(name) or {})}


def spec_faults(spec: Spec) -> Iterator[FieldError]:
    least, most = spec.get("minReplicas", 1), spec.get("maxReplicas", 0)
    if least < 1:
        yield invalid("spec.minReplicas", least, "must be greater than or equal to 1")
    if most < 1:
        yield invalid("spec.maxReplicas", most, "must be greater than 0")
    if most < least:
        yield invalid("spec.maxReplicas", most, "must be greater than or equal to `minReplicas`")
    target = spec.get("scaleTargetRef") or {}
    for name in ("kind", "name"):
        if not target.get(name):
            yield required(f"spec.scaleTargetRef.{name}", "")
        elif "/" in target[name] or "%" in target[name]:
            yield invalid(f"spec.scaleTargetRef.{name}", target[name], "may not contain '/' or '%'")
    if (target.get("apiVersion") or "").count("/") > 1:
        text = f"unexpected GroupVersion string: {target['apiVersion']}"
        yield invalid("spec.scaleTargetRef.apiVersion", target["apiVersion"], text)
    elif target.get("apiVersion", "v1") != "v1" and "/" not in target["apiVersion"]:
        yield invalid("spec.scaleTargetRef.apiVersion", target["apiVersion"], "apiVersion must specify API group")
    for number, metric in enumerate(spec.get("metrics") or ()):
        yield from _metric_faults(metric, f"spec.metrics[{number}]")
    for name in ("scaleUp", "scaleDown"):
        rules = at(spec, f"behavior.{name}")
        if rules is not None:
            yield from _behavior_faults(rules, f"spec.behavior.{name}")


def _metric_faults(metric: Mapping[str, Any], path: str) -> Iterator[FieldError]:
    kind = metric.get("type", "")
    if kind not in _MEMBERS:
        yield not_supported(f"{path}.type", kind, tuple(sorted(_MEMBERS))) if kind else required(f"{path}.type", "")
        return
    member = _MEMBERS[kind]
    for other in _MEMBERS.values():
        if other != member and metric.get(other) is not None:
            text = f"must populate the given metric source only; for type {kind} that is {member}"
            yield forbidden(f"{path}.{other}", text)
    if metric.get(member) is None:
        yield required(f"{path}.{member}", "must populate information for the given metric source")
    for each, name in _MEMBERS.items():
        if metric.get(name) is not None:  # of several the first alone is looked at, whichever is meant
            yield from _source_faults(each, metric[name], f"{path}.{name}")
            return


def _source_faults(kind: str, source: Mapping[str, Any], path: str) -> Iterator[FieldError]:
    target = source.get("target") or {}
    yield from _target_faults(target, f"{path}.target")
    value, average, percent = (target.get(name) for name in ("value", "averageValue", "averageUtilization"))
    if kind in ("Resource", "ContainerResource"):
        if not source.get("name"):
            yield required(f"{path}.name", "must specify a resource name")
        if kind == "ContainerResource":
            if not source.get("container"):
                yield required(f"{path}.container", "must specify a container")
            else:
                yield from spelled(f"{path}.container", source["container"], names.dns_label(source["container"]))
        if percent is None and average is None:
            text = "must set either a target raw value or a target utilization"
            yield required(f"{path}.target.averageUtilization", text)
        if percent is not None and average is not None:
            text = "may not set both a target raw value and a target utilization"
            yield forbidden(f"{path}.target.averageValue", text)
        return
    if not at(source, "metric.name"):
        yield required(f"{path}.metric.name", "must specify a metric name")
    if kind == "Pods" and average is None:
        yield required(f"{path}.target.averageValue", "must specify a positive target averageValue")
    if kind != "Pods" and value is None and average is None:
        yield required(f"{path}.target.averageValue", "must set either a target value or averageValue")
    if kind == "External" and value is not None and average is not None:
        yield forbidden(f"{path}.target.value", "may not set both a target value and averageValue")


def _target_faults(target: Mapping[str, Any], path: str) -> Iterator[FieldError]:
    kind = target.get("type", "")
    if kind not in ("Utilization", "Value", "AverageValue"):
        yield invalid(f"{path}.type", kind, "must be either Utilization, Value, or AverageValue")
    for name in ("value", "averageValue"):
        if target.get(name) is not None and parse(str(target[name])).sign != 1:
            yield invalid(f"{path}.{name}", target[name], "must be positive")
    if target.get("averageUtilization", 1) < 1:
        yield invalid(f"{path}.averageUtilization", target["averageUtilization"], "must be greater than 0")


def _behavior_faults(rules: Mapping[str, Any], path: str) -> Iterator[FieldError]:
    window = rules.get("stabilizationWindowSeconds", 0)
    if not 0 <= window <= _LONGEST_WINDOW:
        text = f"must be greater than or equal to zero and less than or equal to {_LONGEST_WINDOW}"
        yield invalid(f"{path}.stabilizationWindowSeconds", window, text)
    if rules.get("selectPolicy", "Max") not in ("Max", "Min", "Disabled"):
        yield not_supported(f"{path}.selectPolicy", rules["selectPolicy"], ("Disabled", "Max", "Min"))
    if not rules.get("policies"):
        yield required(f"{path}.policies", "must specify at least one Policy")
    for number, policy in enumerate(rules.get("policies") or ()):
        where, period = f"{path}.policies[{number}]", policy.get("periodSeconds", 0)
        if policy.get("type") not in ("Pods", "Percent"):
            yield not_supported(f"{where}.type", policy.get("type", ""), ("Percent", "Pods"))
        if policy.get("value", 0) <= 0:
            yield invalid(f"{where}.value", policy.get("value", 0), "must be greater than zero")
        if not 0 < period <= _LONGEST_PERIOD:
            text = f"must be greater than zero and less than or equal to {_LONGEST_PERIOD}"
            yield invalid(f"{where}.periodSeconds", period, text)
