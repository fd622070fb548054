"""The only writer of pod status: keeps the newest word on every pod, and brings it to the API server at once.

Nothing queues up: a pod has one place in line however often its status is set, and what is sent is what holds when its
turn comes. So an API server that was away for an hour gets the present state of each pod, once.
"""

import asyncio
import logging
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final

from pykubelet.api.pod import Pod, PodStatus
from pykubelet.api.rules.pod_kinds import is_mirror, is_static
from pykubelet.api.struct import changed
from pykubelet.base.backoff import Backoff
from pykubelet.base.errors import Conflict, Invalid, NotFound, PykubeletError
from pykubelet.pod.moments import Journal, Moment, PodDeleted, StatusAcknowledged, StatusSent, StatusSet, about
from pykubelet.pod.ports.api import PodApi
from pykubelet.pod.stats.loop_picture import StatusQueue
from pykubelet.pod.stats.startup_latency import has_started, running_since
from pykubelet.pod.status.conditions import READY
from pykubelet.pod.status.patch import status_patch
from pykubelet.pod.status.phase import is_terminal_phase
from pykubelet.pod.status.pod_status import illegal_transition, merge_status, same_status

log = logging.getLogger(__name__)

_CONCURRENCY: Final = 10
_SOONEST: Final = 0.5
_LATEST: Final = 30.0


class _Entry:
    """One pod: what we say of it, what the API server shows of it, and how far we are with telling."""

    def __init__(self, pod: Pod, shown: Pod | None) -> None:
        self.pod = pod
        self.shown = shown
        """The API server's newest copy that we know of: the pod itself, or the mirror of a static one."""
        self.status: PodStatus | None = None
        self.is_held_back = False
        """The API server was not told all of it, because containers could still be running."""
        self.has_ended = False
        self.is_gone = False
        """The API server no longer has the pod."""
        self.since = 0.0
        """When there was first something to tell that is not told yet, on the loop's clock."""
        self.wanted = 0
        self.done = 0
        """Which of the `wanted` turns was the last to succeed. While they differ there is something to do."""
        self.is_busy = False
        """In line, or being sent."""
        self.backoff: Backoff | None = None
        self.retry: asyncio.TimerHandle | None = None
        self.refusal = ""

    @property
    def last_word(self) -> PodStatus | None:
        """What was said of it last: by us, or by an agent that was here before."""
        return self.shown.status if self.status is None and self.shown is not None else self.status

    @property
    def uid(self) -> str:
        return self.pod.metadata.uid

    @property
    def name(self) -> str:
        return f"{self.pod.metadata.namespace}/{self.pod.metadata.name}"


