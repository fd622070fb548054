"""Mirror pods: how an API server gets to see the static pods of a node."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final, assert_never

from pykubelet.api.node import Node
from pykubelet.api.pod import Pod
from pykubelet.base.errors import Conflict, PykubeletError
from pykubelet.pod.lifecycle.mirror_pod import Create, Delete, Keep, Recreate, mirror_action
from pykubelet.pod.lifecycle.table import PodTable
from pykubelet.pod.moments import Awaiting, Journal, about
from pykubelet.pod.ports.api import PodApi

log = logging.getLogger(__name__)

_RETRY: Final = 10.0


class MirrorPods:
    """`keep` is called by the static pod's worker; `want` and `discard` by the sync loop, and done by `run`."""

    def __init__(self, api: PodApi, table: PodTable, node: Callable[[], Node | None], journal: Journal) -> None:
        self._api = api
        self._table = table
        self._node = node
        self._journal = journal
        self._line: asyncio.Queue[tuple[str, Callable[[Pod], Awaitable[None]], Pod]] = asyncio.Queue()
        self._under_way: set[str] = set()
        self._complaints: dict[str, str] = {}
        """By uid: what was said of it last."""

    async def keep(self, static: Pod) -> float | None:
        """Show this pod as it is; it runs, shown or not. -> seconds after which to try again; None: it is shown."""
        try:
            await self._show(static)
        except PykubeletError as error:
            self._journal.note(Awaiting("mirror pod", "", str(error)), about(static))
            self._complain(static, f"cannot be shown now: {error}")
            return _RETRY
        self.forget(static.metadata.uid)
        return None

    async def _show(self, static: Pod) -> None:
        """Make the API server show this pod as it is. Raises base.errors."""
        action = mirror_action(static, self._table.mirror_of(static), self._node())
        match action:
            case Create(mirror):
                await self._create(mirror)
            case Recreate(outdated, mirror):
                await self._delete(outdated)
                await self._create(mirror)
            case Delete(outdated):
                await self._delete(outdated)
            case Keep():
                pass
            case _:
                assert_never(action)

    def want(self, static: Pod) -> None:
        """A static pod has no mirror pod, although it should: perhaps it ended before the node was registered."""
        self._queue("cannot be shown", self._show, static)

    def discard(self, mirror: Pod) -> None:
        """The mirror pod shows nothing any more."""
        self._queue("cannot be deleted", self._delete, mirror)

    def forget(self, uid: str) -> None:
        """There is nothing more to complain of."""
        self._complaints.pop(uid, None)

    async def run(self) -> None:
        while True:
            failure, action, pod = await self._line.get()
            try:
                await action(pod)
            except PykubeletError as error:
                self._complain(pod, f"{failure} now: {error}")
            else:
                self.forget(pod.metadata.uid)
            finally:
                self._under_way.discard(pod.metadata.uid)  # housekeeping comes back to it if that is still needed

    def _queue(self, failure: str, action: Callable[[Pod], Awaitable[None]], pod: Pod) -> None:
        if pod.metadata.uid not in self._under_way:
            self._under_way.add(pod.metadata.uid)
            self._line.put_nowait((failure, action, pod))

    def _complain(self, pod: Pod, text: str) -> None:
        """Loudly once: it is tried again every few seconds."""
        uid = pod.metadata.uid
        level = logging.DEBUG if self._complaints.get(uid) == text else logging.WARNING
        log.log(level, "mirror pod %s %s", pod.metadata.name, text)
        self._complaints[uid] = text

    async def _create(self, mirror: Pod) -> None:
        try:
            await self._api.create(mirror)
        except Conflict:
            log.info("mirror pod %s is there already; its next event will tell", mirror.metadata.name)

    async def _delete(self, mirror: Pod) -> None:
        meta = mirror.metadata
        await self._api.delete(meta.namespace, meta.name, meta.uid, 0)
