"""Priority classes."""

from typing import Any

import pytest

from kit.cluster import cluster
from kit.strategies import faults, made, strategy_of
from kit.virtual_time import virtual_time

KIND = ("scheduling.k8s.io", "priorityclasses")
CLASSES = strategy_of(*KIND)


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("mine", 1_000_000_000, []),
        ("mine", 1_000_000_001, ["value"]),
        ("system-mine", 5, ["metadata.name"]),
        ("system-mine", 2000001000, ["metadata.name"]),
        ("system-cluster-critical", 2000001000, ["metadata.name"]),
        ("system-node-critical", 2000001000, []),
    ],
)
def test_the_highest_are_the_systems(name: str, value: int, expected: list[str]) -> None:
    assert faults(CLASSES, made(CLASSES, metadata={"name": name}, value=value)) == expected


def test_the_value_and_the_policy_stay() -> None:
    old = made(CLASSES, value=1)
    assert faults(CLASSES, made(CLASSES, value=2, preemptionPolicy="Never"), old) == ["value", "preemptionPolicy"]
    assert faults(CLASSES, made(CLASSES, value=1, description="new"), old) == []


@virtual_time
async def test_only_one_is_everybodys_default() -> None:
    async with cluster() as c:
        first: dict[str, Any] = {"metadata": {"name": "first"}, "value": 1, "globalDefault": True}
        assert await c.create(KIND, first)
        assert not await c.create(KIND, {**first, "metadata": {"name": "second"}})
        assert await c.create(KIND, {"metadata": {"name": "third"}, "value": 1})
        live = await c.get(KIND[1], "first", "", KIND[0])
        assert await c.change(KIND, live, lambda old: {**old, "description": "still"}) is not None
