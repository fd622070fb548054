"""Horizontal pod autoscalers, replayed against upstream's replica calculator and what it makes of its numbers."""

from datetime import UTC, datetime, timedelta
from typing import Any, Final

from kit.vectors import Case, replay, unequal
from pykubelet.apiserver.controllers.autoscaling.behavior import Past, decided
from pykubelet.apiserver.controllers.autoscaling.replicas import Metered, by_utilization, by_value

NOW: Final = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def test_replicas_follow_the_load_as_upstreams_do() -> None:
    replay("autoscalers", _difference)


def _difference(case: Case) -> str:
    found = _calculated(case) if case["kind"] == "calc" else _normalized(case)
    return unequal(case["kind"], found, case["then"])


def _calculated(case: Case) -> dict[str, Any]:
    current, resource, pods = case["current"], case["resource"], case["pods"]
    metrics = {
        name: Metered(each["Value"], NOW - timedelta(seconds=each["Age"]), each["Window"])
        for name, each in case["metrics"].items()
    }
    try:
        if case["targetValue"]:
            raw = by_value(current, case["targetValue"], resource, pods, metrics, NOW)
            return {"n": raw.replicas, "raw": raw.raw}
        found = by_utilization(current, case["target"], resource, pods, metrics, NOW)
    except ValueError as error:
        return {"err": str(error)}
    return {"n": found.replicas, "raw": found.raw, "util": found.utilization}


def _normalized(case: Case) -> dict[str, Any]:
    past = Past(*(tuple(_timed(each) for each in case[name]) for name in ("recs", "ups", "downs")))
    current, desired, least, most = (case[name] for name in ("current", "desired", "min", "max"))
    found = decided(past, current, desired, least, most, case.get("behavior"), NOW)
    conditions = [("AbleToScale", True, found.able), ("ScalingLimited", found.is_limited, found.limited)]
    told = [f"{kind}/{is_true}/{reason}/{message}" for kind, is_true, (reason, message) in conditions]
    return {"n": found.replicas, "conds": told}


def _timed(each: Any) -> tuple[int, datetime]:
    return each["N"], NOW - timedelta(seconds=each["Age"])
