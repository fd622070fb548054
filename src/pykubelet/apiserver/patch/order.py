"""The order of a list after a strategic merge patch: its items as the patch wants, the rest about where they were."""

from collections.abc import Hashable, Iterable
from functools import cmp_to_key
from typing import Any

import msgspec

from pykubelet.apiserver.patch.errors import INTERNAL, PatchRefused
from pykubelet.apiserver.schema.schema import Json


class KeyOf:
    """What tells the items of a list apart: the value of a field, or the item itself where there is no such field."""

    def __init__(self, merge_key: str) -> None:
        self.merge_key = merge_key

    def required(self, value: Json) -> Hashable:
        if self.merge_key and (not isinstance(value, dict) or self.merge_key not in value):
            raise PatchRefused(f"map: {value} does not contain declared merge key: {self.merge_key}", INTERNAL)
        return self(value)

    def __call__(self, value: Json) -> Hashable:
        if self.merge_key:
            value = value.get(self.merge_key) if isinstance(value, dict) else None
        if isinstance(value, dict | list):
            return msgspec.json.encode(value, order="sorted")
        return isinstance(value, bool), value


class Places:
    """Where each key comes first in a list."""

    def __init__(self, values: Iterable[Json], key_of: KeyOf) -> None:
        self._first: dict[Hashable, int] = {}
        for index, value in enumerate(values):
            self._first.setdefault(key_of(value), index)

    def keys(self) -> list[Hashable]:
        return list(self._first)

    def of(self, key: Hashable) -> int:
        """-1 when it is nowhere"""
        return self._first.get(key, -1)

    def note(self, key: Hashable, index: int) -> None:
        self._first.setdefault(key, index)


def ordered(merged: list[Any], order: list[Any], before: list[Any], key_of: KeyOf) -> list[Any]:
    """The items that the patch names in the order it gives; the others among them, about where they were."""
    wanted, keys = Places(order, key_of), [key_of.required(each) for each in merged]
    if keys == wanted.keys():
        return merged
    was = Places(before, key_of)
    named = [each for each, key in zip(merged, keys, strict=True) if wanted.of(key) >= 0]
    others = [each for each, key in zip(merged, keys, strict=True) if wanted.of(key) < 0]
    return _interleaved(_sorted(others, was, key_of), _sorted(named, wanted, key_of), was, key_of)


def _sorted(values: list[Any], places: Places, key_of: KeyOf) -> list[Any]:
    """What has no place stays beside its neighbours."""
    found = [places.of(key_of(value)) for value in values]

    def compared(one: int, other: int) -> int:
        return found[one] - found[other] if found[one] >= 0 and found[other] >= 0 else 0

    return [values[index] for index in sorted(range(len(values)), key=cmp_to_key(compared))]


def _interleaved(others: list[Any], named: list[Any], was: Places, key_of: KeyOf) -> list[Any]:
    """Both lists keep their order; an item of `others` comes before the first of `named` that it came before."""
    result: list[Any] = []
    taken = 0
    for each in named:
        place = was.of(key_of(each))
        while taken < len(others) and 0 <= was.of(key_of(others[taken])) < place:
            result.append(others[taken])
            taken += 1
        result.append(each)
    return result + others[taken:]
