"""The conditions in an object's status: to read one, and to set one without forgetting since when it holds."""

from collections.abc import Iterable
from typing import Any

from pykubelet.apiserver.objects import Object, at


def with_condition(conditions: Iterable[dict[str, Any]], new: dict[str, Any], now: str) -> list[dict[str, Any]]:
    """The conditions with one of them replaced or added. Its time changes only with its status."""
    found = list(conditions)
    place = {each.get("type"): index for index, each in enumerate(found)}.get(new["type"], len(found))
    was = found[place] if place < len(found) else {}
    is_same = was.get("status") == new["status"] and was.get("lastTransitionTime")
    made = {**was, **new, "lastTransitionTime": was["lastTransitionTime"] if is_same else now}
    found[place : place + 1] = [made]
    return found


def conditioned(obj: Object, new: dict[str, Any], now: str) -> Object:
    """The object with one of its conditions replaced or added."""
    conditions = with_condition(at(obj, "status.conditions", []), new, now)
    return {**obj, "status": {**obj.get("status", {}), "conditions": conditions}}


def condition(obj: Object, kind: str) -> dict[str, Any]:
    """A condition of an object's status; empty when it has none of this type."""
    for each in at(obj, "status.conditions", []):
        if each.get("type") == kind:
            return dict(each)
    return {}
