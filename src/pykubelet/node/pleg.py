"""The pod lifecycle event generator: word of what happens in the runtime.

The runtime's own stream of changes wakes workers within milliseconds. It is a hint: a look at everything now and then
is the safety net, and the only source when there is no stream.
"""

import asyncio
import logging
from contextlib import aclosing
from typing import Final

from pykubelet.base.errors import PykubeletError
from pykubelet.node.messages import Message, RuntimeChanged
from pykubelet.pod.observed import ObservedPod
from pykubelet.pod.ports import Runtime

log = logging.getLogger(__name__)

RELIST: Final = 1.0
RELIST_WITH_EVENTS: Final = 10.0
_RECONNECT: Final = 5.0


class Pleg:
    def __init__(self, runtime: Runtime, inbox: "asyncio.Queue[Message]") -> None:
        self._runtime = runtime
        self._inbox = inbox
        self._seen: dict[str, ObservedPod] = {}
        self._has_events = asyncio.Event()
        self.trouble = ""
        """What is wrong with the runtime, if anything; empty while it answers."""
        self.network_trouble = ""
        """What is wrong with its network, if anything."""

    async def follow_events(self) -> None:
        """Pass the runtime's hints on. While there are none, relisting is the faster."""
        while True:
            try:
                async with aclosing(self._runtime.changes()) as changes:
                    self._has_events.set()
                    async for uid in changes:
                        await self._inbox.put(RuntimeChanged(uid))
            except PykubeletError as error:
                log.warning("the runtime's events are lost, looking every %g s instead: %s", RELIST, error)
            self._has_events.clear()
            await asyncio.sleep(_RECONNECT)

    async def relist(self) -> None:
        while True:
            try:
                for uid in self._changed(await self._runtime.pods()):
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
            await asyncio.sleep(RELIST_WITH_EVENTS if self._has_events.is_set() and not self.trouble else RELIST)

    def _changed(self, pods: tuple[ObservedPod, ...]) -> list[str]:
        now = {pod.uid: pod for pod in pods}
        before, self._seen = self._seen, now
        return [uid for uid in now.keys() | before.keys() if now.get(uid) != before.get(uid)]
