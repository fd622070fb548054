"""The rows of the kinds that make pods, scale them or guard them."""

from datetime import datetime
from typing import Any, Final

from pykubelet.api.durations import ago, span
from pykubelet.apiserver.objects import Object, at
from pykubelet.apiserver.tables.columns import (
    NONE,
    UNSET,
    Printers,
    age,
    columns,
    containers,
    labels,
    name,
    selector,
    some,
)

_WIDE: Final = "Containers*, Images*, Selector*"
_STATES: Final = (
    ("Complete", "Complete"),
    ("Failed", "Failed"),
    ("", "Terminating"),
    ("Suspended", "Suspended"),
    ("FailureTarget", "FailureTarget"),
    ("SuccessCriteriaMet", "SuccessCriteriaMet"),
)
_METRICS: Final = {
    "External": ("external", ""),
    "Pods": ("pods", ""),
    "Object": ("object", ""),
    "Resource": ("resource", "name"),
    "ContainerResource": ("containerResource", "name"),
}
_UNKNOWN: Final = "<unknown>"


def _template(obj: Object) -> Object:
    found: Object = at(obj, "spec.template", {})
    return found


def _replicas(obj: Object, now: datetime) -> list[Any]:
    """Of a replica set, and of a replication controller, which selects by labels alone."""
    counts = [at(obj, path, 0) for path in ("spec.replicas", "status.replicas", "status.readyReplicas")]
    given = at(obj, "spec.selector", {})
    chosen = labels(given) if obj.get("kind") == "ReplicationController" else selector(given)
    return [name(obj), *counts, age(obj, now), *containers(_template(obj)), chosen]


def _deployment(obj: Object, now: datetime) -> list[Any]:
    status = obj.get("status", {})
    ready = f"{status.get('readyReplicas', 0)}/{at(obj, 'spec.replicas', 0)}"
    counts = [status.get(each, 0) for each in ("updatedReplicas", "availableReplicas")]
    chosen = selector(at(obj, "spec.selector"), "")
    return [name(obj), ready, *counts, age(obj, now), *containers(_template(obj)), chosen]


def _stateful_set(obj: Object, now: datetime) -> list[Any]:
    ready = f"{at(obj, 'status.readyReplicas', 0)}/{at(obj, 'spec.replicas', 0)}"
    return [name(obj), ready, age(obj, now), *containers(_template(obj))]


def _daemon_set(obj: Object, now: datetime) -> list[Any]:
    parts = (
        "desiredNumberScheduled",
        "currentNumberScheduled",
        "numberReady",
        "updatedNumberScheduled",
        "numberAvailable",
    )
    counts = [at(obj, f"status.{part}", 0) for part in parts]
    nodes = labels(at(obj, "spec.template.spec.nodeSelector"))
    chosen = selector(at(obj, "spec.selector"))
    return [name(obj), *counts, nodes, age(obj, now), *containers(_template(obj)), chosen]


def _job(obj: Object, now: datetime) -> list[Any]:
    spec, status = obj.get("spec", {}), obj.get("status", {})
    succeeded, parallelism = status.get("succeeded", 0), spec.get("parallelism", 0)
    done = f"{succeeded}/{spec.get('completions', 1)}"
    if spec.get("completions") is None and parallelism > 1:
        done = f"{succeeded}/1 of {parallelism}"
    took, start = "", status.get("startTime")
    if start:
        end = datetime.fromisoformat(status["completionTime"]) if status.get("completionTime") else now
        took = span((end - datetime.fromisoformat(start)).total_seconds())
    wide = [*containers(_template(obj)), selector(spec.get("selector"))]
    return [name(obj), _job_state(obj), done, took, age(obj, now), *wide]


def _job_state(obj: Object) -> str:
    true = {each.get("type") for each in at(obj, "status.conditions", ()) if each.get("status") == "True"}
    for kind, word in _STATES:
        if kind in true or (not kind and at(obj, "metadata.deletionTimestamp")):
            return word
    return "Running"


def _cron_job(obj: Object, now: datetime) -> list[Any]:
    spec, last = obj.get("spec", {}), at(obj, "status.lastScheduleTime")
    suspend = spec.get("suspend")
    template = at(spec, "jobTemplate.spec", {})
    return [
        name(obj),
        spec.get("schedule", ""),
        spec.get("timeZone", NONE),
        UNSET if suspend is None else str(suspend),
        len(at(obj, "status.active", ())),
        ago(last, now) if last else NONE,
        age(obj, now),
        *containers(template.get("template", {})),
        selector(template.get("selector")),
    ]


