from pykubelet.pod.stats.rates import Loads, Rates
from pykubelet.pod.stats.stats import Cpu, Memory, TaskStates, Usage, summed

SECOND = 1_000_000_000


def test_a_rate_needs_two_readings_and_is_the_time_used_in_each_second() -> None:
    rates = Rates()
    assert rates.of("c", 0, 5 * SECOND) is None
    assert rates.of("c", 4 * SECOND, 7 * SECOND) == SECOND // 2


def test_readings_in_quick_succession_are_compared_with_the_same_older_one() -> None:
    rates = Rates(window=10.0)
    rates.of("c", 0, 0)
    assert rates.of("c", 8 * SECOND, 8 * SECOND) == SECOND
    assert rates.of("c", 9 * SECOND, 8 * SECOND) == 8 * SECOND // 9  # since the first, not in the last second
    rates.of("c", 10 * SECOND, 8 * SECOND)  # from here on this one is what others are compared with
    assert rates.of("c", 12 * SECOND, 8 * SECOND) == 0


def test_an_instant_says_nothing_of_a_rate() -> None:
    rates = Rates(least=0.5)
    rates.of("c", 0, 0)
    assert rates.of("c", SECOND // 10, SECOND) is None


def test_a_counter_that_went_back_is_another_one_under_the_same_name() -> None:
    rates = Rates()
    rates.of("c", 0, 9 * SECOND)
    assert rates.of("c", SECOND, SECOND) is None
    assert rates.of("c", 3 * SECOND, 3 * SECOND) == SECOND


def test_what_nobody_asks_about_is_forgotten() -> None:
    rates = Rates()
    rates.of("gone", 0, 0)
    rates.of("here", 0, 0)
    rates.forget_others()
    rates.of("here", SECOND, 0)
    rates.forget_others()
    assert rates.of("here", 2 * SECOND, 0) == 0
    assert rates.of("gone", 2 * SECOND, 0) is None


def test_several_groups_use_together_what_each_of_them_uses() -> None:
    one = Usage(at=1, cpu=Cpu(total=5, rate=2), memory=Memory(usage=10, working_set=8, limit=100), processes=2)
    other = Usage(at=1, cpu=Cpu(total=7), memory=Memory(usage=1, working_set=1, limit=50))
    both = summed(9, [one, other])
    assert both.at == 9
    assert both.cpu == Cpu(total=12, rate=2)
    assert both.memory == Memory(usage=11, working_set=9, limit=150)
    assert both.processes == 2
    assert both.threads is None


def test_a_sum_has_no_limit_when_one_part_has_none() -> None:
    both = summed(0, [Usage(at=0, memory=Memory(limit=5)), Usage(at=0, memory=Memory())])
    assert both.memory is not None
    assert both.memory.limit is None
    assert both.cpu is None


def test_available_is_what_the_working_set_leaves_of_the_limit() -> None:
    assert Memory(working_set=30, limit=100).available == 70
    assert Memory(working_set=130, limit=100).available == 0
    assert Memory(working_set=30).available is None
    assert Memory(swap=2, swap_limit=5).swap_available == 3


def test_a_load_follows_what_runs_over_ten_seconds() -> None:
    loads, busy = Loads(), TaskStates(running=2, uninterruptible=1)
    assert loads.of("a", 0, busy) == (0, 0)
    assert loads.of("a", 10 * SECOND, busy) == (1264, 632)
    assert loads.of("a", 100 * SECOND, busy) == (2000, 1000)
    assert loads.of("a", 110 * SECOND, TaskStates()) == (736, 368)
    loads.forget_others()
    loads.forget_others()
    assert loads.of("a", 120 * SECOND, busy) == (0, 0)
