import asyncio

import pytest

from kit.virtual_time import virtual_time
from pykubelet.base.spare_memory import give_back, resident, trim

MIB = 1 << 20


@virtual_time
async def test_what_a_busy_moment_has_left_is_given_back_whenever_it_is_over() -> None:
    held, given = 70 * MIB, list[int]()

    def give() -> None:
        given.append(held)

    task = asyncio.create_task(give_back(lambda: held, give))
    for now, expected in ((70, 0), (86, 0), (140, 1), (140, 2), (60, 2), (80, 3)):
        held = now * MIB
        await asyncio.sleep(60.5)
        assert len(given) == expected, now
    task.cancel()


def test_freed_memory_goes_back_to_the_machine() -> None:
    held = [bytearray(3_000) for _ in range(30_000)]
    kept = held[::50]  # here and there, so that nothing goes by itself
    full = resident()
    del held
    trim()
    if full - resident() < 30 * MIB:
        pytest.skip("another C library")
    assert len(kept) == 600
