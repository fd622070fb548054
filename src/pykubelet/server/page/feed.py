"""What has changed on the node, told to all who listen: looked at once a second for all of them together, and only
while there is somebody.

A listener has room for a few messages. Who does not read them is cut off, and gets everything anew when he comes again.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Final

from msgspec import UNSET

from pykubelet.api import codec
from pykubelet.api.pod import Pod
from pykubelet.base.errors import Retry
from pykubelet.pod.moments import ApiAnswered, ApiRequested, Noted, Probed, Relisted, RuntimeCalled, StatusSent
from pykubelet.pod.stats.loop_picture import LoopPicture
from pykubelet.pod.story.story import Story
from pykubelet.server.page.node_state import Done, NodeRow, NodeState, PodRow, pod_row
from pykubelet.server.page.usage import UsageHistory

_PERIOD: Final = 1.0
_LOOK_AGAIN: Final = 5
"""Every so many turns those who are not well are looked at again: what is said of them speaks of time."""
_ROOM: Final = 8
"""Messages that may wait for one listener."""
_MOST: Final = 64
_MOST_OF_ONE: Final = 32
_MOST_CHANGED: Final = 4096


class Listener:
    def __init__(self) -> None:
        self.messages: asyncio.Queue[bytes] = asyncio.Queue(_ROOM)
        self.is_cut_off = False
        self.on_cut_off: Callable[[], None] = lambda: None


class Feed:
    """`read` is a reader of the journal; `run` works while somebody listens."""

    def __init__(
        self,
        pods: Callable[[], Sequence[Pod]],
        told: Callable[[Pod], Awaitable[Story]],
        node: Callable[[], NodeRow],
        picture: Callable[[], LoopPicture | None],
        usage: UsageHistory,
        *,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._pods = pods
        self._told = told
        self._node = node
        self._picture = picture
        self._usage = usage
        self._now = now
        self._listeners: dict[Listener, str] = {}
        self._names: Counter[str] = Counter()
        self._is_wanted = asyncio.Event()
        self._turn = asyncio.Lock()
        self._changed: set[str] = set()
        self._calls: Counter[str] = Counter()
        self._sent = 0
        self._rows: dict[str, PodRow] = {}
        self._last = NodeState(at=now())
        """What the listeners know besides the pods."""

    def read(self, noted: Noted) -> None:
        match noted.moment:
            case RuntimeCalled(method=method):
                self._calls[method] += 1
                return
            case StatusSent():
                self._sent += 1
            case Probed() | Relisted() | ApiAnswered() | ApiRequested():
                return  # everyday: nothing that is shown in a list changes by it
        self._changed.add(noted.about.uid)
        if len(self._changed) > _MOST_CHANGED:  # nobody has asked for long
            self._changed.clear()
            self._rows.clear()

    @contextmanager
    def listen(self, name: str) -> Iterator[Listener]:
        """Raises Retry when there are too many, in all or under this name."""
        if len(self._listeners) >= _MOST or self._names[name] >= _MOST_OF_ONE:
            raise Retry("too many pages are open on this node; close some of them")
        listener = Listener()
        self._listeners[listener] = name
        self._names[name] += 1
        self._is_wanted.set()
        try:
            yield listener
        finally:
            del self._listeners[listener]
            self._names[name] -= 1
            if not self._names[name]:
                del self._names[name]

    async def state(self) -> NodeState:
        """Everything, as it is now."""
        async with self._turn:
            await self._refresh()
            return NodeState(
                at=self._now(),
                node=self._node(),
                loop=self._picture(),
                pods=list(self._rows.values()),
                usage=self._usage.latest,
                done=self._done(),
            )

    async def greet(self, listener: Listener) -> None:
        """Everything for one who has just come; what he is told from then on builds on it."""
        async with self._turn:
            gone, changed = await self._refresh()
            self._tell(gone, changed)  # the others know what he is about to know
            whole = NodeState(
                at=self._now(),
                node=self._last.node,
                loop=self._last.loop,
                pods=list(self._rows.values()),
                usage=self._usage.latest,
                done=self._done(),
            )
            _empty(listener.messages)
            listener.messages.put_nowait(_event("state", whole))

    async def run(self) -> None:
        turn = 0
        while True:
            if not self._listeners:
                self._is_wanted.clear()
                await self._is_wanted.wait()
            self._usage.look_on()
            turn += 1
            async with self._turn:
                gone, changed = await self._refresh(all_unwell=turn % _LOOK_AGAIN == 0)
                self._tell(gone, changed)
            await asyncio.sleep(_PERIOD)

    async def _refresh(self, *, all_unwell: bool = False) -> tuple[list[str], list[PodRow]]:
        """Bring the rows up to date. -> uids that are gone, rows that are new or have changed"""
        self._changed, dirty = set(), self._changed
        pods = {pod.metadata.uid: pod for pod in self._pods()}
        gone = [uid for uid in self._rows if uid not in pods]
        for uid in gone:
            del self._rows[uid]
        changed = []
        for uid, pod in pods.items():
            known = self._rows.get(uid)
            if known is not None and uid not in dirty and (known.is_well or not all_unwell):
                continue
            row = pod_row(pod, await self._told(pod))
            await asyncio.sleep(0)  # of many pods none is to wait for the page
            if row != known:
                self._rows[uid] = row
                changed.append(row)
        return gone, changed

    def _tell(self, gone: list[str], changed: list[PodRow]) -> None:
        node, picture, usage = self._node(), self._picture(), self._usage.latest
        before, self._last = (
            self._last,
            NodeState(at=self._now(), node=node, loop=picture, usage=usage, done=self._done()),
        )
        if not self._listeners:
            return
        message = NodeState(
            kind="NodeChange",
            at=self._last.at,
            node=node if node != before.node else UNSET,
            loop=picture if picture != before.loop else UNSET,
            usage=usage if usage is not before.usage else UNSET,
            done=self._last.done if self._last.done != before.done else UNSET,
            pods=changed,
            gone=gone,
        )
        if not (gone or changed) and message.node is message.loop is message.usage is UNSET:
            return
        data = _event("change", message)
        for listener in list(self._listeners):
            if listener.is_cut_off:
                continue
            try:
                listener.messages.put_nowait(data)
            except asyncio.QueueFull:
                listener.is_cut_off = True
                listener.on_cut_off()

    def _done(self) -> Done:
        return Done(calls=dict(self._calls), statuses=self._sent)


def _event(name: str, value: NodeState) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (name.encode(), codec.encode(value))


def _empty(messages: "asyncio.Queue[bytes]") -> None:
    while not messages.empty():
        messages.get_nowait()