def _autoscaler(obj: Object, now: datetime) -> list[Any]:
    """In either version: the first has a percentage where the second has metrics."""
    spec, target = obj.get("spec", {}), at(obj, "spec.scaleTargetRef", {})
    current = at(obj, "status.currentMetrics", ())
    targets = [
        _metric(each, current[index] if index < len(current) else {}) for index, each in enumerate(_metrics(spec))
    ]
    if not current and (percent := at(obj, "status.currentCPUUtilizationPercentage")) is not None:
        targets = [f"cpu: {percent}%/{spec.get('targetCPUUtilizationPercentage')}%"]
    return [
        name(obj),
        f"{target.get('kind', '')}/{target.get('name', '')}",
        some(targets, NONE, 2, ", "),
        str(spec.get("minReplicas", UNSET)),
        spec.get("maxReplicas", 0),
        at(obj, "status.currentReplicas", 0),
        age(obj, now),
    ]


def _metrics(spec: Object) -> list[Object]:
    percent = spec.get("targetCPUUtilizationPercentage")
    if percent is not None:
        target = {"type": "Utilization", "averageUtilization": percent}
        return [{"type": "Resource", "resource": {"name": "cpu", "target": target}}]
    found: list[Object] = spec.get("metrics") or []
    return found


def _metric(metric: Object, now: Object) -> str:
    member, label = _METRICS.get(metric.get("type", ""), ("", ""))
    if not member:
        return "<unknown type>"
    target, current = at(metric, f"{member}.target", {}), at(now, f"{member}.current", {})
    prefix = f"{at(metric, f'{member}.{label}', '')}: " if label else ""
    if "averageValue" in target:
        note = " (avg)" if member in ("external", "object") else ""
        return f"{prefix}{current.get('averageValue', _UNKNOWN)}/{target['averageValue']}{note}"
    if not label:
        return f"{current.get('value', _UNKNOWN)}/{target.get('value', '')}"
    used, wanted = current.get("averageUtilization"), target.get("averageUtilization")
    shown = _UNKNOWN if used is None else f"{used}%"
    return f"{prefix}{shown}/{'<auto>' if wanted is None else f'{wanted}%'}"


def _budget(obj: Object, now: datetime) -> list[Any]:
    wanted = [str(at(obj, f"spec.{each}", "N/A")) for each in ("minAvailable", "maxUnavailable")]
    return [name(obj), *wanted, at(obj, "status.disruptionsAllowed", 0), age(obj, now)]


def _revision(obj: Object, now: datetime) -> list[Any]:
    owners = (each for each in at(obj, "metadata.ownerReferences", ()) if each.get("controller"))
    owner = next(owners, None)
    shown = NONE
    if owner is not None:
        group = owner.get("apiVersion", "").rpartition("/")[0]
        shown = f"{owner.get('kind', '')}{f'.{group}' if group else ''}".lower() + f"/{owner.get('name', '')}"
    return [name(obj), shown, obj.get("revision", 0), age(obj, now)]


_REPLICAS: Final = columns(f"Name, Desired#, Current#, Ready#, Age, {_WIDE}")

PRINTERS: Final[Printers] = {
    ("", "ReplicationController"): (_REPLICAS, _replicas),
    ("apps", "ControllerRevision"): (columns("Name, Controller, Revision, Age"), _revision),
    ("apps", "DaemonSet"): (
        columns(f"Name, Desired#, Current#, Ready#, Up-to-date#, Available#, Node Selector, Age, {_WIDE}"),
        _daemon_set,
    ),
    ("apps", "Deployment"): (columns(f"Name, Ready, Up-to-date, Available, Age, {_WIDE}"), _deployment),
    ("apps", "ReplicaSet"): (_REPLICAS, _replicas),
    ("apps", "StatefulSet"): (columns("Name, Ready, Age, Containers*, Images*"), _stateful_set),
    ("autoscaling", "HorizontalPodAutoscaler"): (
        columns("Name, Reference, Targets, MinPods, MaxPods, Replicas, Age"),
        _autoscaler,
    ),
    ("batch", "CronJob"): (
        columns(f"Name, Schedule, Timezone, Suspend?, Active#, Last Schedule, Age, {_WIDE}"),
        _cron_job,
    ),
    ("batch", "Job"): (columns(f"Name, Status, Completions, Duration, Age, {_WIDE}"), _job),
    ("policy", "PodDisruptionBudget"): (
        columns("Name, Min Available, Max Unavailable, Allowed Disruptions#, Age"),
        _budget,
    ),
}
