import asyncio
import threading

import pytest

from pykubelet.host.threads import in_thread


async def test_the_result_and_the_failure_of_the_work_are_ours() -> None:
    assert await in_thread(int, "ff", base=16) == 255
    with pytest.raises(ValueError, match="invalid literal"):
        await in_thread(int, "x")


async def test_who_is_cancelled_waits_for_the_work_to_end() -> None:
    begun, may_end = threading.Event(), threading.Event()
    ended: list[str] = []

    def work() -> None:
        begun.set()
        may_end.wait(10)
        ended.append("work")
        raise ValueError("that nobody hears")

    task = asyncio.create_task(in_thread(work))
    await in_thread(begun.wait, 10)
    for _ in range(2):
        task.cancel()
        await asyncio.sleep(0)
    assert not task.done()
    may_end.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended == ["work"]
