"""Before the machine goes down: no pod comes any more, and those that are here end in good order, the least important
first, each crowd within its time."""

import asyncio
import logging
from collections.abc import Callable, Iterable
from contextlib import aclosing, suppress
from datetime import UTC, datetime
from typing import Final

from pykubelet.api.pod import Pod
from pykubelet.base.errors import NotFound, PykubeletError
from pykubelet.node.dependencies import ShutdownParts
from pykubelet.node.messages import GoingDown, Message
from pykubelet.pod.lifecycle.node_shutdown import UNREADY, shutdown_grace, shutdown_order
from pykubelet.pod.ports.machine import ShutdownNotice, ShutdownNotices

log = logging.getLogger(__name__)

_RECONNECT: Final = 1.0
_WITHOUT_BUS: Final = 60.0
_LOOK: Final = 0.05
_TELLING: Final = 2.0
_SAID: Final = {
    True: "Shutdown manager detected shutdown event",
    False: "Shutdown manager detected shutdown cancellation",
}


class Shutdown:
    """`pods` are those that have not ended; `is_over` says of a uid that nothing of it runs or is mounted; `is_told`
    that the API server knows all."""

    def __init__(
        self,
        parts: ShutdownParts,
        inbox: "asyncio.Queue[Message]",
        *,
        pods: Callable[[], Iterable[Pod]],
        is_over: Callable[[str], bool],
        is_told: Callable[[], bool] = lambda: True,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._parts = parts
        self._inbox = inbox
        self._pods = pods
        self._is_over = is_over
        self._is_told = is_told
        self._now = now
        self._is_near = False
        self._complaint = ""
        self.times: tuple[datetime | None, datetime | None] = (None, None)
        """When the last one began and ended, perhaps before the machine was started."""

    def troubles(self) -> tuple[str, ...]:
        """Why the node is not ready."""
        return (UNREADY,) if self._is_near else ()

    async def follow(self) -> None:
        """Until cancelled. A machine that says nothing of its shutdown cannot be held; that is told once."""
        self.times = await self._parts.times.load()
        if self._parts.notice is None:
            await asyncio.Event().wait()
            return
        while True:
            pause = _RECONNECT
            try:
                await self._follow_once(self._parts.notice)
                self._complain("the connection has ended")
            except PykubeletError as error:
                self._complain(str(error))
                pause = _WITHOUT_BUS if isinstance(error, NotFound) else _RECONNECT
            await asyncio.sleep(pause)

    async def _follow_once(self, notice: ShutdownNotice) -> None:
        seconds = float(sum(period.seconds for period in self._parts.periods))
        async with notice.notices(seconds) as notices:
            self._complaint = ""
            log.info("this machine waits up to %g s for its pods when it goes down", seconds)
            async with aclosing(notices.told()) as told:
                async for is_near in told:
                    await self._heard(is_near, notices)

    async def _heard(self, is_near: bool, notices: ShutdownNotices) -> None:
        self._parts.recorder.node_event("Normal", "NodeShutdown", _SAID[is_near])
        if not is_near:
            await self._say(False)
            await notices.hold()
            return
        try:
            await self.end_pods()
        finally:
            notices.let_go()

    async def end_pods(self) -> None:
        """All of them, in their order. Who does not end in time is not waited for."""
        await self._say(True)
        began = self._now()
        await self._note(began, None)
        for period, crowd in shutdown_order(self._parts.periods, self._pods()):
            log.info("%d pods of priority %d and above have %d s to end", len(crowd), period.priority, period.seconds)
            graces = {pod.metadata.uid: shutdown_grace(pod, period) for pod in crowd}
            await self._inbox.put(GoingDown(True, graces))
            uids = {pod.metadata.uid: pod.metadata.name for pod in crowd}
            if not await _within(period.seconds, lambda uids=uids: all(map(self._is_over, uids))):  # type: ignore[misc]
                late = [name for uid, name in uids.items() if not self._is_over(uid)]
                log.warning("pods that have not ended within %d s: %s", period.seconds, ", ".join(late))
        await _within(_TELLING, self._is_told)
        await self._note(began, self._now())

    async def _say(self, is_near: bool) -> None:
        if is_near != self._is_near:
            self._is_near = is_near
            log.warning("this machine is about to go down" if is_near else "this machine stays up after all")
            await self._inbox.put(GoingDown(is_near))
            self._parts.changed()

    async def _note(self, began: datetime, ended: datetime | None) -> None:
        self.times = began, ended
        try:
            await self._parts.times.save(began, ended)
        except OSError as error:
            log.error("when this machine went down cannot be written: %s", error.strerror)

    def _complain(self, text: str) -> None:
        level = logging.DEBUG if text == self._complaint else logging.WARNING
        log.log(level, "shutdowns of this machine are not seen, and pods will not be ended before one: %s", text)
        self._complaint = text


async def _within(seconds: float, condition: Callable[[], bool]) -> bool:
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            while not condition():  # noqa: ASYNC110
                await asyncio.sleep(_LOOK)
    return condition()
