"""The pod lifecycle event generator: word of what happens in the runtime.

The runtime's own stream of changes wakes workers within milliseconds. It is a hint: a look at everything now and then
is the safety net, and the only source when there is no stream. That look serves everybody who wants to know what is
there: nobody else lists.
"""

import asyncio
import logging
import math
from collections.abc import Callable, Iterable, Mapping
from contextlib import aclosing, suppress
from typing import Final

from pykubelet.base.errors import PykubeletError, Retry
from pykubelet.node.messages import Message, RuntimeChanged
from pykubelet.pod.moments import EventsFollowed, Journal, Relisted
from pykubelet.pod.observed import ObservedPod
from pykubelet.pod.ports.runtime import Runtime

log = logging.getLogger(__name__)

RELIST: Final = 1.0
RELIST_WITH_EVENTS: Final = 10.0
_RECONNECT: Final = 5.0
_LONGEST_SILENCE: Final = 180.0
"""Seconds without a look at everything after which nobody can say that pods are seen to."""


class Pleg:
    def __init__(self, runtime: Runtime, inbox: "asyncio.Queue[Message]", journal: Journal) -> None:
        self._runtime = runtime
        self._journal = journal
        self._inbox = inbox
        self._seen: dict[str, ObservedPod] = {}
        self._gone: set[str] = set()
        """Pods of which nothing is left since the look that is under way began."""
        self._begun = 0
        self._ended = 0
        """Which look was the last to begin, and to end."""
        self._looked = asyncio.Event()
        """Set when the look that is under way, or the next one, has ended."""
        self._failure: PykubeletError | None = Retry("nobody has looked yet")
        """Of the last look."""
        self._heard_since = math.inf
        """When the stream of changes was opened, on the loop's clock; infinite: there is none."""
        self._hurry = asyncio.Event()
        """The next look cannot wait."""
        self.trouble = ""
        """What is wrong with the runtime, if anything; empty while it answers."""
        self.network_trouble = ""
        """What is wrong with its network, if anything."""
        self.on_change: Callable[[], None] = lambda: None
        """Told when one of these has changed."""
        self._relisted: float | None = None
        self._looked_at: float | None = None
        """When everything was last seen, or for the first time asked for, on the loop's clock."""

    def silence(self) -> tuple[str, ...]:
        """A sentence when the runtime's pods have not been seen for too long, whatever it says of itself."""
        seconds = 0.0 if self._looked_at is None else asyncio.get_running_loop().time() - self._looked_at
        return () if seconds <= _LONGEST_SILENCE else ("PLEG is not healthy: the runtime does not show its pods",)

    @property
    def seen(self) -> Mapping[str, ObservedPod]:
        """What the last look at everything has shown, by uid, but for the pods that are gone since."""
        return self._seen

    @property
    def is_blind(self) -> bool:
        """Whether the last look has failed, or there was none: then `seen` says too little to clear anything away."""
        return self._failure is not None

    async def look(self) -> tuple[ObservedPod, ...]:
        """What is there from now on. Raises base.errors when that cannot be seen."""
        begun = self._begun
        self._hurry.set()
        while self._ended <= begun:  # one that is under way began too soon
            await self._looked.wait()
        if self._failure is not None:
            raise Retry(str(self._failure))
        return tuple(self._seen.values())

    def forget(self, uid: str) -> None:
        """Nothing is left of a pod. A look that began before may still show it."""
        self._seen.pop(uid, None)
        self._gone.add(uid)

    async def follow_events(self) -> None:
        """Pass the runtime's hints on. While there are none, relisting is the faster."""
        said = ""
        while True:
            try:
                async with aclosing(self._runtime.changes()) as changes:
                    self._heard_since = asyncio.get_running_loop().time()
                    self._journal.note(EventsFollowed())
                    async for uid in changes:
                        await self._inbox.put(RuntimeChanged(uid))
            except PykubeletError as error:
                self._journal.note(EventsFollowed(str(error)))
                level = logging.DEBUG if str(error) == said else logging.WARNING
                log.log(level, "the runtime's events are lost, looking every %g s instead: %s", RELIST, error)
                said = str(error)
            self._heard_since = math.inf
            self._hurry.set()
            await asyncio.sleep(_RECONNECT)

    async def relist(self) -> None:
        if self._looked_at is None:
            self._looked_at = asyncio.get_running_loop().time()
        while True:
            began = asyncio.get_running_loop().time()
            before = self.trouble, self.network_trouble
            self._hurry.clear()
            try:
                for uid in await self._look_at_all(began):
                    await self._inbox.put(RuntimeChanged(uid))
                status = await self._runtime.status()
                self.network_trouble = "" if status.network_ready else status.network_message or "no reason given"
            except PykubeletError as error:
                if str(error) != self.trouble:
                    log.error("the runtime does not answer: %s", error)
                self.trouble = str(error)
            else:
                if self.trouble:
                    log.info("the runtime answers again")
                self.trouble = ""
            if (self.trouble, self.network_trouble) != before:
                self.on_change()
            await self._rest(began)

    async def _look_at_all(self, began: float) -> list[str]:
        """-> the pods that have changed since the last look. Raises base.errors."""
        self._begun += 1
        self._gone.clear()
        failure: PykubeletError | None = Retry("the last look was cut short")
        try:
            pods = await self._runtime.pods()
            self._looked_at, failure = asyncio.get_running_loop().time(), None
            return self._changed(pod for pod in pods if pod.uid not in self._gone)
        except PykubeletError as error:
            failure = error
            raise
        finally:
            self._ended, self._failure = self._begun, failure
            self._looked.set()
            self._looked = asyncio.Event()
            self._tell(began)

    def _tell(self, began: float) -> None:
        before, self._relisted = self._relisted, began
        seconds = asyncio.get_running_loop().time() - began
        self._journal.note(Relisted(seconds, None if before is None else began - before))

    async def _rest(self, began: float) -> None:
        """Until the next look is due. The long rest needs a look that began well after the stream was opened: nobody
        says when a stream is, and what happens before that is told to no one. It ends when the stream does, or when
        somebody wants to know."""
        seldom = not self.trouble and began >= self._heard_since + RELIST
        with suppress(TimeoutError):
            async with asyncio.timeout(RELIST_WITH_EVENTS if seldom else RELIST):
                await self._hurry.wait()

    def _changed(self, pods: Iterable[ObservedPod]) -> list[str]:
        now = {pod.uid: pod for pod in pods}
        before, self._seen = self._seen, now
        return [uid for uid in now | before if now.get(uid) != before.get(uid)]
