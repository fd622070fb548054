import asyncio
import logging

import pytest

from kit.virtual_time import virtual_time
from pykubelet.base.tasks import every, supervise, unless


class Work:
    """Fails `times` times, then goes on for ever."""

    def __init__(self, times: int, failure: BaseException | None, lasts: float = 0.0) -> None:
        self.starts: list[float] = []
        self._times = times
        self._failure = failure
        self._lasts = lasts

    async def __call__(self) -> None:
        self.starts.append(asyncio.get_running_loop().time())
        await asyncio.sleep(self._lasts)
        if len(self.starts) > self._times:
            await asyncio.sleep(1e9)
        if self._failure is not None:
            raise self._failure


async def supervised_for(seconds: float, work: Work) -> None:
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(seconds):
            await supervise("the thing", work)


@virtual_time
async def test_work_that_fails_is_started_again_after_growing_pauses() -> None:
    work = Work(8, OSError("disk on fire"))
    await supervised_for(600, work)
    pauses = [after - before for before, after in zip(work.starts, work.starts[1:], strict=False)]
    assert len(pauses) == 8
    for pause, (low, high) in zip(pauses, [(1, 2), (2, 4), (4, 8), (8, 16), (16, 32), *[(30, 60)] * 3], strict=True):
        assert low <= pause <= high


@virtual_time
async def test_work_that_ends_by_itself_is_started_again(caplog: pytest.LogCaptureFixture) -> None:
    work = Work(2, None)
    await supervised_for(60, work)
    assert len(work.starts) == 3
    assert "the thing ended by itself; starting it again in" in caplog.text


@virtual_time
async def test_a_failure_is_logged_with_its_traceback(caplog: pytest.LogCaptureFixture) -> None:
    await supervised_for(60, Work(1, OSError("disk on fire")))
    failed, again = caplog.records
    assert (failed.levelno, failed.getMessage()) == (logging.ERROR, "the thing failed")
    assert failed.exc_info is not None
    assert str(failed.exc_info[1]) == "disk on fire"
    assert again.levelno == logging.WARNING
    assert again.getMessage().startswith("the thing failed; starting it again in")


@virtual_time
async def test_work_that_went_well_for_long_is_started_again_soon() -> None:
    work = Work(10, OSError("now and then"), lasts=150)
    await supervised_for(2000, work)
    pauses = [after - before for before, after in zip(work.starts, work.starts[1:], strict=False)]
    assert all(151 <= pause <= 152 for pause in pauses)


@virtual_time
async def test_cancelling_ends_the_work_and_its_supervision() -> None:
    work = Work(0, None)
    task = asyncio.create_task(supervise("the thing", work))
    await asyncio.sleep(1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert len(work.starts) == 1


@virtual_time
async def test_a_cancellation_that_leaks_out_of_the_work_does_not_end_its_supervision() -> None:
    work = Work(1, asyncio.CancelledError())
    await supervised_for(60, work)
    assert len(work.starts) == 2


@virtual_time
async def test_what_is_no_exception_of_the_program_is_not_held_up() -> None:
    with pytest.raises(SystemExit):
        await supervise("the thing", Work(1, SystemExit(3)))


@virtual_time
async def test_every_yields_at_once_and_then_once_a_period() -> None:
    loop = asyncio.get_running_loop()
    times = []
    async for _ in every(10):
        times.append(loop.time())
        await asyncio.sleep(3)
        if len(times) == 4:
            break
    assert times == [0, 10, 20, 30]


@virtual_time
async def test_a_slow_body_delays_the_next_turn_and_turns_never_pile_up() -> None:
    loop = asyncio.get_running_loop()
    times = []
    async for _ in every(10):
        times.append(loop.time())
        if len(times) == 1:
            await asyncio.sleep(35)
        if len(times) == 4:
            break
    assert times == [0, 35, 45, 55]


async def test_work_goes_on_unless_the_other_one_is_done_first() -> None:
    async def after(seconds: float, what: str) -> str:
        done.append(f"{what} begins")
        try:
            await asyncio.sleep(seconds)
        finally:
            done.append(f"{what} ends")
        return what

    done: list[str] = []
    assert await unless(after(10.0, "told"), after(0.0, "work")) == "work"
    assert done == ["told begins", "work begins", "work ends", "told ends"]
    assert await unless(after(0.0, "told"), after(10.0, "work")) is None
    assert done[4:] == ["told begins", "work begins", "told ends", "work ends"]


async def test_work_that_fails_says_so() -> None:
    async def fails() -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        await unless(asyncio.sleep(10.0), fails())
