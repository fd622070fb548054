"""How fast the number of replicas may follow what is asked for: what was asked for lately, and how much has changed
lately. Pure."""

import math
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any, Final

from msgspec import Struct

DOWN_SECONDS: Final = 300
"""For so long the highest number that was asked for counts."""
_UP_FACTOR: Final = 2.0
_UP_LEAST: Final = 4.0
_WITHIN: Final = ("DesiredWithinRange", "the desired count is within the acceptable range")
_TOO_MANY: Final = ("TooManyReplicas", "the desired replica count is more than the maximum replica count")
_TOO_FEW: Final = ("TooFewReplicas", "the desired replica count is less than the minimum replica count")
_TOO_FAST_UP: Final = ("ScaleUpLimit", "the desired replica count is increasing faster than the maximum scale rate")
_TOO_FAST_DOWN: Final = (
    "ScaleDownLimit",
    "the desired replica count is decreasing faster than the maximum scale rate",
)
_LOWEST: Final = (
    "ScaleUpStabilized",
    "recent recommendations were lower than current one, applying the lowest recent recommendation",
)
_HIGHEST: Final = (
    "ScaleDownStabilized",
    "recent recommendations were higher than current one, applying the highest recent recommendation",
)
_READY: Final = ("ReadyForNewScale", "recommended size matches current size")
Reason = tuple[str, str]


class Past(Struct, frozen=True):
    """What an autoscaler remembers: numbers that were asked for, and changes that were made, each with its time."""

    asked: tuple[tuple[int, datetime], ...] = ()
    ups: tuple[tuple[int, datetime], ...] = ()
    downs: tuple[tuple[int, datetime], ...] = ()


class Decision(Struct, frozen=True):
    replicas: int
    able: Reason
    limited: Reason
    is_limited: bool


def decided(
    past: Past, current: int, wanted: int, least: int, most: int, behavior: Mapping[str, Any] | None, now: datetime
) -> Decision:
    """What becomes of a number that is asked for."""
    if behavior is None:
        steady, able = _steady(past, wanted, now)
        replicas, limited = _bounded(current, steady, least, most)
    else:
        steady, able = _steady_by(past, current, wanted, behavior, now)
        replicas, limited = _bounded_by(past, current, steady, least, most, behavior, now)
    return Decision(replicas, able, limited, replicas != steady)


def _steady(past: Past, wanted: int, now: datetime) -> tuple[int, Reason]:
    since = now - timedelta(seconds=DOWN_SECONDS)
    highest = max([wanted, *(number for number, time in past.asked if time >= since)])
    return highest, _HIGHEST if highest != wanted else _READY


def _bounded(current: int, wanted: int, least: int, most: int) -> tuple[int, Reason]:
    fastest = int(max(_UP_FACTOR * current, _UP_LEAST))
    highest, why = (fastest, _TOO_FAST_UP) if most > fastest else (most, _TOO_MANY)
    if wanted < least:
        return least, _TOO_FEW
    return (highest, why) if wanted > highest else (wanted, _WITHIN)


def _steady_by(past: Past, current: int, wanted: int, behavior: Mapping[str, Any], now: datetime) -> tuple[int, Reason]:
    up = [number for number, time in past.asked if time > now - _window(behavior, "scaleUp")]
    down = [number for number, time in past.asked if time > now - _window(behavior, "scaleDown")]
    steady = min(max(current, min([wanted, *up])), max([wanted, *down]))
    if steady == wanted:
        return steady, _READY
    return steady, _LOWEST if wanted >= current else _HIGHEST


def _window(behavior: Mapping[str, Any], which: str) -> timedelta:
    given = (behavior.get(which) or {}).get("stabilizationWindowSeconds")
    otherwise = DOWN_SECONDS if which == "scaleDown" else 0
    return timedelta(seconds=otherwise if given is None else given)


def _bounded_by(
    past: Past, current: int, wanted: int, least: int, most: int, behavior: Mapping[str, Any], now: datetime
) -> tuple[int, Reason]:
    if wanted > current:
        fastest = max(current, _limit(past, current, behavior.get("scaleUp") or {}, now, is_up=True))
        highest, why = (fastest, _TOO_FAST_UP) if most > fastest else (most, _TOO_MANY)
        if wanted > highest:
            return highest, why
    elif wanted < current:
        slowest = min(current, _limit(past, current, behavior.get("scaleDown") or {}, now, is_up=False))
        lowest, why = (slowest, _TOO_FAST_DOWN) if least < slowest else (least, _TOO_FEW)
        if wanted < lowest:
            return lowest, why
    return wanted, _WITHIN


def _limit(past: Past, current: int, rules: Mapping[str, Any], now: datetime, *, is_up: bool) -> int:
    """The farthest that the policies let it go."""
    select = rules.get("selectPolicy", "Max")
    if select == "Disabled":
        return current
    proposals: list[int] = []
    for policy in rules.get("policies") or ():
        since = now - timedelta(seconds=policy["periodSeconds"])
        start = current - _changed(past.ups, since) + _changed(past.downs, since)
        value = policy["value"]
        if policy["type"] == "Pods":
            proposals.append(start + value if is_up else start - value)
        else:
            proposals.append(math.ceil(start * (1 + value / 100)) if is_up else int(start * (1 - value / 100)))
    if not proposals:
        return current
    return max(proposals) if is_up is (select == "Max") else min(proposals)


def _changed(changes: Iterable[tuple[int, datetime]], since: datetime) -> int:
    return sum(change for change, time in changes if time > since)


def remembered(past: Past, wanted: int, behavior: Mapping[str, Any] | None, now: datetime) -> Past:
    """With a number that was asked for, and without what is too old to count."""
    windows = [timedelta(seconds=DOWN_SECONDS)]
    if behavior is not None:
        windows = [_window(behavior, "scaleUp"), _window(behavior, "scaleDown")]
    since = now - max(windows)
    kept = tuple(each for each in past.asked if each[1] >= since)
    return Past((*kept, (wanted, now)), past.ups, past.downs)


def scaled(past: Past, before: int, after: int, behavior: Mapping[str, Any] | None, now: datetime) -> Past:
    """With a change that was made."""
    if behavior is None:
        return past
    ups, downs = (_recent(past.ups, behavior, now), _recent(past.downs, behavior, now))
    if after > before:
        return Past(past.asked, (*ups, (after - before, now)), downs)
    return Past(past.asked, ups, (*downs, (before - after, now)))


def _recent(
    changes: tuple[tuple[int, datetime], ...], behavior: Mapping[str, Any], now: datetime
) -> tuple[tuple[int, datetime], ...]:
    periods = [
        policy["periodSeconds"]
        for which in ("scaleUp", "scaleDown")
        for policy in (behavior.get(which) or {}).get("policies") or ()
    ]
    since = now - timedelta(seconds=max(periods, default=0))
    return tuple(each for each in changes if each[1] >= since)
