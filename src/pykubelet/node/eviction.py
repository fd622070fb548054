"""Every ten seconds, and when the kernel says that memory runs short: look at what the node has left. Where that is too
little, clear away what nobody needs, and if that does not help end one pod, then look again."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial
from typing import Final, Protocol, TypeVar

from msgspec import Struct

from pykubelet.api.pod import Pod
from pykubelet.api.struct import changed
from pykubelet.base.errors import PykubeletError
from pykubelet.base.tasks import Work
from pykubelet.node.image_gc import Look
from pykubelet.node.messages import Message, OverLimit
from pykubelet.node.worker import PodWorker
from pykubelet.pod.eviction.local_storage import has_own_image_disk
from pykubelet.pod.eviction.thresholds import (
    SIGNALS,
    EvictionSettings,
    Observations,
    Pressure,
    PressureState,
    Threshold,
    beyond_capacity,
    most_urgent,
    observations,
    pressure_after,
    thresholds_met,
    with_container_disk,
)
from pykubelet.pod.eviction.victim import clears_first, victim
from pykubelet.pod.ports.node import NodeRecorder
from pykubelet.pod.stats.stats import NodeReading, PodReading, PressureStats

log = logging.getLogger(__name__)

T = TypeVar("T")

PERIOD: Final = 10.0
_SOONEST: Final = 1.0
"""Seconds between two looks, however often the kernel has something to say."""
_PATIENCE: Final = 40.0
"""Seconds that a pod may take to be gone before another one has to go: ten to stop, as upstream grants above its grace,
and thirty until all of it is given back."""
_STATS_PATIENCE: Final = 30.0
_CLEARING: Final = 60.0
"""Seconds that clearing away may take before a pod has to go: a runtime that hangs must not keep the node short."""
_COMPLAIN_EVERY: Final = 60.0


class MemoryNotice(Protocol):
    """The kernel's own word that memory runs short. What it says is a hint to look."""

    def expect(self, node: NodeReading, thresholds: Iterable[Threshold]) -> None:
        """How much is in use now, and where it begins to be too much. Never raises, and may be called again."""
        ...

    async def wait(self) -> None:
        """Until it is said. Nobody waits twice at a time."""
        ...

    def close(self) -> None: ...


class EvictionParts(Struct, frozen=True, kw_only=True):
    """What eviction takes from outside the agent."""

    settings: EvictionSettings
    stats: PressureStats
    recorder: NodeRecorder
    remove_images: Callable[[Look], Awaitable[None]] | None = None
    """Removes all that no container needs of those that a look shows. Raises base.errors. None: there are no images."""
    notice: Callable[[], MemoryNotice | None] = lambda: None
    """Asks the kernel to tell. None: it does not."""


