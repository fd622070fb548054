"""Horizontal pod autoscalers in two versions: v2 is stored, and v1 has in annotations what it has no fields for."""

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from pykubelet.apiserver.objects import Object

_PREFIX: Final = "autoscaling.alpha.kubernetes.io/"
_METRICS: Final = f"{_PREFIX}metrics"
_CURRENT: Final = f"{_PREFIX}current-metrics"
_CONDITIONS: Final = f"{_PREFIX}conditions"
_BEHAVIOR: Final = f"{_PREFIX}behavior"
_CARRIED: Final = (_METRICS, _CURRENT, _CONDITIONS, _BEHAVIOR)
_AS_IS: Final = ("scaleTargetRef", "minReplicas", "maxReplicas")
_COUNTS: Final = ("observedGeneration", "lastScaleTime", "currentReplicas", "desiredReplicas")
_MEMBERS: Final = {
    "Resource": "resource",
    "ContainerResource": "containerResource",
    "Pods": "pods",
    "Object": "object",
    "External": "external",
}

# What a number is called in v1, by kind of metric and by its name in v2: as a target, and as it is now.
_TARGETS: Final[dict[str, dict[str, str]]] = {
    "Resource": {"averageUtilization": "targetAverageUtilization", "averageValue": "targetAverageValue"},
    "ContainerResource": {"averageUtilization": "targetAverageUtilization", "averageValue": "targetAverageValue"},
    "Pods": {"averageValue": "targetAverageValue"},
    "Object": {"averageValue": "averageValue", "value": "targetValue"},
    "External": {"value": "targetValue", "averageValue": "targetAverageValue"},
}
_NOW: Final[dict[str, dict[str, str]]] = {
    "Resource": {"averageUtilization": "currentAverageUtilization", "averageValue": "currentAverageValue"},
    "ContainerResource": {"averageUtilization": "currentAverageUtilization", "averageValue": "currentAverageValue"},
    "Pods": {"averageValue": "currentAverageValue"},
    "Object": {"value": "currentValue", "averageValue": "averageValue"},
    "External": {"value": "currentValue", "averageValue": "currentAverageValue"},
}
_TYPES: Final = {"averageUtilization": "Utilization", "averageValue": "AverageValue", "value": "Value"}


def v1_of(obj: Object) -> Object:
    """What a client of v1 sees of what is stored."""
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    given = {name: spec[name] for name in _AS_IS if name in spec}
    now = {name: status[name] for name in _COUNTS if name in status}
    carried: dict[str, Any] = {}
    others = []
    for metric in spec.get("metrics") or ():
        if (percent := _cpu(metric, "target")) is not None:
            given["targetCPUUtilizationPercentage"] = percent
        else:
            others.append(_old_metric(metric, "target", _TARGETS))
    for metric in status.get("currentMetrics") or ():
        if (percent := _cpu(metric, "current")) is not None:
            now["currentCPUUtilizationPercentage"] = percent
    carried[_METRICS] = others
    carried[_CURRENT] = [_old_metric(each, "current", _NOW) for each in status.get("currentMetrics") or ()]
    carried[_CONDITIONS], carried[_BEHAVIOR] = status.get("conditions"), spec.get("behavior")
    notes = {name: msgspec.json.encode(value).decode() for name, value in carried.items() if value}
    return _made(obj, "autoscaling/v1", given, now, notes)


def v2_of(obj: Object) -> Object:
    """What is stored of what a client of v1 says."""
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    given: Object = {name: spec[name] for name in _AS_IS if name in spec}
    now = {name: status[name] for name in _COUNTS if name in status}
    notes = (obj.get("metadata") or {}).get("annotations") or {}
    metrics = list(_new_metrics(_carried(notes, _METRICS), "target", _TARGETS))
    if (percent := spec.get("targetCPUUtilizationPercentage")) is not None:
        metrics.append(_cpu_metric("target", {"type": "Utilization", "averageUtilization": percent}))
    current = list(_new_metrics(_carried(notes, _CURRENT), "current", _NOW))
    if not current and (percent := status.get("currentCPUUtilizationPercentage")) is not None:
        current = [_cpu_metric("current", {"averageUtilization": percent})]
    behavior, conditions = _carried(notes, _BEHAVIOR), _carried(notes, _CONDITIONS)
    given |= {"metrics": metrics} if metrics else {}
    given |= {"behavior": behavior} if isinstance(behavior, dict) else {}
    now |= {"conditions": conditions} if isinstance(conditions, list) else {}
    return _made(obj, "autoscaling/v2", given, {**now, "currentMetrics": current or None}, {})


def _made(obj: Object, api_version: str, spec: Object, status: Object, notes: dict[str, str]) -> Object:
    metadata = dict(obj["metadata"])
    annotations = {key: value for key, value in metadata.pop("annotations", {}).items() if key not in _CARRIED} | notes
    if annotations:
        metadata["annotations"] = annotations
    made = {**obj, "apiVersion": api_version, "metadata": metadata, "spec": spec}
    return {**made, "status": status} if "status" in obj else made


def _cpu(metric: Object, which: str) -> int | None:
    """How much of their cpu pods use, if this says so."""
    if metric.get("type") != "Resource" or metric.get("resource", {}).get("name") != "cpu":
        return None
    found: int | None = metric["resource"].get(which, {}).get("averageUtilization")
    return found


def _cpu_metric(which: str, numbers: Object) -> Object:
    return {"type": "Resource", "resource": {"name": "cpu", which: numbers}}


def _carried(notes: dict[str, str], name: str) -> Any:
    """What stands in an annotation; None when that cannot be read: then it is as if it were not there."""
    try:
        return msgspec.json.decode(notes.get(name) or "null")
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None


def _old_metric(metric: Object, which: str, names: dict[str, dict[str, str]]) -> Object:
    kind = metric.get("type", "")
    member = _MEMBERS.get(kind, "")
    inner = dict(metric.get(member) or {})
    numbers = inner.pop(which, None) or {}
    about = inner.pop("metric", None) or {}
    if about:
        inner["metricName"] = about.get("name", "")
    if about.get("selector"):
        inner["metricSelector" if kind == "External" else "selector"] = about["selector"]
    if "describedObject" in inner:
        inner["target"] = inner.pop("describedObject")
    inner |= {old: numbers[new] for new, old in names.get(kind, {}).items() if new in numbers}
    return {"type": kind, member: inner}


def _new_metrics(metrics: Any, which: str, names: dict[str, dict[str, str]]) -> Iterator[Object]:
    for metric in metrics if isinstance(metrics, list) else ():
        kind = metric.get("type", "") if isinstance(metric, dict) else ""
        member = _MEMBERS.get(kind, "")
        inner = dict(metric.get(member) or {}) if member else {}
        if not inner:
            continue
        if "target" in inner:
            inner["describedObject"] = inner.pop("target")
        if "metricName" in inner:
            selector = inner.pop("metricSelector", None) or inner.pop("selector", None)
            inner["metric"] = {"name": inner.pop("metricName"), **({"selector": selector} if selector else {})}
        numbers = {new: inner.pop(old) for new, old in names[kind].items() if inner.get(old) is not None}
        chosen = next((_TYPES[new] for new in names[kind] if new in numbers), "")
        inner[which] = {"type": chosen, **numbers} if which == "target" else numbers
        yield {"type": kind, member: inner}
