"""Why is my pod not running? The story of a pod, from its status, its moments in memory and on disk, and the last lines
of what has failed."""

import asyncio
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, Protocol

from pykubelet.api.pod import ContainerStatus, Pod
from pykubelet.base.errors import Invalid, NotFound, Retry
from pykubelet.pod import moments as m
from pykubelet.pod.container.sandbox_config import log_directory
from pykubelet.pod.moments import Noted
from pykubelet.pod.story.diagnosis import NodeTrouble
from pykubelet.pod.story.story import VERSION, Story, story
from pykubelet.server.logs.last_words import last_words

_NO_WORDS: Final[Mapping[str, str]] = {}
_OF_ENDS: Final = (m.StopAsked, m.PhaseEntered, m.ContainerStarted, m.ContainerStopping, m.Exited)
"""What it takes to say why a container has ended."""
_MOST_ENDS: Final = 50
"""Of such moments of one pod that an earlier agent has noted."""


class History(Protocol):
    async def __call__(
        self, *, namespace: str = "", name: str = "", uid: str = "", kinds: Sequence[type[m.Moment]] = ()
    ) -> list[Noted]:
        """What is on disk."""


class Explainer:
    """`moments` are those in memory, by a pod's uid."""

    def __init__(
        self,
        pods: Callable[[], Sequence[Pod]],
        moments: Callable[[str], Sequence[Noted]],
        history: History,
        trouble: Callable[[], NodeTrouble],
        log_root: str,
        *,
        node: str,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        is_starting: Callable[[], bool] = lambda: False,
    ) -> None:
        self._pods = pods
        self._node = node
        self._moments = moments
        self._history = history
        self._trouble = trouble
        self._log_root = log_root
        self._now = now
        self._is_starting = is_starting
        self._earlier: dict[str, deque[Noted]] = {}
        """By uid: how containers ended before this agent began."""
        self._reads = asyncio.Lock()

    async def answer(self, question: str) -> Any:
        """Of the agent's socket: nothing, or a namespace, a name and perhaps a time, with spaces between."""
        words = question.split()
        if not words:
            return await self.all()
        namespace, name, since, *_ = (*words, "", "")
        try:
            return await self.one(namespace, name, read_time(since))
        except (NotFound, Invalid, Retry) as error:
            return {"error": str(error)}

    async def all(self) -> dict[str, Any]:
        """The node, and the stories of those of its pods that are not well."""
        trouble, pods = self._trouble(), self._pods()
        told = [await self.told(pod) for pod in pods]
        return {
            "version": VERSION,
            "kind": "StoryList",
            "node": self._node,
            "pods": len(pods),
            "trouble": trouble,
            "items": [each for each in told if not each.is_well],
        } | ({"isStarting": True} if self._is_starting() else {})

    async def moments(self, uid: str) -> Sequence[Noted]:
        """Those in memory; of a pod that is gone for long, those on disk."""
        return self._moments(uid) or (await self._history(uid=uid) if uid else ())

    async def told(self, pod: Pod) -> Story:
        """By what is in memory; the files are read once, for containers that ended before this agent began."""
        recent = self._moments(pod.metadata.uid)
        if any(not recent or _end(each) <= recent[0].at for each in _failed(pod)):
            recent = (*await self._ends_before(pod, recent), *recent)
        return await self._told(pod, recent, self._trouble(), None)

    async def _ends_before(self, pod: Pod, recent: Sequence[Noted]) -> Sequence[Noted]:
        """One reading is for all pods that are known by now: the journal may be long."""
        uid = pod.metadata.uid
        async with self._reads:
            if uid not in self._earlier:
                known = {uid, *(each.metadata.uid for each in self._pods())}
                found: dict[str, deque[Noted]] = {each: deque(maxlen=_MOST_ENDS) for each in known}
                for each in await self._history(kinds=_OF_ENDS):
                    if each.about.uid in found:
                        found[each.about.uid].append(each)
                self._earlier = found
            return [each for each in self._earlier[uid] if not recent or each.at < recent[0].at]

    async def one(self, namespace: str, name: str, since: datetime | None) -> Story:
        """Raises NotFound."""
        named = (each for each in self._pods() if each.metadata.name == name)
        pod = next((each for each in named if each.metadata.namespace == namespace), None)
        if pod is None and self._is_starting():
            raise Retry(f"the agent of node {self._node} is just starting and does not know all its pods yet")
        if pod is None:
            old = await self._history(namespace=namespace, name=name)
            if not old:
                raise NotFound(f"node {self._node} does not know pod {namespace}/{name}, now or before")
            last = [each for each in old if each.about.uid == old[-1].about.uid]
            return story(None, last, now=self._now(), is_gone=True, node=self._node, since=since)
        uid = pod.metadata.uid
        recent = self._moments(uid)
        before = await self._history(uid=uid)
        known = [each for each in before if not recent or each.at < recent[0].at]
        return await self._told(pod, (*known, *recent), self._trouble(), since)

    async def _told(self, pod: Pod, moments: Sequence[Noted], trouble: NodeTrouble, since: datetime | None) -> Story:
        failed = [(each.name, _attempt(each)) for each in _failed(pod)]
        folder = log_directory(pod, self._log_root)
        words = await asyncio.to_thread(last_words, folder, failed) if failed else _NO_WORDS
        return story(pod, moments, now=self._now(), last_words=words, trouble=trouble, node=self._node, since=since)


def _failed(pod: Pod) -> list[ContainerStatus]:
    return [
        each
        for each in (*pod.status.init_container_statuses, *pod.status.container_statuses)
        if (ended := each.state.terminated or each.last_state.terminated) is not None and ended.exit_code != 0
    ]


def _end(status: ContainerStatus) -> datetime:
    """Of a container that has failed."""
    ended = status.state.terminated or status.last_state.terminated
    return (ended.finished_at if ended else None) or datetime.max.replace(tzinfo=UTC)


def _attempt(status: ContainerStatus) -> int:
    """Of the one that has ended: a container that runs again has the next number."""
    return status.restart_count - (status.state.running is not None)


def read_time(text: str) -> datetime | None:
    if not text:
        return None
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise Invalid(f"{text[:40]!r} is not a time such as 2026-01-02T15:04:05Z") from None
    return found if found.tzinfo else found.replace(tzinfo=UTC)
