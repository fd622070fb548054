"""When a node runs short."""

import pytest

from pykubelet.api.quantity import parse
from pykubelet.pod.eviction.thresholds import (
    Amount,
    Observation,
    PressureState,
    Threshold,
    most_urgent,
    observations,
    parse_thresholds,
    pressure_after,
    thresholds_met,
    with_container_disk,
)
from pykubelet.pod.stats.stats import Disk, GroupReading, Memory, NodeReading, Usage

MI = 1 << 20
HARD = Threshold(signal="memory.available", least=Amount(parse("100Mi")))


def parsed(hard: dict[str, str], **more: dict[str, str]) -> tuple[Threshold, ...]:
    given = {"soft": {}, "graces": {}, "reclaims": {}, **more}
    return parse_thresholds(hard, **given, for_allocatable=False)


def seen(**available: int) -> dict[str, Observation]:
    """In MiB of a thousand, by names without dots."""
    return {f"{name}.available": Observation(left * MI, 1000 * MI) for name, left in available.items()}


def test_thresholds_are_amounts_or_shares_and_soft_ones_have_a_grace() -> None:
    found = parsed(
        {"memory.available": "100Mi", "nodefs.available": "10%", "imagefs.available": "0%"},
        soft={"memory.available": "20%"},
        graces={"memory.available": "1m30s"},
        reclaims={"nodefs.available": "1Gi"},
    )
    disk, soft = found[1:]
    assert found[0] == HARD
    assert disk.least.of(10**9) == parse("100000001"), "a tenth as Go has it"
    assert disk.reclaim == Amount(parse("1Gi"))
    assert (soft.grace, soft.is_hard, HARD.is_hard) == (90, False, True)


def test_what_all_pods_may_have_is_watched_with_the_nodes_own_memory() -> None:
    found = parse_thresholds({"memory.available": "100Mi"}, {}, {}, {}, for_allocatable=True)
    assert [each.signal for each in found] == ["memory.available", "allocatableMemory.available"]


@pytest.mark.parametrize(
    ("hard", "more", "fault"),
    [
        ({"memory.free": "1"}, {}, "unsupported eviction signal memory.free"),
        ({"memory.available": "101%"}, {}, "must be <= 100%"),
        ({"memory.available": "-1%"}, {}, "must be >= 0%"),
        ({"memory.available": "0"}, {}, "must be positive"),
        ({"memory.available": "much"}, {}, "much"),
        ({}, {"soft": {"memory.available": "1Gi"}}, "grace period must be specified"),
        ({}, {"graces": {"memory.available": "-1s"}}, "must be a positive value"),
        ({}, {"reclaims": {"memory.available": "0%"}}, "must be positive"),
        ({}, {"reclaims": {"memory.available": "-1"}}, "negative eviction minimum reclaim"),
    ],
)
def test_what_cannot_be_meant_is_refused(hard: dict[str, str], more: dict[str, dict[str, str]], fault: str) -> None:
    with pytest.raises(ValueError, match=fault):
        parsed(hard, **more)


def test_what_containers_write_to_has_the_thresholds_of_the_disk_that_it_is_on() -> None:
    said = parsed({"nodefs.available": "10%", "imagefs.available": "15%", "containerfs.available": "50%"})
    shares = {
        own: [round(each.least.share, 2) for each in with_container_disk(said, own_image_disk=own)]
        for own in (False, True)
    }
    assert shares == {False: [0.1, 0.15, 0.1], True: [0.1, 0.15, 0.15]}


def test_a_threshold_is_met_below_it_and_not_at_it() -> None:
    assert thresholds_met([HARD], seen(memory=100), with_reclaim=False) == ()
    assert thresholds_met([HARD], seen(memory=99), with_reclaim=False) == (HARD,)
    assert thresholds_met([HARD], {}, with_reclaim=False) == (), "what is not seen is not short"


def test_pressure_goes_on_until_enough_has_been_won_back_and_is_told_for_a_while_after() -> None:
    (threshold,) = parsed({"memory.available": "100Mi"}, reclaims={"memory.available": "50Mi"})
    state, told = PressureState(), []
    for now, left in ((0.0, 120), (10.0, 90), (20.0, 120), (30.0, 151), (60.0, 151), (75.0, 151)):
        state = pressure_after(state, [threshold], seen(memory=left), now, transition=50)
        told.append((bool(state.met), bool(state.conditions)))
    assert told == [(False, False), (True, True), (True, True), (False, True), (False, True), (False, False)]


def test_a_soft_threshold_is_borne_for_its_grace_but_told_at_once() -> None:
    (soft,) = parsed({}, soft={"memory.available": "100Mi"}, graces={"memory.available": "30s"})
    state, told = PressureState(), []
    for now, left in ((0.0, 90), (20.0, 90), (25.0, 110), (30.0, 90), (59.0, 90), (60.0, 90)):
        state = pressure_after(state, [soft], seen(memory=left), now, transition=5)
        told.append((bool(state.met), bool(state.conditions)))
    assert told == [(False, True), (False, True), (False, False), (False, True), (False, True), (True, True)]


def test_memory_is_won_back_before_all_else() -> None:
    disk = Threshold(signal="nodefs.available", least=Amount(share=0.1))
    assert most_urgent([disk, HARD]) == HARD
    assert most_urgent([disk]) == disk
    assert most_urgent([]) is None


def test_what_is_seen_of_a_node() -> None:
    disk = Disk(at=1, available=5, capacity=10, inodes=0, inodes_free=0)
    images = Disk(at=1, available=6, capacity=12, inodes=8, inodes_free=4)
    pods = GroupReading(group="/kubepods", usage=Usage(at=1, memory=Memory(working_set=3, limit=10)))
    node = NodeReading(
        usage=Usage(at=1, memory=Memory(working_set=40, limit=100)),
        disk=disk,
        images=images,
        max_pid=100,
        tasks=30,
        system={"pods": pods},
    )
    assert observations(node) == {
        "memory.available": Observation(60, 100),
        "allocatableMemory.available": Observation(7, 10),
        "nodefs.available": Observation(5, 10),
        "imagefs.available": Observation(6, 12),
        "imagefs.inodesFree": Observation(4, 8),
        "containerfs.available": Observation(6, 12),
        "containerfs.inodesFree": Observation(4, 8),
        "pid.available": Observation(70, 100),
    }
    assert observations(NodeReading(usage=Usage(at=1))) == {}
