"""Storage classes."""

from datetime import UTC, datetime
from typing import Any

import pytest

from kit.strategies import faults, made, strategy_of

CLASSES = strategy_of("storage.k8s.io", "storageclasses")


def test_a_class_has_defaults_and_needs_a_provisioner() -> None:
    found = made(CLASSES)
    assert (found["reclaimPolicy"], found["volumeBindingMode"]) == ("Delete", "Immediate")
    assert faults(CLASSES, found) == ["provisioner"]


def test_a_class_stays_as_it_was_made() -> None:
    old = made(CLASSES, provisioner="x.io/y", parameters={"a": "b"})
    new = made(CLASSES, provisioner="x.io/z", reclaimPolicy="Retain", volumeBindingMode="WaitForFirstConsumer")
    changed = ["parameters", "provisioner", "reclaimPolicy", "volumeBindingMode"]
    assert faults(CLASSES, new, old) == changed
    assert faults(CLASSES, {**old, "allowVolumeExpansion": True}, old) == []


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ({"provisioner": "b@d"}, ["provisioner"]),
        ({"reclaimPolicy": "Burn"}, ["reclaimPolicy"]),
        ({"volumeBindingMode": "Whenever"}, ["volumeBindingMode"]),
        ({"parameters": {"": "x"}}, ["parameters"]),
        ({"parameters": {str(number): "" for number in range(513)}}, ["parameters"]),
        (
            {"allowedTopologies": [{"matchLabelExpressions": [{"key": "a"}]}]},
            ["allowedTopologies[0].matchLabelExpressions[0].values"],
        ),
    ],
)
def test_a_class_makes_sense(content: dict[str, Any], expected: list[str]) -> None:
    assert faults(CLASSES, made(CLASSES, **{"provisioner": "x.io/y", **content})) == expected


def test_a_class_of_attributes_has_some_and_is_protected() -> None:
    classes = strategy_of("storage.k8s.io", "volumeattributesclasses")
    found = made(classes, driverName="d.io", parameters={"a": "b"})
    classes.prepare_create(found, datetime(2026, 1, 2, tzinfo=UTC))
    assert found["metadata"]["finalizers"] == ["kubernetes.io/vac-protection"]
    assert faults(classes, found) == []
    assert faults(classes, made(classes, driverName="d.io")) == ["parameters"]
    other = made(classes, driverName="e.io", parameters={"a": "c"})
    assert faults(classes, other, found) == ["driverName", "parameters"]
