"""The journal: rooms note the moments of a pod's life, and everything that wants to know reads them here.

One bounded mechanism for whatever type of moments its owner has. Metrics, the log, explanations, pages and traces are
its readers; none of them needs a hook of its own.
"""

import logging
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Final, Generic, NamedTuple, TypeVar

log = logging.getLogger(__name__)

M = TypeVar("M")


class About(NamedTuple):
    """Which pod. All empty: the node as a whole."""

    uid: str = ""
    namespace: str = ""
    name: str = ""

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


class Noted(NamedTuple, Generic[M]):
    """A moment, and how often it came. What came again and said nothing new is counted here instead of kept."""

    at: datetime
    about: About
    moment: M
    times: int = 1
    until: datetime | None = None
    """When it came last, if that was more than once."""


class UnderWay(NamedTuple):
    """Something that has begun and is not over. Nothing of it is kept."""

    kind: str
    what: str
    about: About
    since: datetime


class Rule(NamedTuple):
    """What the journal keeps of a moment. Readers are shown all of them."""

    about: Hashable = None
    """What it speaks of, such as one probe of one container; None: of nothing that comes again."""
    says: Hashable = None
    """A moment that says the same of the same thing as the last one is counted, not kept."""
    keep: bool = True
    """False: it leaves no trace, but for ending what it speaks of."""
    opens: bool = False
    """It holds until the next word on what it speaks of, and is forgotten then."""
    ends: bool = False
    """The pod is gone: unless it comes again, nothing more is heard of it."""


Reader = Callable[[Noted[M]], None]
_NODE: Final = About()
_whose: ContextVar[About] = ContextVar("whose", default=_NODE)


class Journal(Generic[M]):
    """The first `first` and the last `last` moments of each of at most `pods` pods: however long a pod lives, its start
    and its last troubles are there. The longest silent pod is forgotten first, and of those that are gone all but the
    last `gone`: who wants to know more of them reads what is on disk."""

    def __init__(
        self,
        rule: Callable[[M], Rule] = lambda moment: Rule(),
        *,
        pods: int = 2000,
        gone: int = 100,
        first: int = 32,
        last: int = 64,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._rule = rule
        self._most_pods = pods
        self._most_gone = gone
        self._bounds = first, last
        self._now = now
        self._pods: OrderedDict[str, _History[M]] = OrderedDict()
        self._gone: OrderedDict[str, None] = OrderedDict()
        self._readers: list[Reader[M]] = []
        self.traceparent: Callable[[], str] = lambda: ""
        """What others are told of the trace that goes on, so that they go on with it; empty: there is none."""
        self._under_way: dict[int, UnderWay] = {}
        self._begun = 0

    def note(self, moment: M, about: About | None = None, *, at: datetime | None = None) -> None:
        """Write a moment down. Costs microseconds and never fails: notes are taken in the middle of hot paths.

        Without `about` it is of the pod that this task works for, if any (`work_for`)."""
        noted = Noted(at or self._now(), about or _whose.get(), moment)
        self._keep(noted, self._rule(moment))
        for reader in self._readers:
            try:
                reader(noted)
            except Exception:  # a reader's trouble is not the pod's
                log.exception("a reader of the journal failed at %s", type(moment).__name__)

    def _keep(self, noted: Noted[M], rule: Rule) -> None:
        uid = noted.about.uid
        history = self._pods.get(uid)
        if history is None:
            if not rule.keep:
                return
            history = self._pods[uid] = _History(*self._bounds)
            if len(self._pods) > self._most_pods:
                self._gone.pop(self._pods.popitem(last=False)[0], None)
        else:
            self._pods.move_to_end(uid)
        history.add(noted, rule)
        if rule.keep:
            self._gone.pop(uid, None)
        if rule.ends:
            self._gone[uid] = None
            if len(self._gone) > self._most_gone:
                del self._pods[self._gone.popitem(last=False)[0]]

    def of(self, uid: str) -> tuple[Noted[M], ...]:
        """A pod's moments, oldest first. What goes on now is among them."""
        history = self._pods.get(uid)
        return history.moments() if history is not None else ()

    def begin(self, kind: str, what: str, about: About | None = None) -> int:
        """Something begins that takes a while. -> what `end` wants to be told when it is over, however it ended"""
        self._begun += 1
        self._under_way[self._begun] = UnderWay(kind, what, about or _whose.get(), self._now())
        return self._begun

    def end(self, number: int) -> None:
        del self._under_way[number]

    def under_way(self) -> tuple[UnderWay, ...]:
        """What has begun and is not over, the longest first."""
        return tuple(self._under_way.values())

    def read_by(self, reader: Reader[M]) -> None:
        """From now on `reader` is shown every moment, at once and in order. It must not wait."""
        self._readers.append(reader)


def work_for(about: About) -> None:
    """This task, and those that it starts, work for a pod: what they note is its."""
    _whose.set(about)


def working_for() -> About:
    """Whom this task works for."""
    return _whose.get()


class _History(Generic[M]):
    """Of one pod."""

    __slots__ = ("_first", "_kept", "_last", "_newest", "_next", "_open", "_rules")

    def __init__(self, first: int, last: int) -> None:
        self._first, self._last = first, last
        self._next = 0
        self._kept: dict[int, Noted[M]] = {}
        self._rules: deque[tuple[int, Rule]] = deque()
        """Of those after the first, the oldest first."""
        self._newest: dict[Hashable, tuple[int, Hashable]] = {}
        """By what it speaks of: which was the last to be kept, and what it said."""
        self._open: dict[Hashable, Noted[M]] = {}

    def add(self, noted: Noted[M], rule: Rule) -> None:
        about = rule.about
        if rule.opens:
            self._open[about] = noted
            return
        self._open.pop(about, None)
        newest = self._newest.get(about)
        if not rule.keep:
            if newest is not None:
                del self._newest[about]  # should that come again, it is another time
            return
        if newest is not None and newest[1] == rule.says:
            before = self._kept[newest[0]]
            self._kept[newest[0]] = before._replace(moment=noted.moment, times=before.times + 1, until=noted.at)
            return
        number, self._next = self._next, self._next + 1
        self._kept[number] = noted
        if about is not None:
            self._newest[about] = number, rule.says
        if number < self._first:
            return
        self._rules.append((number, rule))
        if len(self._rules) > self._last:
            oldest, its = self._rules.popleft()
            del self._kept[oldest]
            if its.about is not None and self._newest.get(its.about, (None,))[0] == oldest:
                del self._newest[its.about]

    def moments(self) -> tuple[Noted[M], ...]:
        return tuple(sorted((*self._kept.values(), *self._open.values()), key=lambda noted: noted.at))
