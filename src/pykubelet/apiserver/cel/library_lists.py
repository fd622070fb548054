"""Functions on lists and sets of values."""

from collections.abc import Callable, Sequence
from typing import Final

from pykubelet.apiserver.cel.functions import function, member
from pykubelet.apiserver.cel.library_standard import whole
from pykubelet.apiserver.cel.values import CelError, Duration, Uint, Value, duration, equal, hashable, size_of

_COMPARABLE: Final = ("int", "uint", "double", "bool", "duration", "timestamp", "string", "bytes")


def _every(text: str) -> list[str]:
    return [text.replace("T", kind) for kind in _COMPARABLE]


def _inside(args: Sequence[Value]) -> int:
    return sum(map(size_of, args))


def _squared(args: Sequence[Value]) -> int:
    return size_of(args[0]) * max(1, len(args[1]) if isinstance(args[1], list) else 1) + size_of(args[1])


@member(*_every("list<T>.isSorted(): bool"))
def _is_sorted(items: list[Value]) -> bool:
    return all(not items[place + 1] < items[place] for place in range(len(items) - 1))


@member("list<int>.sum(): int")
def _sum(items: list[int]) -> int:
    return whole(sum(items))


@member("list<uint>.sum(): uint")
def _sum_unsigned(items: list[Uint]) -> Uint:
    return Uint(whole(sum(items)))


@member("list<double>.sum(): double")
def _sum_doubles(items: list[float]) -> float:
    return sum(items, 0.0)


@member("list<duration>.sum(): duration")
def _sum_durations(items: list[Duration]) -> Duration:
    return duration(sum(each.nanos for each in items))


def _enter_extreme(name: str, pick: Callable[[list[Value]], Value]) -> None:
    @member(*_every(f"list<T>.{name}(): T"))
    def _(items: list[Value]) -> Value:
        if not items:
            raise CelError(f"{name} called on empty list")
        return pick(items)


_enter_extreme("min", min)
_enter_extreme("max", max)


@member("list<A>.indexOf(A): int", cost=_inside)
def _index_of(items: list[Value], wanted: Value) -> int:
    return next((place for place, each in enumerate(items) if equal(each, wanted)), -1)


@member("list<A>.lastIndexOf(A): int", cost=_inside)
def _last_index_of(items: list[Value], wanted: Value) -> int:
    found = _index_of(items[::-1], wanted)
    return len(items) - 1 - found if found >= 0 else -1


@member("list<A>.slice(int, int): list<A>")
def _slice(items: list[Value], start: int, end: int) -> list[Value]:
    said = f"cannot slice({start}, {end})"
    if start < 0 or end < 0:
        raise CelError(f"{said}, negative indexes not supported")
    if start > end:
        raise CelError(f"{said}, start index must be less than or equal to end index")
    if end > len(items):
        raise CelError(f"{said}, list is length {len(items)}")
    return list(items[start:end])


@member("list<list<A>>.flatten(): list<A>", "list<dyn>.flatten(): list<dyn>", cost=_inside)
def _flatten(items: list[Value]) -> list[Value]:
    return _flattened(items, 1)


@member("list<dyn>.flatten(int): list<dyn>", cost=_inside)
def _flatten_levels(items: list[Value], levels: int) -> list[Value]:
    if levels < 0:
        raise CelError("level must be non-negative")
    return _flattened(items, levels)


def _flattened(items: list[Value], levels: int) -> list[Value]:
    for _ in range(levels):
        if not any(isinstance(each, list) for each in items):
            break
        items = [inner for each in items for inner in (each if isinstance(each, list) else (each,))]
    return list(items)


@member(*_every("list<T>.sort(): list<T>"), cost=_inside)
def _sort(items: list[Value]) -> list[Value]:
    return sorted(items)


@function("lists.range(int): list<int>", cost=lambda args: max(1, args[0]))
def _range(most: int) -> list[int]:
    return list(range(most))


@member("list<A>.reverse(): list<A>")
def _reverse(items: list[Value]) -> list[Value]:
    return items[::-1]


@member("list<A>.distinct(): list<A>", cost=_inside)
def _distinct(items: list[Value]) -> list[Value]:
    found: dict[object, Value] = {}
    for each in items:
        found.setdefault(hashable(each), each)
    return list(found.values())


def _has(items: list[Value]) -> Callable[[Value], bool]:
    known = {hashable(each) for each in items}
    return lambda value: hashable(value) in known


@function("sets.contains(list<A>, list<A>): bool", cost=_squared)
def _contains(items: list[Value], part: list[Value]) -> bool:
    return all(map(_has(items), part))


@function("sets.equivalent(list<A>, list<A>): bool", cost=_squared)
def _equivalent(one: list[Value], other: list[Value]) -> bool:
    return _contains(one, other) and _contains(other, one)


@function("sets.intersects(list<A>, list<A>): bool", cost=_squared)
def _intersects(one: list[Value], other: list[Value]) -> bool:
    return any(map(_has(one), other))
