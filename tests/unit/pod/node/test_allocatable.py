"""What of a node is left for pods."""

from pykubelet.api.quantity import parse
from pykubelet.pod.eviction.thresholds import parse_thresholds
from pykubelet.pod.node.allocatable import allocatable, kept_free, over_reserved

CAPACITY = {"cpu": parse("4"), "memory": parse("16Gi"), "ephemeral-storage": parse("100Gi"), "pods": parse("110")}
HARD = parse_thresholds(
    {"memory.available": "10%", "nodefs.available": "5Gi", "imagefs.available": "50Gi", "pid.available": "5%"},
    {"nodefs.available": "60Gi"},
    {"nodefs.available": "1m"},
    {},
    for_allocatable=True,
)


def test_hard_thresholds_for_memory_and_the_nodes_own_disk_are_kept_free() -> None:
    kept = kept_free(HARD, CAPACITY)
    assert kept == {"memory": parse("1717986944"), "ephemeral-storage": parse("5Gi")}
    assert kept_free(HARD, {"memory": CAPACITY["memory"]}).keys() == {"memory"}


def test_what_is_kept_back_adds_up_and_never_leaves_less_than_nothing() -> None:
    left = allocatable(CAPACITY, {"cpu": parse("500m"), "memory": parse("1Gi")}, {"memory": parse("2Gi")}, {})
    assert left == {**CAPACITY, "cpu": parse("3500m"), "memory": parse("13Gi")}
    assert allocatable(CAPACITY, {"cpu": parse("5"), "gpu": parse("1")})["cpu"] == parse("0")
    assert allocatable({**CAPACITY, "hugepages-2Mi": parse("6Gi")}, {"memory": parse("2Gi")})["memory"] == parse("8Gi")


def test_more_than_there_is_cannot_be_kept_back() -> None:
    assert list(over_reserved(CAPACITY, {"memory": parse("15Gi")}, {"memory": parse("1Gi")})) == []
    assert list(over_reserved(CAPACITY, {"memory": parse("16Gi"), "pid": parse("9")}, {"memory": parse("1Mi")})) == [
        'Resource "memory" has a reservation of 16385Mi but capacity of 16Gi. Expected capacity >= reservation.'
    ]
