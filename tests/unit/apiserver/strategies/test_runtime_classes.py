"""Runtime classes."""

from kit.strategies import faults, made, strategy_of

CLASSES = strategy_of("node.k8s.io", "runtimeclasses")


def test_a_handler_is_needed_can_be_one_and_stays() -> None:
    assert faults(CLASSES, made(CLASSES)) == ["handler"]
    assert faults(CLASSES, made(CLASSES, handler="Not one")) == ["handler"]
    assert faults(CLASSES, made(CLASSES, handler="runc")) == []
    assert faults(CLASSES, made(CLASSES, handler="kata"), made(CLASSES, handler="runc")) == ["handler"]