class StatusManager:
    """Statuses by uid. All methods but `run` are plain functions, called from the event loop; none waits.

    `api` is None on a standalone node: then statuses are only kept. `could_be_running` tells by uid whether a pod that
    has not been declared `terminated` may still have running containers: until it has not, its end is not reported.
    """

    def __init__(
        self,
        api: PodApi | None,
        *,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        journal: Journal | None = None,
        could_be_running: Callable[[str], bool] = lambda _: False,
        concurrency: int = _CONCURRENCY,
    ) -> None:
        self._api = api
        self._now = now
        self._journal = journal or Journal()
        self._could_be_running = could_be_running
        self._concurrency = concurrency
        self._entries: dict[str, _Entry] = {}
        self._mirrors: dict[str, Pod] = {}
        self._static_uids: dict[str, str] = {}
        self._line: asyncio.Queue[_Entry] = asyncio.Queue()
        self._is_away = False

    # --- what the node says

    def set(self, pod: Pod, status: PodStatus) -> None:
        """The newest word on a pod. A pod that has Succeeded or Failed stays so, whatever is said later."""
        entry = self._entry(pod)
        news = self._learn(entry, pod)
        before = entry.last_word
        if before is not None:
            if mistake := illegal_transition(pod, before, status):
                log.error("a status of pod %s is not reported: %s", entry.name, mistake)
                return
            if is_terminal_phase(before.phase) and status.phase != before.phase:
                status = changed(status, phase=before.phase, reason=before.reason, message=before.message)
        if news or entry.is_held_back or entry.status is None or not same_status(status, entry.status):
            entry.status = status
            self._note(entry, StatusSet(status.phase, status.reason, _is_ready(status), running_since(status)))
            self._want(entry)

    def get(self, uid: str) -> PodStatus | None:
        """What was set last, by the uid of a pod or of its mirror."""
        entry = self._entries.get(self._static_uids.get(uid, uid))
        return entry.status if entry is not None else None

    def queue(self) -> StatusQueue:
        """How far it is with telling."""
        waiting = self._line.qsize()
        return StatusQueue(
            waiting=waiting,
            sending=max(0, sum(each.is_busy for each in self._entries.values()) - waiting),
            trying_again=sum(each.retry is not None for each in self._entries.values()),
        )

    def reconcile(self, pod: Pod) -> None:
        """The API server's copy of a pod or mirror pod has changed. Where it differs from what we said, ours counts."""
        entry = self._entries.get(self._static_uids.get(pod.metadata.uid, pod.metadata.uid))
        if entry is not None and self._learn(entry, pod):
            self._want(entry)

    def terminated(self, pod: Pod) -> None:
        """The pod's containers are gone and what it held is released; its last status was set before.

        If it was asked to be deleted, now or later, it is deleted from the API server as soon as that status is there.
        """
        entry = self._entry(pod)
        self._learn(entry, pod)
        entry.has_ended = True
        self._want(entry)

    def linked(self, static_uid: str, mirror: Pod | None) -> None:
        """The mirror pod that shows a static pod now, which is where its status goes; None when it has none any more.

        May be said before the static pod is known here, and again when the mirror has changed.
        """
        old = self._mirrors.pop(static_uid, None)
        if old is not None:
            self._static_uids.pop(old.metadata.uid, None)
        if mirror is not None:
            self._mirrors[static_uid] = mirror
            self._static_uids[mirror.metadata.uid] = static_uid
        entry = self._entries.get(static_uid)
        if entry is None:
            return
        if mirror is None:
            entry.shown = None
        elif self._learn(entry, mirror):
            self._want(entry)

    def forget(self, uid: str) -> None:
        """Nobody will ask for the pod any more, nor report on it."""
        self.linked(uid, None)
        entry = self._entries.pop(uid, None)
        if entry is not None:
            entry.is_gone = True
            self._stop_waiting(entry)

    # --- bringing it to the API server

    async def run(self) -> None:
        """Until cancelled. May be called again after that, and goes on where it was."""
        try:
            async with asyncio.TaskGroup() as senders:
                for _ in range(self._concurrency):
                    senders.create_task(self._send_in_turn())
        finally:
            for entry in self._entries.values():
                self._stop_waiting(entry)
                self._take_place(entry)

    async def _send_in_turn(self) -> None:
        while True:
            entry = await self._line.get()
            turn = entry.wanted
            try:
                await self._send(entry, turn)
                self._succeeded(entry, turn)
            except NotFound:
                self._lost(entry, turn)
            except PykubeletError as error:
                self._failed(entry, error)
            except Exception as error:  # the boundary: one pod's trouble is not the others'
                log.exception("the status of pod %s could not be sent", entry.name)
                self._failed(entry, error)
            finally:
                entry.is_busy = False
                self._take_place(entry)

    async def _send(self, entry: _Entry, turn: int) -> None:
        """Raises NotFound when the API server no longer has this pod, also when another has its name."""
        assert self._api is not None
        shown = entry.shown
        if shown is None or entry.is_gone:
            return
        try:
            await self._report(entry, shown)
        except Conflict:
            await self._report(entry, await self._fresh(entry, shown))
        if entry.wanted != turn:  # what was set meanwhile goes first
            return
        shown = entry.shown
        if shown is None or not entry.has_ended or not _may_be_deleted(entry.pod, shown):
            return
        meta = shown.metadata
        try:
            await self._api.delete(meta.namespace, meta.name, meta.uid, 0)
        except Conflict:
            await self._fresh(entry, shown)
            raise
        entry.is_gone = True
        self._note(entry, PodDeleted())

    async def _report(self, entry: _Entry, shown: Pod) -> None:
        assert self._api is not None
        if entry.status is None:
            return
        held = not entry.has_ended and self._could_be_running(entry.uid)
        status = merge_status(shown.status, entry.status, now=self._now(), could_be_running=held)
        entry.is_held_back = held and is_terminal_phase(entry.status.phase)
        meta = shown.metadata
        patch = status_patch(meta.uid, shown.status, status)
        if patch is None:
            return
        self._learn(entry, await self._api.patch_status(meta.namespace, meta.name, meta.uid, patch))
        self._note(entry, StatusSent(status.phase, has_started(status)))

    async def _fresh(self, entry: _Entry, shown: Pod) -> Pod:
        """The API server's copy now, after it did not agree with ours."""
        assert self._api is not None
        meta = shown.metadata
        fresh = await self._api.get(meta.namespace, meta.name)
        if fresh.metadata.uid != meta.uid:
            raise NotFound(f"the name of pod {entry.name} ({meta.uid}) belongs to {fresh.metadata.uid} by now")
        self._learn(entry, fresh)
        return fresh

    # --- state: changes only in plain functions

    def _entry(self, pod: Pod) -> _Entry:
        uid = pod.metadata.uid
        entry = self._entries.get(uid)
        if entry is None:
            entry = self._entries[uid] = _Entry(pod, self._mirrors.get(uid) if is_static(pod) else None)
        else:
            entry.pod = pod
        return entry

    def _learn(self, entry: _Entry, copy: Pod) -> bool:
        """Take note of an API server's copy, unless we know a newer one. -> whether it is news."""
        uid = copy.metadata.uid
        if self._static_uids.get(uid) != entry.uid if is_static(entry.pod) else uid != entry.uid:
            return False  # the static pod itself, or a mirror that has been replaced meanwhile
        known = entry.shown
        if known is not None and known.metadata.uid == uid and not _is_newer(copy, known):
            return False
        entry.shown = copy
        return True

    def _want(self, entry: _Entry) -> None:
        if self._api is not None and entry.wanted == entry.done:
            entry.since = asyncio.get_running_loop().time()
        entry.wanted += 1
        self._take_place(entry)

    def _take_place(self, entry: _Entry) -> None:
        """In line, once, if there is something to do and no failure to wait out."""
        if entry.wanted == entry.done or entry.is_busy or entry.is_gone or entry.retry or self._api is None:
            return
        entry.is_busy = True
        self._line.put_nowait(entry)

    def _succeeded(self, entry: _Entry, turn: int) -> None:
        entry.done = turn
        if turn == entry.wanted:
            self._note(entry, StatusAcknowledged(asyncio.get_running_loop().time() - entry.since))
        entry.backoff = None
        entry.refusal = ""
        if self._is_away:
            self._is_away = False
            log.info("the API server takes the status of pods again")

    def _lost(self, entry: _Entry, turn: int) -> None:
        entry.done = turn
        if is_static(entry.pod):
            self.linked(entry.uid, None)
        else:
            entry.is_gone = True
        log.info("pod %s is no longer on the API server: its status is not reported any more", entry.name)

    def _failed(self, entry: _Entry, error: Exception) -> None:
        loop = asyncio.get_running_loop()
        if entry.is_gone:
            return
        if isinstance(error, Invalid):
            delay = _LATEST
            if entry.refusal != str(error):
                entry.refusal = str(error)
                log.error("the status of pod %s is refused: %s", entry.name, error)
        else:
            entry.backoff = entry.backoff or Backoff(_SOONEST, _LATEST, now=loop.time)
            delay = max(entry.backoff.next(), getattr(error, "after", None) or 0.0)
            if not self._is_away:
                self._is_away = True
                log.warning("the status of pods waits until the API server takes it: %s", error)
        entry.retry = loop.call_later(delay, self._retry, entry)

    def _retry(self, entry: _Entry) -> None:
        entry.retry = None
        self._take_place(entry)

    def _stop_waiting(self, entry: _Entry) -> None:
        if entry.retry is not None:
            entry.retry.cancel()
            entry.retry = None

    def _note(self, entry: _Entry, moment: Moment) -> None:
        self._journal.note(moment, about(entry.pod), at=self._now())


def _is_ready(status: PodStatus) -> bool:
    return any(each.type == READY and each.status == "True" for each in status.conditions)


def _may_be_deleted(pod: Pod, shown: Pod) -> bool:
    """Mirror pods are not ours to end: they go when their static pod does."""
    return shown.metadata.deletion_timestamp is not None and not is_static(pod) and not is_mirror(shown)


def _is_newer(copy: Pod, known: Pod) -> bool:
    ours, theirs = known.metadata.resource_version, copy.metadata.resource_version
    if ours.isdecimal() and theirs.isdecimal():
        return int(theirs) > int(ours)
    return theirs != ours and bool(theirs)
