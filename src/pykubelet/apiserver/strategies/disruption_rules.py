"""Whether a pod may be evicted, by the budgets that are for it, and what a budget says of its pods. Pure."""

from collections.abc import Iterable
from datetime import datetime
from typing import Any, Final

from pykubelet.api.selectors import from_json, matches
from pykubelet.api.struct import rfc3339
from pykubelet.apiserver.objects import Object, at
from pykubelet.apiserver.status import ApiError, forbidden

TIMEOUT: Final = 120.0
"""Seconds after which a pod that was to be evicted and is still there counts again."""
_MOST_DISRUPTED: Final = 2000
_ALLOWED: Final = "DisruptionAllowed"


def is_for(budget: Object, labels: dict[str, str]) -> bool:
    """An empty selector finds every pod, and none finds none."""
    given = at(budget, "spec.selector")
    if given is None:
        return False
    try:
        return matches(from_json(given), labels)
    except ValueError:
        return False


def with_condition(status: dict[str, Any], now: datetime) -> dict[str, Any]:
    """The status, which says in a condition, too, whether anything is allowed."""
    is_allowed = status.get("disruptionsAllowed", 0) > 0
    reason, value = ("SufficientPods", "True") if is_allowed else ("InsufficientPods", "False")
    return set_condition(status, value, reason, "", now)


def set_condition(status: dict[str, Any], value: str, reason: str, message: str, now: datetime) -> dict[str, Any]:
    others = [each for each in status.get("conditions", ()) if each.get("type") != _ALLOWED]
    was: dict[str, Any] = next((each for each in status.get("conditions", ()) if each.get("type") == _ALLOWED), {})
    since = was["lastTransitionTime"] if was.get("status") == value else rfc3339(now)
    new = {
        "type": _ALLOWED,
        "status": value,
        "observedGeneration": status.get("observedGeneration", 0),
        "lastTransitionTime": since,
        "reason": reason,
        "message": message,
    }
    return {**status, "conditions": [*others, new]}


def may_go_anyway(budget: Object, is_ready: bool) -> bool:
    """Whether a pod that is not well may be evicted whatever the budget has left."""
    if is_ready:
        return False
    healthy, wanted = at(budget, "status.currentHealthy", 0), at(budget, "status.desiredHealthy", 0)
    return bool(at(budget, "spec.unhealthyPodEvictionPolicy") == "AlwaysAllow" or healthy >= wanted > 0)


def spent(budget: Object, pod: str, now: datetime) -> Object:
    """The budget with one disruption less. Raises 429 when there is none left, or nobody knows yet."""
    status, name = budget.get("status") or {}, budget["metadata"]["name"]
    if status.get("observedGeneration", 0) < at(budget, "metadata.generation", 0):
        raise still_processed(name)
    left = status.get("disruptionsAllowed", 0)
    if left < 0:
        raise forbidden("poddisruptionbudget", name, "pdb disruptions allowed is negative", "policy")
    if len(status.get("disruptedPods") or ()) > _MOST_DISRUPTED:
        why = "DisruptedPods map too big - too many evictions not confirmed by PDB controller"
        raise forbidden("poddisruptionbudget", name, why, "policy")
    if left == 0:
        needed, healthy = status.get("desiredHealthy", 0), status.get("currentHealthy", 0)
        raise _refused(f"The disruption budget {name} needs {needed} healthy pods and has {healthy} currently")
    disrupted = {**(status.get("disruptedPods") or {}), pod: rfc3339(now)}
    new = {**status, "disruptionsAllowed": left - 1, "disruptedPods": disrupted}
    return {**budget, "status": with_condition(new, now) if left == 1 else new}


def still_processed(name: str) -> ApiError:
    return _refused(f"The disruption budget {name} is still being processed by the server.", after=10)


def _refused(why: str, after: int = 0) -> ApiError:
    cause = {"reason": "DisruptionBudget", "message": why}
    details: dict[str, Any] = {"causes": [cause], **({"retryAfterSeconds": after} if after else {})}
    text = "Cannot evict pod as it would violate the pod's disruption budget."
    return ApiError(429, "TooManyRequests", text, details, {"Retry-After": str(after)} if after else {})


def scaled(amount: int | str, total: int) -> int:
    """A number, or a percentage of the total, rounded up."""
    if isinstance(amount, str):
        return -(-int(amount.removesuffix("%")) * total // 100)
    return amount


def desired(budget: Object, expected: int) -> int:
    """How many pods have to be healthy, of so many that there are to be."""
    most, least = at(budget, "spec.maxUnavailable"), at(budget, "spec.minAvailable")
    if most is not None:
        return max(0, expected - scaled(most, expected))
    return scaled(least, expected) if least is not None else 0


def needs_scale(budget: Object) -> bool:
    """Whether it has to be known how many pods there are to be, and not only how many there are."""
    return at(budget, "spec.maxUnavailable") is not None or isinstance(at(budget, "spec.minAvailable"), str)


def disrupted(budget: Object, there: Iterable[str], now: datetime) -> tuple[dict[str, str], float | None]:
    """-> who is about to go, and after how many seconds the first of them counts again"""
    names, left = set(there), dict[str, str]()
    waits = []
    for name, time in (at(budget, "status.disruptedPods", {}) or {}).items():
        wait = TIMEOUT - (now - datetime.fromisoformat(time)).total_seconds()
        if name in names and wait >= 0:
            left[name] = time
            waits.append(wait)
    return left, min(waits, default=None)
