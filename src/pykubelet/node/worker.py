"""One pod, from first sight to forgotten. The phases of its life are the lines of `live`."""

import asyncio
import logging
import math
from collections.abc import Callable, Coroutine, Iterable
from datetime import datetime
from functools import partial
from typing import Any, Final

from msgspec import Struct

from pykubelet.api.pod import Pod
from pykubelet.api.rules.well_known import SEEN_ANNOTATION
from pykubelet.api.struct import changed
from pykubelet.base.backoff import Backoff
from pykubelet.base.chance import chance
from pykubelet.base.errors import PykubeletError, Retry
from pykubelet.base.journal import work_for
from pykubelet.base.timed import timed
from pykubelet.base.turnstile import Turnstile
from pykubelet.pod import moments as m
from pykubelet.pod.lifecycle.termination_grace import pod_grace
from pykubelet.pod.moments import Journal, Phase, about
from pykubelet.pod.ports.syncer import Synced, Syncer

log = logging.getLogger(__name__)

_RETRY: Final = (1.0, 10.0)


Step = Callable[[], Coroutine[Any, Any, None]]


class Interrupted:
    """The outcome of a step that a new wish cut short."""


class Wish(Struct, frozen=True, kw_only=True):
    """What the node wants of one pod."""

    pod: Pod
    grace: float | None = None
    """Seconds to stop within; None: keep running."""
    by: m.StopReason = "deleted"
    """Who asks it to stop."""
    removed: bool = False
    """No source knows the pod any more."""


def newer(old: Wish, new: Wish) -> Wish:
    """The newest pod counts. A wish to stop is never taken back, and its grace only shrinks; nor is a removal."""
    graces = [wish.grace for wish in (old, new) if wish.grace is not None]
    return changed(new, grace=min(graces, default=None), removed=old.removed or new.removed)


