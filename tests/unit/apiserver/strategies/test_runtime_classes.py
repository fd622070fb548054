"""Runtime classes."""

from typing import Any

import pytest

from kit.strategies import faults, made, strategy_of

CLASSES = strategy_of("node.k8s.io", "runtimeclasses")


def test_a_handler_is_needed_can_be_one_and_stays() -> None:
    assert faults(CLASSES, made(CLASSES)) == ["handler"]
    assert faults(CLASSES, made(CLASSES, handler="Not one")) == ["handler"]
    assert faults(CLASSES, made(CLASSES, handler="runc")) == []
    assert faults(CLASSES, made(CLASSES, handler="kata"), made(CLASSES, handler="runc")) == ["handler"]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ({"scheduling": {"nodeSelector": {"b d": "x"}}}, ["scheduling.nodeSelector"]),
        (
            {"scheduling": {"tolerations": [{"key": "a", "operator": "Perhaps"}]}},
            ["scheduling.tolerations.tolerations[0].operator"],
        ),
        ({"overhead": {"podFixed": {"cpu": "-1"}}}, ["overhead.limits[cpu]"]),
        ({"overhead": {"podFixed": {"cpu": "1"}}, "scheduling": {"nodeSelector": {"a": "b"}}}, []),
    ],
)
def test_what_a_class_adds_to_pods_makes_sense(content: dict[str, Any], expected: list[str]) -> None:
    assert faults(CLASSES, made(CLASSES, handler="runc", **content)) == expected
