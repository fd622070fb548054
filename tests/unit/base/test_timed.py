import asyncio

import pytest

from kit.virtual_time import virtual_time
from pykubelet.base.journal import About, Journal
from pykubelet.base.timed import CANCELLED, timed

WEB = About("u1", "default", "web")


@virtual_time
async def test_how_long_something_took_and_how_it_failed() -> None:
    journal: Journal[tuple[float, str]] = Journal()

    async def work(error: Exception | None) -> None:
        with timed(journal, lambda seconds, error: (round(seconds), error), WEB):
            await asyncio.sleep(5)
            if error is not None:
                raise error

    await work(None)
    for error in (LookupError("why"), LookupError()):
        with pytest.raises(LookupError):
            await work(error)
    task = asyncio.create_task(work(None))
    await asyncio.sleep(2)
    task.cancel()
    await asyncio.wait([task])
    assert [each.moment for each in journal.of("u1")] == [(5, ""), (5, "why"), (5, "LookupError"), (2, CANCELLED)]
