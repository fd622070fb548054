"""What happens only while the node object on the API server is this machine's own: renewing its lease, taking its pods.

It is not known at first, and may be lost: to another machine that took the name while this one could not be heard.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

from pykubelet.base.tasks import Work
from pykubelet.pod.lifecycle.pod_update import Applied, Gone, Listed
from pykubelet.pod.ports.syncer import PodSource


class Ownership:
    def __init__(self) -> None:
        self._won = asyncio.Event()
        self._lost = asyncio.Event()
        self._lost.set()

    @property
    def is_ours(self) -> bool:
        return self._won.is_set()

    def say(self, is_ours: bool) -> None:
        now, before = (self._won, self._lost) if is_ours else (self._lost, self._won)
        before.clear()
        now.set()

    async def wait(self) -> None:
        """Until it is ours."""
        await self._won.wait()

    async def while_ours(self, work: Work) -> None:
        """Do the work whenever the node is ours, and stop it when it is not. Ends when the work does."""
        while True:
            await self._won.wait()
            working = asyncio.ensure_future(work())
            losing = asyncio.ensure_future(self._lost.wait())
            try:
                await asyncio.wait([working, losing], return_when=asyncio.FIRST_COMPLETED)
                if working.done():
                    return working.result()
            finally:
                working.cancel()
                losing.cancel()
                await asyncio.gather(working, losing, return_exceptions=True)


class OwnPods:
    """The pods of a source, told only while the node is ours. What is told later is not lost, but held back."""

    def __init__(self, source: PodSource, ownership: Ownership) -> None:
        self._source = source
        self._ownership = ownership

    async def watch(self) -> AsyncGenerator[Listed | Applied | Gone, None]:
        await self._ownership.wait()
        async with aclosing(self._source.watch()) as events:
            async for event in events:
                await self._ownership.wait()
                yield event