class NodeEviction:
    """`pods` are those that have not ended, `workers` are by uid; `remove_dead` clears away what is left in the runtime
    of pods that have ended, and `look` shows what it holds. `on_change` is told when `conditions` are others."""

    def __init__(
        self,
        parts: EvictionParts,
        *,
        pods: Callable[[], Iterable[Pod]],
        workers: Callable[[], Mapping[str, PodWorker]],
        remove_dead: Work,
        look: Look,
        inbox: "asyncio.Queue[Message]",
    ) -> None:
        self.on_change: Callable[[], None] = lambda: None
        self._parts = parts
        self.settings = parts.settings
        self._pods = pods
        self._workers = workers
        self._remove_dead = remove_dead
        self._look = look
        self._inbox = inbox
        self._notice: MemoryNotice | None = None
        self._state = PressureState()
        self._leaving: dict[str, float] = {}
        """By uid: those that were told to go, and until when they are waited for, on the loop's clock."""
        self._measuring: asyncio.Task[tuple[PodReading, ...]] | None = None
        self._complained: dict[str, float] = {}

    @property
    def conditions(self) -> tuple[Pressure, ...]:
        """What the node is short of, in the eyes of others."""
        return self._state.conditions

    async def run(self) -> None:
        """Until cancelled."""
        self._notice = self._parts.notice()
        try:
            while True:
                try:
                    if self.settings.thresholds or self._state.conditions:
                        await self.look()
                except PykubeletError as error:
                    self._complain("look", "what the node has left cannot be seen: %s", error)
                await self._rest()
        finally:
            if self._measuring is not None:
                self._measuring.cancel()
            if self._notice is not None:
                self._notice.close()

    async def look(self) -> None:
        """Once. Raises base.errors."""
        node = await self._parts.stats.node()
        own_image_disk, seen = has_own_image_disk(node), observations(node)
        thresholds = self._possible(with_container_disk(self.settings.thresholds, own_image_disk=own_image_disk), seen)
        self._note(thresholds, seen)
        if self._notice is not None:
            self._notice.expect(node, thresholds)
        urgent = most_urgent(self._state.met)
        if urgent is None or self._awaited():
            return
        resource = SIGNALS[urgent.signal][0]
        self._parts.recorder.node_event("Warning", "EvictionThresholdMet", f"Attempting to reclaim {resource}")
        if clears_first(urgent.signal, own_image_disk=own_image_disk) and await self._is_cleared(thresholds):
            return
        await self._end_one(urgent, seen, own_image_disk=own_image_disk)

    # --- inside

    def _note(self, thresholds: tuple[Threshold, ...], seen: Observations) -> None:
        before, now = self._state, asyncio.get_running_loop().time()
        self._state = pressure_after(before, thresholds, seen, now, transition=self.settings.transition)
        if set(before.conditions) == set(self._state.conditions):
            return
        for pressure in self._state.conditions:
            if pressure not in before.conditions:
                short = [f"{each.signal} is {_left(each, seen)}" for each in self._state.since]
                log.warning("the node runs short (%s): %s", pressure, "; ".join(short))
        for pressure in set(before.conditions) - set(self._state.conditions):
            log.info("the node is no longer short (%s)", pressure)
        self.on_change()

    def _possible(self, thresholds: tuple[Threshold, ...], seen: Observations) -> tuple[Threshold, ...]:
        """One that asks for more than there is would have every pod of the node end, and still be met."""
        vain = beyond_capacity(thresholds, seen)
        for each in vain:
            what = "evictionHard or evictionSoft: %s is above all there is (%d), and does not count: lower it"
            self._complain(each.signal, what, each.signal, seen[each.signal].capacity)
        return tuple(each for each in thresholds if each not in vain)

    def _awaited(self) -> bool:
        """Whether somebody is going who may give back what is missing. Whoever does not go is not waited for for ever,
        nor told once more."""
        now, workers = asyncio.get_running_loop().time(), self._workers()
        for uid, worker in workers.items():
            if worker.wish.by == "evicted" and worker.wish.grace is not None and not worker.released.is_set():
                self._leaving.setdefault(uid, now + worker.wish.grace + _PATIENCE)
        self._leaving = {
            uid: until for uid, until in self._leaving.items() if uid in workers and not workers[uid].released.is_set()
        }
        return any(now < until for until in self._leaving.values())

    async def _is_cleared(self, thresholds: tuple[Threshold, ...]) -> bool:
        """Whether dead containers and unused images were all it took."""
        remove_images = self._parts.remove_images
        clearing: list[Work] = [self._remove_dead]
        if remove_images is not None:
            clearing.append(partial(remove_images, self._look))
        for clear in clearing:
            try:
                async with asyncio.timeout(_CLEARING):
                    await clear()
            except (PykubeletError, TimeoutError) as error:
                why = str(error) or f"it takes more than {_CLEARING:g} s"
                self._complain("clearing", "not all that nobody needs could be cleared away: %s", why)
        seen = observations(await self._parts.stats.node())
        if thresholds_met(thresholds, seen, with_reclaim=True):
            return False
        log.info("clearing away what nobody needs has made room enough: no pod has to go")
        return True

    async def _end_one(self, urgent: Threshold, seen: Observations, *, own_image_disk: bool) -> None:
        asked_at = asyncio.get_running_loop().time()
        used = await self._measured(files=SIGNALS[urgent.signal][1] == "DiskPressure")
        if used is None:
            return
        workers = self._workers()
        candidates = [
            pod
            for pod in self._pods()
            if (worker := workers.get(pod.metadata.uid)) is not None
            and not worker.released.is_set()
            and pod.metadata.uid not in self._leaving
        ]
        found = victim(
            urgent,
            seen[urgent.signal],
            candidates,
            {each.uid: each for each in used},
            own_image_disk=own_image_disk,
            longest_grace=self.settings.longest_grace,
        )
        if found is None:
            self._complain(urgent.signal, "the node runs short (%s), and there is no pod left to end", urgent.signal)
            return
        pod, eviction = found
        now = asyncio.get_running_loop().time()
        self._leaving[pod.metadata.uid] = now + eviction.grace + _PATIENCE
        await self._inbox.put(OverLimit(pod.metadata.uid, changed(eviction, age=now - asked_at)))

    async def _measured(self, *, files: bool) -> tuple[PodReading, ...] | None:
        """None when it takes too long: nobody is ended on a guess. The question is not asked again meanwhile."""
        if self._measuring is None:
            self._measuring = asyncio.create_task(_awaited(self._parts.stats.pods(files=files)))
        await asyncio.wait([self._measuring], timeout=_STATS_PATIENCE)
        if not self._measuring.done():
            self._complain("stats", "what pods use has not been said for %g s: none can be ended", _STATS_PATIENCE)
            return None
        measured, self._measuring = self._measuring, None
        return measured.result()

    async def _rest(self) -> None:
        """Until the next look is due, the kernel has something to say, or somebody who was told to go has gone."""
        began = asyncio.get_running_loop().time()
        gone = [worker for uid, worker in self._workers().items() if uid in self._leaving]
        hints: list[Awaitable[object]] = [worker.released.wait() for worker in gone if not worker.released.is_set()]
        if self._notice is not None:
            hints.append(self._notice.wait())
        tasks = [asyncio.create_task(_awaited(each)) for each in hints]
        try:
            if tasks:
                await asyncio.wait(tasks, timeout=PERIOD, return_when=asyncio.FIRST_COMPLETED)
            else:
                await asyncio.sleep(PERIOD)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.sleep(max(began + _SOONEST - asyncio.get_running_loop().time(), 0.0))

    def _complain(self, subject: str, text: str, *values: object) -> None:
        """Once a minute about each thing."""
        now = asyncio.get_running_loop().time()
        if now >= self._complained.get(subject, 0.0):
            self._complained[subject] = now + _COMPLAIN_EVERY
            log.warning(text, *values)


def _left(threshold: Threshold, seen: Observations) -> str:
    observed = seen.get(threshold.signal)
    return "unknown" if observed is None else f"{observed.available} of {observed.capacity}"


async def _awaited(hint: Awaitable[T]) -> T:
    return await hint
