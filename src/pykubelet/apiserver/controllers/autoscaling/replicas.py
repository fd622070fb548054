"""How many replicas a metric asks for: what pods use, compared with what they should. Pure.

Pods that are not ready, or of which nothing is known, are counted so that they never make a change larger.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from typing import Final

from msgspec import Struct

from pykubelet.api.codec import convert
from pykubelet.api.pod import PodSpec
from pykubelet.api.quantity import parse
from pykubelet.api.rules.resources import pod_requests
from pykubelet.apiserver.controllers.conditions import condition
from pykubelet.apiserver.objects import Object, at, moment

_TOLERANCE: Final = 0.1
"""A difference that is not worth a change."""
_STARTING: Final = timedelta(minutes=5)
"""For so long after its start a pod's use of processors says little."""
_FIRST_READY: Final = timedelta(seconds=30)
"""A pod that was not ready so soon after its start has never been."""


class Metered(Struct, frozen=True):
    """What a pod uses, in thousandths."""

    value: int
    time: datetime
    window: float = 0.0


class Proposal(Struct, frozen=True):
    replicas: int
    raw: int
    """What a pod uses on average, in thousandths."""
    utilization: int | None = None
    """The same, in percent of what it asks for."""


class Groups(Struct, frozen=True):
    ready: int
    unready: set[str]
    missing: set[str]
    ignored: set[str]


def metered(items: Iterable[Object], resource: str, container: str = "") -> dict[str, Metered]:
    """By the names of the pods. Raises ValueError when there is nothing."""
    found: dict[str, Metered] = {}
    for item in items:
        name, parts = item["metadata"]["name"], item.get("containers") or ()
        if container and not any(part.get("name") == container for part in parts):
            where = f"{item['metadata'].get('namespace')}/{name}"
            raise ValueError(f"container {container} not present in metrics for pod {where}")
        uses = [at(part, "usage", {}).get(resource) for part in parts if not container or part["name"] == container]
        if not uses or any(use is None for use in uses):
            continue
        time = moment(item.get("timestamp"))
        if time is not None:
            total = sum(parse(str(use)).milli for use in uses)
            found[name] = Metered(total, time, _seconds(item.get("window", "")))
    if not found:
        raise ValueError("no metrics returned from resource metrics API")
    return found


def _seconds(text: str) -> float:
    number = text.removesuffix("s")
    try:
        return float(number)
    except ValueError:
        return 0.0


