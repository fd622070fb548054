from datetime import datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykubelet.api.container import Container, ResourceRequirements
from pykubelet.api.quantity import Quantity
from pykubelet.api.struct import changed
from pykubelet.pod.lifecycle.crash_loop_backoff import (
    CrashLoops,
    RestartWaits,
    crash_loop_key,
    crash_loop_message,
    last_exit,
    should_restart,
)
from pykubelet.pod.observed import ObservedContainer, State
from unit.pod.seen_pods import NOON, container, created, exited, observed, pod, running, seen, unknown

FIRST_WAIT, LONGEST_WAIT, FORGOTTEN_AFTER = 10.0, 300.0, timedelta(minutes=10)


def after(seconds: float) -> datetime:
    return NOON + timedelta(seconds=seconds)


# --- whether


@pytest.mark.parametrize("policy", ["Always", "OnFailure", "Never"])
@pytest.mark.parametrize(
    ("newest", "restarts"),
    [
        pytest.param(None, True, id="never started"),
        pytest.param(running("c"), False, id="running"),
        pytest.param(created("c"), True, id="created and never started"),
        pytest.param(unknown("c"), True, id="lost sight of"),
    ],
)
def test_only_a_seen_end_is_judged_by_the_restart_policy(
    newest: ObservedContainer | None, restarts: bool, policy: str
) -> None:
    made = pod("c", restart=policy)
    assert should_restart(made, made.spec.containers[0], newest) is restarts


@pytest.mark.parametrize(
    ("policy", "exit_code", "restarts"),
    [
        ("Always", 0, True),
        ("Always", 1, True),
        ("", 0, True),
        ("OnFailure", 0, False),
        ("OnFailure", 1, True),
        ("OnFailure", 137, True),
        ("Never", 0, False),
        ("Never", 1, False),
    ],
)
def test_after_an_end_the_restart_policy_decides(policy: str, exit_code: int, restarts: bool) -> None:
    made = pod("c", restart=policy)
    assert should_restart(made, made.spec.containers[0], exited("c", exit_code)) is restarts


@pytest.mark.parametrize("newest", [None, created("c"), exited("c", 1), unknown("c")])
def test_nothing_starts_again_in_a_pod_that_is_being_deleted(newest: ObservedContainer | None) -> None:
    made = pod("c", deleted=True)
    assert not should_restart(made, made.spec.containers[0], newest)


def test_the_wait_is_counted_from_the_newest_end() -> None:
    first, second = (seen("c", State.EXITED, attempt=n) for n in (0, 1))
    assert last_exit(observed(running("c"), exited("d"), second, first), "c") is second


def test_what_never_ended_has_no_end() -> None:
    assert last_exit(observed(running("c"), created("c"), unknown("c"), exited("d")), "c") is None


# --- how long


def crashes(*ends: float, start_after: float = 0) -> CrashLoops:
    """A container that ended at each of these seconds, and was started again `start_after` seconds later."""
    loops = CrashLoops()
    for end in ends:
        loops = loops.started("c", after(end), after(end + start_after))
    return loops


def test_the_first_restart_is_immediate() -> None:
    assert CrashLoops().wait("c", NOON, NOON) == 0


def test_the_second_restart_waits_ten_seconds_from_the_end() -> None:
    loops = crashes(0)
    assert loops.wait("c", after(5), after(5)) == 10
    assert loops.wait("c", after(5), after(8)) == 7
    assert loops.wait("c", after(5), after(15)) == 0
    assert loops.wait("c", after(5), after(99)) == 0


def test_each_wait_is_twice_the_one_before_up_to_five_minutes() -> None:
    loops, now, waits = CrashLoops(), NOON, []
    for _ in range(8):
        waits.append(loops.wait("c", now, now))
        assert loops.length("c") == waits[-1]
        now += timedelta(seconds=waits[-1])
        loops = loops.started("c", now, now)
    assert waits == [0, 10, 20, 40, 80, 160, 300, 300]


def test_a_container_that_ran_long_enough_is_forgiven() -> None:
    loops = crashes(0, 20, 60)
    end = after(60) + FORGOTTEN_AFTER + timedelta(seconds=1)
    assert loops.wait("c", end, end) == 0
    assert loops.started("c", end, end).length("c") == FIRST_WAIT


