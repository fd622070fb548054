"""Sets of completion indexes as a job's status writes them: `0,2-5`. A hundred thousand of them stay a short text."""

import re
from collections.abc import Iterable
from typing import Final

Intervals = tuple[tuple[int, int], ...]
"""The first and the last index of each run, in order."""

_NUMBER: Final = re.compile(r"\+?[0-9]{1,18}")


def parsed(text: str, completions: int) -> Intervals:
    """What cannot be read is left out, and so is what is no index of the job any more."""
    result: list[tuple[int, int]] = []
    for part in text.split(",") if text else ():
        limits = part.split("-")
        if not all(_NUMBER.fullmatch(each) for each in limits[:2]):
            if _NUMBER.fullmatch(limits[0]) and int(limits[0]) >= completions:
                break
            continue
        first = int(limits[0])
        if first >= completions:
            break
        last = min(int(limits[1]), completions - 1) if len(limits) > 1 else first
        if result and result[-1][1] == first - 1:
            result[-1] = (result[-1][0], last)
        else:
            result.append((first, last))
    return tuple(result)


def merged(one: Intervals, other: Intervals) -> Intervals:
    result: list[tuple[int, int]] = []
    for first, last in sorted((*one, *other)):
        if not result or first > result[-1][1] + 1:
            result.append((first, last))
        elif result[-1][1] < last:
            result[-1] = (result[-1][0], last)
    return tuple(result)


def of(indexes: Iterable[int]) -> Intervals:
    return merged(tuple((each, each) for each in set(indexes)), ())


def total(intervals: Intervals) -> int:
    return sum(last - first + 1 for first, last in intervals)


def has(intervals: Intervals, index: int) -> bool:
    return any(first <= index <= last for first, last in intervals)


def shown(intervals: Intervals) -> str:
    return ",".join(_shown(*each) for each in intervals)


def _shown(first: int, last: int) -> str:
    if last == first:
        return str(first)
    return f"{first},{last}" if last == first + 1 else f"{first}-{last}"


def first_missing(taken: Intervals, count: int, completions: int) -> list[int]:
    """The first indexes below `completions` that nobody has, at most `count` of them."""
    result: list[int] = []
    candidate = 0
    for first, last in (*taken, (completions, completions)):
        end = min(first, completions, candidate + count - len(result))
        result.extend(range(candidate, end))
        candidate = max(candidate, last + 1)
    return result


def common(one: Intervals, other: Intervals) -> int:
    """How many indexes are in both."""
    return sum(
        max(0, min(last, end) - max(first, start) + 1)
        for first, last in one
        for start, end in other
        if start <= last and first <= end
    )


def format_fault(text: str, completions: int) -> tuple[int, str]:
    """-> how many indexes a text names, and what is wrong with it; empty: nothing"""
    count, before = 0, -1
    for part in text.split(",") if text else ():
        limits = part.split("-")
        if len(limits) > 2:
            why = "violates the requirement that an index interval can have at most two parts separated by '-'"
            return 0, f'the fragment "{part}" {why}'
        for limit in limits:
            if not _NUMBER.fullmatch(limit):
                return 0, f'cannot convert string to integer for index: "{limit}"'
            if int(limit) >= completions:
                return 0, f'too large index: "{limit}"'
        first, last = int(limits[0]), int(limits[-1])
        if len(limits) == 2 and first >= last:
            return 0, f"non-increasing order, previous: {first}, current: {last}"
        if before >= first:
            return 0, f"non-increasing order, previous: {before}, current: {first}"
        count, before = count + last - first + 1, last
    return count, ""
