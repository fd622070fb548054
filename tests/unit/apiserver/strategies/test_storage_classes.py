"""Storage classes."""

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