def test_a_container_that_ran_not_quite_long_enough_is_not_forgiven() -> None:
    loops = crashes(0, 20, 60)
    end = after(60) + FORGOTTEN_AFTER - timedelta(seconds=100)
    assert loops.wait("c", end, end) == 40
    assert loops.started("c", end, end + timedelta(seconds=40)).length("c") == 80


def test_forgiveness_may_come_while_waiting() -> None:
    loops = crashes(*range(0, 7000, 500), start_after=300)
    restarted = 6800
    end = after(restarted + 400)
    assert loops.length("c") == LONGEST_WAIT
    assert loops.wait("c", end, end) == 200
    assert loops.started("c", end, end + timedelta(seconds=200)).length("c") == FIRST_WAIT


def test_a_start_without_an_end_before_it_does_not_count() -> None:
    assert CrashLoops().started("c", None, NOON) == CrashLoops()
    assert crashes(0).started("c", None, after(1)) == crashes(0)
    assert crashes(0).wait("c", None, after(1)) == 0


def test_containers_wait_each_for_themselves() -> None:
    loops = crashes(0)
    assert loops.wait("d", after(1), after(1)) == 0
    assert loops.started("d", after(1), after(1)).length("c") == FIRST_WAIT


def test_what_is_forgotten_takes_no_room() -> None:
    later = NOON + FORGOTTEN_AFTER
    assert set(crashes(0).started("d", later, later).loops) == {"d"}


def test_a_clock_that_is_set_back_makes_nobody_wait_longer() -> None:
    assert crashes(0).wait("c", after(3600), NOON) == FIRST_WAIT


@given(st.lists(st.tuples(st.floats(0, 2000), st.floats(0, 100)), max_size=30))
def test_no_wait_is_longer_than_the_longest_and_waiting_it_out_is_enough(runs: list[tuple[float, float]]) -> None:
    loops, now = CrashLoops(), NOON
    for ran, dawdled in runs:
        end = now + timedelta(seconds=ran)
        wait = loops.wait("c", end, end)
        assert 0 <= wait <= min(loops.length("c"), LONGEST_WAIT)
        now = end + timedelta(seconds=wait)
        assert loops.wait("c", end, now) < 1e-5
        now += timedelta(seconds=dawdled)
        loops = loops.started("c", end, now)
        assert FIRST_WAIT <= loops.length("c") <= LONGEST_WAIT


# --- who, and what people are told


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(container("d"), id="name"),
        pytest.param(changed(container("c"), image="busybox:2"), id="image"),
        pytest.param(
            changed(container("c"), resources=ResourceRequirements(limits={"cpu": Quantity.of(1)})), id="limits"
        ),
        pytest.param(
            changed(container("c"), resources=ResourceRequirements(requests={"cpu": Quantity.of(1)})), id="requests"
        ),
    ],
)
def test_a_changed_container_gets_a_fresh_chance(other: Container) -> None:
    assert crash_loop_key(other) != crash_loop_key(container("c"))


def test_an_unchanged_container_keeps_waiting() -> None:
    one = changed(
        container("c"), resources=ResourceRequirements(limits={"cpu": Quantity.of(1), "memory": Quantity.of(2)})
    )
    two = changed(
        container("c"), resources=ResourceRequirements(limits={"memory": Quantity.of(2), "cpu": Quantity.of(1)})
    )
    assert crash_loop_key(one) == crash_loop_key(two)
    assert crash_loop_key(changed(one, command=("sh",))) == crash_loop_key(one)


@pytest.mark.parametrize(
    ("length", "text"), [(10, "10s"), (20, "20s"), (40, "40s"), (80, "1m20s"), (160, "2m40s"), (300, "5m0s")]
)
def test_people_are_told_in_the_words_they_know(length: float, text: str) -> None:
    expected = f"back-off {text} restarting failed container=c pod=web_default(uid-web)"
    assert crash_loop_message(pod("c"), "c", length) == expected


def test_a_node_may_have_shorter_waits() -> None:
    loops, now, waits = CrashLoops(RestartWaits(first=1.0, longest=3.0)), NOON, []
    for _ in range(4):
        loops = loops.started("c", now, now)
        waits.append(loops.length("c"))
    assert waits == [1.0, 2.0, 3.0, 3.0]
    assert loops.started("c", after(7), after(7)).length("c") == 1.0  # it was up for more than twice the longest
