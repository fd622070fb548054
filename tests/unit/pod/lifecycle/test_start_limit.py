"""What the limit learns from runtimes of different kinds."""

from pykubelet.pod.lifecycle.start_limit import LEAST, MOST, StartLimit


def after(calls: int, seconds_with: dict[str, float], cores: float) -> StartLimit:
    """A runtime whose calls share so many cores, with as many at a time as the limit allows."""
    limit = StartLimit()
    for _ in range(calls):
        for kind, alone in seconds_with.items():
            limit = limit.learned(kind, alone, 1)
    for _ in range(calls):
        for kind, alone in seconds_with.items():
            running = int(limit.allowed)
            limit = limit.learned(kind, alone * max(1.0, running / cores), running)
    return limit


def test_a_runtime_that_is_out_of_cores_gets_little_more_than_it_has_cores() -> None:
    assert 2 <= after(60, {"sandbox": 0.1, "create": 0.02, "start": 0.05}, cores=2).allowed < 6
    assert 8 <= after(60, {"sandbox": 0.1}, cores=8).allowed < 16


def test_a_runtime_that_only_waits_gets_more_and_more() -> None:
    assert after(100, {"sandbox": 2.0}, cores=1000).allowed == MOST


def test_a_runtime_with_one_core_is_never_left_without_work() -> None:
    assert after(200, {"sandbox": 0.5}, cores=0.1).allowed >= LEAST


def test_a_runtime_with_nothing_to_do_teaches_nothing_but_how_quick_it_is() -> None:
    limit = StartLimit()
    for _ in range(100):
        limit = limit.learned("sandbox", 0.1, 1)
    assert limit.allowed == StartLimit().allowed
    assert limit.quickest == {"sandbox": 0.1}


def test_a_machine_that_has_become_slower_for_good_is_not_held_to_its_best_day() -> None:
    limit = StartLimit().learned("sandbox", 0.01, 1)
    for _ in range(3000):
        limit = limit.learned("sandbox", 0.5, 1)
    assert limit.quickest["sandbox"] > 0.4
