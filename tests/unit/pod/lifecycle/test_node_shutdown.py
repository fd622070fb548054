"""In which order pods end before their machine does."""

import pytest

from kit.pods import make_pod
from pykubelet.api.pod import Pod
from pykubelet.api.struct import changed
from pykubelet.pod.lifecycle.node_shutdown import ShutdownPeriod, shutdown_grace, shutdown_order, shutdown_periods

CRITICAL = 2_000_000_000


def pod(name: str, priority: int | None = None, grace: int | None = 30) -> Pod:
    made = make_pod(name)
    return changed(made, spec=changed(made.spec, priority=priority, termination_grace_period_seconds=grace))


def order(periods: tuple[ShutdownPeriod, ...], *pods: Pod) -> list[tuple[int, list[str]]]:
    return [
        (period.priority, [each.metadata.name for each in crowd]) for period, crowd in shutdown_order(periods, pods)
    ]


def test_critical_pods_have_the_last_part_of_the_time_to_themselves() -> None:
    periods = shutdown_periods(30, 10)
    assert periods == (ShutdownPeriod(0, 20), ShutdownPeriod(CRITICAL, 10))
    pods = pod("critical", CRITICAL), pod("plain"), pod("low", -5), pod("dear", CRITICAL - 1), pod("node", CRITICAL + 1)
    assert order(periods, *pods) == [(0, ["plain", "low", "dear"]), (CRITICAL, ["critical", "node"])]


def test_each_priority_has_the_time_that_it_was_given() -> None:
    given = [{"priority": 1000, "shutdownGracePeriodSeconds": 5}, {"priority": 10, "shutdownGracePeriodSeconds": 60}]
    periods = shutdown_periods(0, 0, given)
    assert periods == (ShutdownPeriod(10, 60), ShutdownPeriod(1000, 5))
    assert order(periods, pod("a", 1000), pod("b", 999), pod("c"), pod("d", 10**6)) == [
        (10, ["b", "c"]),
        (1000, ["a", "d"]),
    ]


def test_a_crowd_of_nobody_is_not_waited_for() -> None:
    assert order(shutdown_periods(30, 10), pod("critical", CRITICAL)) == [(CRITICAL, ["critical"])]
    assert order(shutdown_periods(30, 10)) == []


def test_without_a_time_nobody_ends() -> None:
    assert shutdown_periods(0, 0) == ()
    assert order((), pod("a")) == []


@pytest.mark.parametrize(("own", "grace"), [(30, 20), (5, 5), (0, 0), (None, 20)])
def test_a_pod_has_its_own_grace_if_that_is_less(own: int | None, grace: int) -> None:
    assert shutdown_grace(pod("a", grace=own), ShutdownPeriod(0, 20)) == grace
