import asyncio

import pytest

from kit.virtual_time import virtual_time
from pykubelet.base.backoff import Backoff


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_delays_double_up_to_the_maximum() -> None:
    backoff = Backoff(10, 300, now=Clock(), jitter=0)
    assert [backoff.next() for _ in range(8)] == [10, 20, 40, 80, 160, 300, 300, 300]


def test_the_factor_is_free_to_choose() -> None:
    backoff = Backoff(1, 100, now=Clock(), factor=10, jitter=0)
    assert [backoff.next() for _ in range(4)] == [1, 10, 100, 100]


def test_a_reset_starts_over() -> None:
    backoff = Backoff(10, 300, now=Clock(), jitter=0)
    for _ in range(4):
        backoff.next()
    backoff.reset()
    assert [backoff.next() for _ in range(2)] == [10, 20]


@pytest.mark.parametrize(
    ("quiet", "then"),
    [
        (600.0, 40),  # exactly twice the maximum is not yet quiet enough
        (600.1, 10),
    ],
)
def test_a_quiet_time_of_twice_the_maximum_starts_over(quiet: float, then: float) -> None:
    clock = Clock()
    backoff = Backoff(10, 300, now=clock, jitter=0)
    backoff.next()
    backoff.next()
    clock.now += quiet
    assert backoff.next() == then


def test_the_quiet_time_is_free_to_choose() -> None:
    clock = Clock()
    backoff = Backoff(10, 300, now=clock, jitter=0, reset_after=5)
    backoff.next()
    clock.now += 6
    assert backoff.next() == 10


def test_failures_that_keep_coming_never_start_over() -> None:
    clock = Clock()
    backoff = Backoff(10, 300, now=clock, jitter=0)
    delays = []
    for _ in range(20):
        delays.append(backoff.next())
        clock.now += delays[-1] + 299
    assert delays == [10, 20, 40, 80, 160] + [300] * 15


@pytest.mark.parametrize("jitter", [0.1, 1.0, 3.0])
def test_jitter_adds_at_most_its_share_and_never_passes_the_maximum(jitter: float) -> None:
    backoff = Backoff(10, 300, now=Clock(), jitter=jitter)
    for base in (10, 20, 40, 80, 160, 300, 300):
        delays = set()
        for _ in range(50):
            backoff._delay = base  # the same step again and again
            delays.add(backoff.next())
        assert len(delays) > 1
        assert all(min(base, 300 / (1 + jitter)) <= delay <= min(base * (1 + jitter), 300) for delay in delays)


@virtual_time
async def test_the_loops_clock_will_do() -> None:
    loop = asyncio.get_running_loop()
    backoff = Backoff(10, 300, now=loop.time, jitter=0)
    for _ in range(5):
        await asyncio.sleep(backoff.next())
    assert loop.time() == 10 + 20 + 40 + 80 + 160
