import asyncio

import pytest

from pykubelet.base.rate_limit import TokenBucket


def test_a_burst_goes_at_once_and_the_rest_at_the_rate() -> None:
    bucket = TokenBucket(rate=10, burst=3)
    assert [bucket.reserve(100.0) for _ in range(5)] == pytest.approx([0, 0, 0, 0.1, 0.2])


def test_tokens_grow_back_up_to_the_burst() -> None:
    bucket = TokenBucket(rate=10, burst=2)
    for _ in range(2):
        bucket.reserve(100.0)
    assert [bucket.reserve(1000.0) for _ in range(3)] == pytest.approx([0, 0, 0.1])


def test_no_rate_is_no_limit() -> None:
    bucket = TokenBucket(rate=0, burst=1)
    assert {bucket.reserve(100.0) for _ in range(1000)} == {0.0}


async def test_who_gives_up_waiting_gives_the_token_back() -> None:
    bucket = TokenBucket(rate=0.001, burst=1)
    await bucket.wait()
    waiting = asyncio.create_task(bucket.wait())
    await asyncio.sleep(0)
    before = bucket.reserve(asyncio.get_running_loop().time())
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert bucket.reserve(asyncio.get_running_loop().time()) == pytest.approx(before, abs=1)