def by_utilization(
    current: int,
    target: int,
    resource: str,
    pods: list[Object],
    metrics: Mapping[str, Metered],
    now: datetime,
    *,
    container: str = "",
) -> Proposal:
    """`target`: percent of what pods ask for. Raises ValueError."""
    values, groups = _sorted_out(pods, metrics, resource, now)
    requests = {pod["metadata"]["name"]: _request(pod, resource, container) for pod in pods}
    ratio, utilization, raw = _utilization(values, requests, target)
    fallback = {name: requests[name] * max(100, target) // 100 for name in groups.missing}
    replicas = _replicas(
        current, ratio, values, groups, fallback, lambda found: _utilization(found, requests, target)[0]
    )
    return Proposal(replicas, raw, utilization)


def by_value(
    current: int,
    target: int,
    resource: str,
    pods: list[Object],
    metrics: Mapping[str, Metered],
    now: datetime,
) -> Proposal:
    """`target`: thousandths that a pod is to use on average. Raises ValueError."""
    values, groups = _sorted_out(pods, metrics, resource, now)
    ratio, usage = _usage(values, target)
    fallback = dict.fromkeys(groups.missing, target)
    replicas = _replicas(current, ratio, values, groups, fallback, lambda found: _usage(found, target)[0])
    return Proposal(replicas, usage)


def _sorted_out(
    pods: list[Object], metrics: Mapping[str, Metered], resource: str, now: datetime
) -> tuple[dict[str, int], Groups]:
    if not pods:
        raise ValueError("no pods returned by selector while calculating replica count")
    groups = grouped(pods, metrics, resource, now)
    values = {
        name: each.value for name, each in metrics.items() if name not in groups.ignored and name not in groups.unready
    }
    if not values:
        raise ValueError("did not receive metrics for targeted pods (pods might be unready)")
    return values, groups


def _replicas(
    current: int,
    ratio: float,
    values: dict[str, int],
    groups: Groups,
    fallback: Mapping[str, int],
    again: Callable[[dict[str, int]], float],
) -> int:
    """`fallback`: what pods of which nothing is known are taken to use when there are to be fewer."""
    with_unready = bool(groups.unready) and ratio > 1.0
    if not with_unready and not groups.missing:
        return current if _is_close(ratio) else math.ceil(ratio * groups.ready)
    values = dict(values)
    if ratio < 1.0:
        values |= fallback
    elif ratio > 1.0:
        values |= dict.fromkeys(groups.missing, 0)
    if with_unready:
        values |= dict.fromkeys(groups.unready, 0)
    new = again(values)
    if _is_close(new) or (ratio < 1.0 < new) or (ratio > 1.0 > new):
        return current
    replicas = math.ceil(new * len(values))
    if (new < 1.0 and replicas > current) or (new > 1.0 and replicas < current):
        return current
    return replicas


def _is_close(ratio: float) -> bool:
    return 1.0 - _TOLERANCE <= ratio <= 1.0 + _TOLERANCE


def grouped(pods: Iterable[Object], metrics: Mapping[str, Metered], resource: str, now: datetime) -> Groups:
    ready, unready, missing, ignored = 0, set[str](), set[str](), set[str]()
    for pod in pods:
        name, phase = pod["metadata"]["name"], at(pod, "status.phase")
        if at(pod, "metadata.deletionTimestamp") or phase == "Failed":
            ignored.add(name)
        elif phase == "Pending":
            unready.add(name)
        elif name not in metrics:
            missing.add(name)
        elif resource == "cpu" and _is_starting(pod, metrics[name], now):
            unready.add(name)
        else:
            ready += 1
    return Groups(ready, unready, missing, ignored)


def _is_starting(pod: Object, metric: Metered, now: datetime) -> bool:
    told, start = condition(pod, "Ready"), moment(at(pod, "status.startTime"))
    if not told or start is None:
        return True
    since, is_unready = moment(told.get("lastTransitionTime")), told.get("status") == "False"
    if start + _STARTING > now:
        return is_unready or (since is not None and metric.time < since + timedelta(seconds=metric.window))
    return is_unready and (since is None or start + _FIRST_READY > since)


def _request(pod: Object, resource: str, container: str) -> int:
    spec, name = convert(PodSpec, pod["spec"]), pod["metadata"]["name"]
    if spec.resources and spec.resources.requests and not container:
        found = pod_requests(spec).get(resource)
        if found is None:
            raise ValueError(f"missing pod-level request for {resource} in Pod {name}")
        return found.milli
    beside = [each for each in spec.init_containers if each.restart_policy == "Always"]
    total = 0
    for each in (*spec.containers, *beside):
        if container and each.name != container:
            continue
        amount = each.resources.requests.get(resource)
        if amount is None:
            raise ValueError(f"missing request for {resource} in container {each.name} of Pod {name}")
        total += amount.milli
    return total


def _utilization(values: Mapping[str, int], requests: Mapping[str, int], target: int) -> tuple[float, int, int]:
    known = [name for name in values if name in requests]
    used, asked = sum(values[name] for name in known), sum(requests[name] for name in known)
    if not asked:
        raise ValueError("no metrics returned matched known pods")
    percent = used * 100 // asked
    return percent / target, percent, used // len(known)


def _usage(values: Mapping[str, int], target: int) -> tuple[float, int]:
    usage = sum(values.values()) // len(values)
    return usage / target, usage
