"""All sources, one inbox, one merge: where pods enter the agent."""

import asyncio
import logging
from collections.abc import Callable, Mapping
from contextlib import aclosing
from datetime import UTC, datetime
from functools import partial
from typing import Final

from pykubelet.api.pod import Pod
from pykubelet.api.rules.pod_kinds import is_static
from pykubelet.base.tasks import supervise
from pykubelet.node.messages import Message, Said
from pykubelet.pod.lifecycle.merge import Merge
from pykubelet.pod.lifecycle.pod_features import NO_FEATURES, PodFeatures
from pykubelet.pod.lifecycle.pod_update import Op, PodUpdate
from pykubelet.pod.moments import Journal, Merged, Watched, about
from pykubelet.pod.ports.syncer import PodSource
from pykubelet.pod.stats.startup_latency import watched

log = logging.getLogger(__name__)

INBOX_SIZE: Final = 1000
"""How many events may wait. A source that finds the inbox full waits itself, and its server feels it."""


class PodConfig:
    """Owns the merge. `pump` brings the sources' events into the inbox; `handle` turns one of them into updates."""

    def __init__(
        self,
        sources: Mapping[str, PodSource],
        journal: Journal,
        *,
        features: PodFeatures = NO_FEATURES,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        on_duplicate: Callable[[Pod, str], None] | None = None,
        after: Mapping[str, asyncio.Event] | None = None,
    ) -> None:
        """`after` has what sources, by name, wait for before they may speak."""
        self._sources = dict(sources)
        self._after = after or {}
        self._journal = journal
        self._features = features
        self._now = now
        self.merge = Merge(sources=self._sources, on_duplicate=on_duplicate or _log_duplicate)

    async def pump(self, inbox: "asyncio.Queue[Message]") -> None:
        """Until cancelled. Each source has a task of its own, and its events arrive in their order."""
        async with asyncio.TaskGroup() as tasks:
            for name, source in self._sources.items():
                follow = partial(_follow, name, source, inbox, self._after.get(name))
                tasks.create_task(supervise(f"pod source {name}", follow))

    def handle(self, said: Said) -> tuple[PodUpdate, ...]:
        """What becomes of one event, in the order of delivery."""
        now = self._now()
        updates = self.merge.apply(said.source, self._features.event(said.event), now)
        for update in updates:
            self._note(update, now)
        return updates

    def _note(self, update: PodUpdate, now: datetime) -> None:
        if update.op in (Op.SET, Op.RECONCILE):
            return
        for pod in update.pods:
            whose = about(pod)
            if update.op is Op.ADD and not is_static(pod) and not pod.status.start_time and not self._knows(whose.uid):
                self._journal.note(watched(pod), whose, at=now)
            self._journal.note(Merged(update.op, update.source), whose, at=now)

    def _knows(self, uid: str) -> bool:
        return any(isinstance(noted.moment, Watched) for noted in self._journal.of(uid))


async def _follow(
    name: str, source: PodSource, inbox: "asyncio.Queue[Message]", after: asyncio.Event | None = None
) -> None:
    if after is not None:
        await after.wait()
    async with aclosing(source.watch()) as events:
        async for event in events:
            await inbox.put(Said(name, event))


def _log_duplicate(pod: Pod, source: str) -> None:
    meta = pod.metadata
    log.warning(
        "pod %s/%s (%s) is ignored: source %s has another of that name", meta.namespace, meta.name, meta.uid, source
    )
