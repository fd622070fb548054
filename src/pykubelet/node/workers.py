"""All pods' workers: who lives, who waits for whom, and who lives again."""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from pykubelet.api.pod import Pod
from pykubelet.api.rules.pod_kinds import full_name
from pykubelet.base.turnstile import Turnstile
from pykubelet.node.worker import PodWorker, Wish
from pykubelet.pod.moments import Journal, Phase, StopReason, about
from pykubelet.pod.ports.syncer import Syncer

log = logging.getLogger(__name__)

_AT_WORK: Final = 30.0
_FAILING: Final = 5.0
"""Seconds without a step forward after which pods that have ended are left, while a try is under way and between
two."""


class PodWorkers:
    """Starts each pod's worker in `tasks`, whose owner ends them all. Only `all_let_go` waits.

    `on_released` is told of each pod that has ended, `on_gone` of each uid of which nothing is left.
    """

    def __init__(
        self, syncer: Syncer, journal: Journal, tasks: asyncio.TaskGroup, *, resync_period: float = 60.0
    ) -> None:
        self.on_released: Callable[[Pod], None] = lambda pod: None
        self.on_gone: Callable[[str], None] = lambda uid: None
        self.comes_back: Callable[[str], bool] = lambda uid: False
        """Whether a pod that is about to be removed is wanted again, since its manifest has come back."""
        self._syncer = syncer
        self._journal = journal
        self._tasks = tasks
        self._resync_period = resync_period
        self.tasks: set[asyncio.Task[None]] = set()
        self._turnstile = Turnstile()
        self._workers: dict[str, PodWorker] = {}
        self._holders: dict[str, PodWorker] = {}
        """By full name: the newest pod of that name, whom the next one has to wait for."""

    def tell(
        self,
        pod: Pod,
        *,
        grace: float | None = None,
        by: StopReason = "deleted",
        removed: bool = False,
        after: Iterable[str] = (),
    ) -> None:
        """The newest word on a pod. A pod that is not known begins its life, if only to end it properly.

        `by` says who asks it to stop; `after` names the pods (by uid) that have to end before it may start.
        """
        wish = Wish(pod=pod, grace=grace, by=by, removed=removed)
        worker = self._workers.get(pod.metadata.uid)
        if worker is None:
            self._start(wish, after)
        else:
            worker.tell(wish)

    def resync_every(self, seconds: float) -> None:
        """From each one's next rest on."""
        self._resync_period = seconds
        for worker in self._workers.values():
            worker.resync_period = seconds

    def learn(self, pod: Pod) -> None:
        """The pod as its source shows it now, when that is no reason to do anything."""
        worker = self._workers.get(pod.metadata.uid)
        if worker is not None:
            worker.learn(pod)

    def is_leaving(self, uid: str) -> bool:
        """Whether a pod is being removed. Should it come back, it has to wait until `on_gone`."""
        worker = self._workers.get(uid)
        return worker is not None and worker.wish.removed

    def wake(self, uid: str) -> None:
        worker = self._workers.get(uid)
        if worker is not None:
            worker.wake()

    @property
    def workers(self) -> Mapping[str, PodWorker]:
        """By uid. Live: read it, do not keep it."""
        return self._workers

    async def all_let_go(self) -> None:
        """Wait for all that were told to stop. What has ended and cannot give back what it had, such as a volume or a
        device whose driver is gone (it may be one of these pods), is written down: the agent that comes next sees to
        it."""
        now = asyncio.get_running_loop().time
        since, before = now(), dict[str, Phase]()
        while left := [each for each in self._workers.values() if each.wish.removed or not each.released.is_set()]:
            phases = {each.wish.pod.metadata.uid: each.phase for each in left}
            if phases != before or not {Phase.RELEASING, Phase.REMOVING}.issuperset(phases.values()):
                since, before = now(), phases
            elif now() - since >= (_AT_WORK if any(each.is_at_work for each in left) else _FAILING):
                names = ", ".join(sorted(str(about(each.wish.pod)) for each in left))
                log.warning("these pods have ended, and what they had is left to the agent that comes next: %s", names)
                return
            await asyncio.sleep(0.05)

    def _start(self, wish: Wish, after: Iterable[str]) -> None:
        name = full_name(wish.pod)
        others = [] if wish.removed else [self._holders.get(name), *(self._workers.get(uid) for uid in after)]
        worker = PodWorker(
            wish,
            self._syncer,
            self._journal,
            self._turnstile,
            resync_period=self._resync_period,
            predecessors=[other for other in others if other is not None and not other.released.is_set()],
        )
        self._workers[wish.pod.metadata.uid] = worker
        if not wish.removed:  # what is only here to be removed holds no name
            self._holders[name] = worker
        task = self._tasks.create_task(self._live(worker), name=f"pod {name}")
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def _live(self, worker: PodWorker) -> None:
        await worker.live(self.on_released, self.comes_back)
        pod = worker.wish.pod
        uid, name = pod.metadata.uid, full_name(pod)
        del self._workers[uid]
        if self._holders.get(name) is worker:
            del self._holders[name]
        self.on_gone(uid)
