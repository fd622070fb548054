"""What is done about a node that runs short."""

from typing import Any

import pytest

from kit.pods import make_pod
from pykubelet.api.pod import Pod
from pykubelet.api.quantity import parse
from pykubelet.api.struct import changed
from pykubelet.pod.eviction.thresholds import Amount, Observation, Threshold
from pykubelet.pod.eviction.victim import clears_first, victim
from pykubelet.pod.stats.stats import Memory, PodReading, Usage

SOFT = Threshold(signal="memory.available", least=Amount(parse("1Gi")), grace=60)
HARD = changed(SOFT, grace=0)


def pod(name: str, **spec: Any) -> Pod:
    made = make_pod(name)
    return changed(made, spec=changed(made.spec, **spec))


def reading(name: str, used: int) -> PodReading:
    usage = Usage(at=1, memory=Memory(working_set=used))
    return PodReading(uid=f"uid-{name}", name=name, namespace="", created_at=None, group="", usage=usage)


def found(threshold: Threshold, *pods: Pod, longest: int = 0, **used: int) -> tuple[str, int, str]:
    readings = {f"uid-{name}": reading(name, amount) for name, amount in used.items()}
    chosen = victim(
        threshold, Observation(5 << 20, 1 << 34), pods, readings, own_image_disk=False, longest_grace=longest
    )
    if chosen is None:
        return "", 0, ""
    return chosen[0].metadata.name, chosen[1].grace, chosen[1].message


def test_the_first_in_order_that_may_go() -> None:
    critical = pod("critical", priority=2_000_001_000)
    assert found(HARD, pod("small"), critical, pod("large"), small=1, large=9, critical=99) == (
        *("large", 1),
        "The node was low on resource: memory. Threshold quantity: 1Gi, available: 5Mi. ",
    )
    assert found(HARD, critical, critical=99) == ("", 0, "")
    assert found(HARD) == ("", 0, "")


@pytest.mark.parametrize(
    ("own", "longest", "grace"), [(30, 0, 1), (30, 10, 10), (5, 10, 5), (None, 10, 10), (0, 10, 1), (30, -1, 1)]
)
def test_what_a_soft_threshold_grants(own: int | None, longest: int, grace: int) -> None:
    slow = pod("slow", termination_grace_period_seconds=own)
    assert found(SOFT, slow, longest=longest)[:2] == ("slow", grace)
    assert found(HARD, slow, longest=longest)[:2] == ("slow", 1)


def test_what_is_counted_and_not_measured_is_written_without_units() -> None:
    few = Threshold(signal="pid.available", least=Amount(parse("2048")))
    chosen = victim(few, Observation(1024, 32768), [pod("web")], {}, own_image_disk=False, longest_grace=0)
    assert chosen is not None
    assert chosen[1].message == "The node was low on resource: pids. Threshold quantity: 2048, available: 1024. "


@pytest.mark.parametrize(
    ("signal", "own_image_disk", "expected"),
    [
        ("memory.available", False, False),
        ("allocatableMemory.available", True, False),
        ("pid.available", False, False),
        ("nodefs.available", False, True),
        ("nodefs.inodesFree", True, False),
        ("imagefs.available", True, True),
        ("containerfs.inodesFree", True, True),
    ],
)
def test_what_can_be_cleared_away_is_on_the_disk_that_runs_full(
    signal: str, own_image_disk: bool, expected: bool
) -> None:
    assert clears_first(signal, own_image_disk=own_image_disk) is expected
