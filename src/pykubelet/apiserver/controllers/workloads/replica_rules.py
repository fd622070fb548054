"""What a replica set, or a replication controller, has to do: how many pods to make, which to delete, what to say."""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime
from functools import cmp_to_key
from typing import Any, Final

from pykubelet.api.struct import rfc3339
from pykubelet.apiserver.controllers.workloads.pod_views import PodView
from pykubelet.apiserver.objects import Object, at

_PHASES: Final = {"Pending": 0, "Unknown": 1, "Running": 2}
FAILURE: Final = "ReplicaFailure"


def to_delete(pods: Sequence[PodView], related: Iterable[PodView], count: int, now: datetime) -> list[PodView]:
    """Those that are missed least. `related`: the pods of all replica sets of one deployment."""
    if count >= len(pods):
        return list(pods)
    neighbours = Counter(pod.node for pod in related if pod.is_active)

    def compared(one: PodView, other: PodView) -> int:
        return _compared(one, other, neighbours, now)

    return sorted(pods, key=cmp_to_key(compared))[:count]


def _compared(one: PodView, other: PodView, neighbours: Counter[str], now: datetime) -> int:
    """Negative: the first one goes before the other."""
    for first, second in (
        (bool(one.node), bool(other.node)),
        (_PHASES.get(one.phase, 0), _PHASES.get(other.phase, 0)),
        (one.is_ready, other.is_ready),
        (one.cost, other.cost),
        (-neighbours[one.node], -neighbours[other.node]),
    ):
        if first != second:
            return -1 if first < second else 1
    if one.is_ready and other.is_ready and one.ready_since != other.ready_since:
        return _younger(one.ready_since, other.ready_since, one, other, now)
    if one.restarts != other.restarts:
        return -1 if one.restarts > other.restarts else 1
    if one.created != other.created:
        return _younger(one.created, other.created, one, other, now)
    return 0


def _younger(first: datetime | None, second: datetime | None, one: PodView, other: PodView, now: datetime) -> int:
    """Times are compared by the logarithm of how long ago they are, so that among the old it is a matter of chance."""
    if first is None or second is None:
        return -1 if first is None else 1
    difference = _rank(first, now) - _rank(second, now)
    return difference or (-1 if one.uid < other.uid else 1)


def _rank(time: datetime, now: datetime) -> int:
    nanoseconds = (now - time).total_seconds() * 1e9
    return int(math.log2(nanoseconds)) if nanoseconds > 0 else -1


def replicas_wanted(obj: Object) -> int:
    return int(at(obj, "spec.replicas", 1))


def status_of(obj: Object, pods: Sequence[PodView], error: str, now: datetime, *, made: int = 0) -> dict[str, Any]:
    """The status. `pods` are the active ones that were found, `made` those that have been made since; `error`: why
    there are not as many as wanted."""
    labels, least = at(obj, "spec.template.metadata.labels", {}), at(obj, "spec.minReadySeconds", 0)
    ready = [pod for pod in pods if pod.is_ready]
    counts = {
        "replicas": len(pods) + made,
        "fullyLabeledReplicas": sum(_has_all(pod, labels) for pod in pods) + made,
        "readyReplicas": len(ready),
        "availableReplicas": sum(pod.is_available(least, now) for pod in ready),
        "observedGeneration": at(obj, "metadata.generation", 0),
    }
    conditions = [each for each in at(obj, "status.conditions", []) if each.get("type") != FAILURE]
    was = next((each for each in at(obj, "status.conditions", []) if each.get("type") == FAILURE), None)
    if error:
        reason = "FailedCreate" if len(pods) < replicas_wanted(obj) else "FailedDelete"
        new = {"type": FAILURE, "status": "True", "reason": reason, "message": error}
        conditions.append(was or {**new, "lastTransitionTime": rfc3339(now)})
    return {
        "replicas": counts.pop("replicas"),
        **{name: value for name, value in counts.items() if value},
        **({"conditions": conditions} if conditions else {}),
    }


def _has_all(pod: PodView, labels: dict[str, str]) -> bool:
    return all(pod.labels.get(key) == value for key, value in labels.items())