class PodWorker:
    """`tell` and `wake` may be called at any time and never wait; `live` is awaited once, by its owner."""

    def __init__(
        self,
        wish: Wish,
        syncer: Syncer,
        journal: Journal,
        turnstile: Turnstile,
        *,
        resync_period: float = 60.0,
        predecessors: "Iterable[PodWorker]" = (),
    ) -> None:
        self.wish = wish
        self.phase = Phase.WAITING
        self.released = asyncio.Event()
        self._syncer = syncer
        self._journal = journal
        self._turnstile = turnstile
        self.resync_period = resync_period
        self._predecessors = list(predecessors)
        self._news = asyncio.Event()
        self._step: asyncio.Task[Any] | None = None
        self._is_interrupted = False
        self._synced: Pod | None = None
        """As it was last brought to run."""
        self._deadline = math.inf
        """When the stop has to be over, on the loop's clock: trying again gives nobody more time."""
        self._set_deadline()
        self._backoff = Backoff(*_RETRY, now=asyncio.get_running_loop().time, jitter=0.5)

    def tell(self, wish: Wish) -> None:
        """Take the newest wish. Interrupts the running step only to stop, or to stop sooner."""
        before, self.wish = self.wish, newer(self.wish, wish)
        self._news.set()
        if self.wish.grace != before.grace:
            self._set_deadline()
            if self._step is not None:
                self._is_interrupted = True
                self._step.cancel()

    @property
    def is_at_work(self) -> bool:
        """Else it rests: until there is news, or until a step that has failed is tried again."""
        return self._step is not None

    def learn(self, pod: Pod) -> None:
        """The pod as its source shows it now, when that is no reason to do anything."""
        self.wish = changed(self.wish, pod=pod)

    def wake(self) -> None:
        """Something has happened to the pod: look at it soon."""
        self._news.set()

    async def live(
        self,
        on_released: Callable[[Pod], None] = lambda pod: None,
        comes_back: Callable[[str], bool] = lambda uid: False,
    ) -> None:
        work_for(about(self.wish.pod))
        await self._wait_for_predecessors()
        await self._keep_running()
        self._enter(Phase.STOPPING)
        await self._insist("kill", lambda: self._syncer.stop(self.wish.pod, self._grace_left()))
        self._enter(Phase.RELEASING)
        await self._insist("terminated", lambda: self._syncer.release(self.wish.pod))
        self._enter(Phase.RELEASED)
        self.released.set()
        on_released(self.wish.pod)
        await self._wait_for_removal()
        uid = self.wish.pod.metadata.uid
        if not (comes_back(uid) and self.wish.pod.spec.restart_policy == "Always"):  # else its restarts are counted on
            self._enter(Phase.REMOVING)
            await self._insist("remove", lambda: self._syncer.remove(uid))
        self._enter(Phase.GONE)

    async def _wait_for_predecessors(self) -> None:
        """Two pods of one name never run together, and a critical pod starts when those it displaces have ended."""
        while self._predecessors and self.wish.grace is None:  # to stop, nobody has to wait for anybody
            for other in self._predecessors:
                self._note(m.Awaiting("pod", other.wish.pod.metadata.uid, str(about(other.wish.pod))))
            others = [asyncio.ensure_future(other.released.wait()) for other in self._predecessors]
            news = asyncio.ensure_future(self._news.wait())
            try:
                await asyncio.wait([*others, news], return_when=asyncio.FIRST_COMPLETED)
            finally:
                for waiting in (*others, news):
                    waiting.cancel()
            self._news.clear()
            self._predecessors = [other for other in self._predecessors if not other.released.is_set()]

    async def _keep_running(self) -> None:
        if self.wish.grace is None:
            self._enter(Phase.RUNNING)
        while self.wish.grace is None:
            await self._turnstile.pass_through()
            synced = await self._attempt(self._operation(), self._syncer.sync(self.wish.pod))
            if isinstance(synced, Synced) and synced.ended:
                self.tell(changed(self.wish, grace=pod_grace(self.wish.pod), by="ended"))
            elif self.wish.grace is None:
                await self._nap(self._pause(synced))

    def _operation(self) -> m.Operation:
        before, pod = self._synced, self.wish.pod
        self._synced = pod
        if before is None:
            self._note(m.Began(len(pod.spec.containers), _first_seen(pod), pod.status.phase in ("", "Pending")))
            return "create"
        return "sync" if before is pod else "update"

    async def _wait_for_removal(self) -> None:
        while not self.wish.removed:
            self._news.clear()
            await self._news.wait()

    async def _insist(self, operation: m.Operation, step: Step) -> None:
        """Until it succeeds: what is stopped has to be stopped."""
        while (failure := await self._attempt(operation, step())) is not None:
            await self._nap(self._pause(failure))

    async def _attempt(self, operation: m.Operation, step: Coroutine[Any, Any, Any]) -> Any:
        """Run one step. -> its result, or the error that it ended with; `Interrupted` when `tell` cut it short."""
        self._news.clear()
        self._is_interrupted = False
        whose = about(self.wish.pod)
        self._note(m.WorkBegun(operation))
        begun = self._journal.begin("work", operation, whose)
        self._step = asyncio.create_task(step)
        try:
            with timed(self._journal, partial(m.WorkEnded, operation), whose):
                result = await self._step
        except asyncio.CancelledError:
            me = asyncio.current_task()
            if me is not None and me.cancelling():  # the agent is shutting down, not the pod
                raise
            if not self._is_interrupted:
                return Retry("a step was cancelled by nobody")
            self._news.set()
            return Interrupted()
        except PykubeletError as error:
            log.warning("pod %s: %s", about(self.wish.pod), error)
            return error
        except Exception as error:  # the worker's boundary: one pod's failure stays with that pod
            log.exception("pod %s: a step failed in a way that nobody foresaw", about(self.wish.pod))
            return error
        finally:
            self._step = None
            self._journal.end(begun)
        self._backoff.reset()
        return result

    def _pause(self, outcome: Any) -> float:
        """How long to sleep when there is no news."""
        if isinstance(outcome, Interrupted):
            return 0.0
        if isinstance(outcome, Exception):
            seconds = max(self._backoff.next(), getattr(outcome, "after", None) or 0.0)
            self._note(m.Resting(seconds))
            return seconds
        resync = self.resync_period * chance().uniform(1.0, 1.5)
        due = outcome.again_in if isinstance(outcome, Synced) else None
        return resync if due is None else min(due, resync)

    async def _nap(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._news.wait()
        except TimeoutError:
            pass

    def _set_deadline(self) -> None:
        if self.wish.grace is not None:
            self._deadline = min(self._deadline, asyncio.get_running_loop().time() + self.wish.grace)
            self._note(m.StopAsked(self.wish.by, self.wish.grace))

    def _grace_left(self) -> float:
        return max(self._deadline - asyncio.get_running_loop().time(), 0.0)

    def _enter(self, phase: Phase) -> None:
        self.phase = phase
        self._note(m.PhaseEntered(phase))

    def _note(self, moment: m.Moment) -> None:
        self._journal.note(moment, about(self.wish.pod))


def _first_seen(pod: Pod) -> datetime | None:
    try:
        return datetime.fromisoformat(pod.metadata.annotations.get(SEEN_ANNOTATION, ""))
    except ValueError:
        return None
