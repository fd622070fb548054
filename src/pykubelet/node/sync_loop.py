"""The heart of the agent: one inbox, one message at a time, and nothing in between waits.

What takes time happens elsewhere: sources, probes and the runtime put their word into the inbox, and each pod has a
worker of its own that acts on the newest wish. So one slow pod never holds up another.
"""

import asyncio
import logging
from collections import Counter
from typing import Final, assert_never

from pykubelet.base.tasks import every
from pykubelet.node.handlers import PodHandlers
from pykubelet.node.messages import (
    GoingDown,
    Housekeep,
    Message,
    ObjectsChanged,
    OverLimit,
    Probed,
    RuntimeChanged,
    Said,
    Tick,
)
from pykubelet.node.pod_config import PodConfig
from pykubelet.pod.lifecycle.pod_update import Op, PodUpdate

log = logging.getLogger(__name__)

TICK: Final = 1.0
STUCK_AFTER: Final = 120.0
"""Seconds. A loop that has not come round for so long will not do so by itself."""
_SLICE: Final = 0.0005


class SyncLoop:
    def __init__(self, inbox: "asyncio.Queue[Message]", config: PodConfig, handlers: PodHandlers) -> None:
        self._inbox = inbox
        self._config = config
        self._handlers = handlers
        self._ready: set[str] = set()
        self.handled: Counter[str] = Counter()
        """How many messages, by their kind."""
        self._came_round: float | None = None
        """When the last message was done with, on the loop's clock; None: it does not run."""

    @property
    def all_sources_ready(self) -> bool:
        """Whether every source has spoken and its first word has been handled. Clean-up waits for that."""
        return self._config.merge.seen_all(self._ready)

    @property
    def ready_sources(self) -> frozenset[str]:
        return self._config.merge.seen & self._ready

    @property
    def lateness(self) -> float:
        """For how many seconds the loop has not come round. There is a tick every second, so more than a few mean that
        it is stuck. One that does not run is not late."""
        return 0.0 if self._came_round is None else asyncio.get_running_loop().time() - self._came_round

    async def run(self) -> None:
        """Until cancelled. A crowd of messages is worked off in slices: timers and sockets come in between."""
        try:
            await self._run()
        finally:
            self._came_round = None

    async def _run(self) -> None:
        now = asyncio.get_running_loop().time
        rested = now()
        while True:
            self._came_round = now()
            message = await self._inbox.get()
            self.handled[type(message).__name__] += 1
            try:
                self.handle(message)
            except Exception:  # the loop's boundary: one message that cannot be handled must not end the agent
                log.exception("a message could not be handled: %.200r", message)
            if now() - rested > _SLICE:
                await asyncio.sleep(0)
                rested = now()

    async def tick(self) -> None:
        async for _ in every(TICK):
            await self._inbox.put(Tick())

    def handle(self, message: Message) -> None:
        match message:
            case Said():
                for update in self._config.handle(message):
                    self._dispatch(update)
            case RuntimeChanged(uid):
                self._handlers.wake(uid)  # its worker looks, and clears away what has died
            case ObjectsChanged(uids):
                for uid in sorted(uids):
                    self._handlers.wake(uid)  # its worker brings the files up to date
            case Tick():
                self._handlers.wake_due()
            case Housekeep(folders):
                if self.all_sources_ready:
                    self._handlers.clean_up(folders)
            case Probed(kind, uid, container_id, result):
                self._handlers.probed(kind, uid, container_id, result)
            case OverLimit(uid, found):
                self._handlers.evict(uid, found)
            case GoingDown(is_near, graces):
                self._handlers.going_down(is_near, graces)
            case _:
                assert_never(message)

    def _dispatch(self, update: PodUpdate) -> None:
        _tell(update)
        match update.op:
            case Op.ADD | Op.RESTORE:
                self._handlers.add(update.pods)
            case Op.UPDATE:
                self._handlers.update(update.pods)
            case Op.DELETE:  # graceful: the pods stop, and go when they have
                self._handlers.update(update.pods)
            case Op.REMOVE:
                self._handlers.remove(update.pods)
            case Op.RECONCILE:
                self._handlers.reconcile(update.pods)
            case Op.SET:
                log.error("a snapshot of all pods came from %s, where single changes were expected", update.source)
            case _:
                assert_never(update.op)
        if update.op is not Op.RESTORE:  # a checkpoint is not the source's own word
            self._ready.add(update.source)


def _tell(update: PodUpdate) -> None:
    """One line for each pod that comes, changes or goes; a status that comes back is everyday."""
    level = logging.DEBUG if update.op is Op.RECONCILE else logging.INFO
    if not log.isEnabledFor(level):
        return
    for pod in update.pods:
        meta = pod.metadata
        log.log(level, "%s from %s: pod %s/%s (%s)", update.op, update.source, meta.namespace, meta.name, meta.uid)
