"""The pods' journal: each room notes the moments of a pod's life, and everything that wants to know reads them here.

One bounded mechanism. Metrics, explanations, pages and traces are its readers; none of them needs a hook of its own.
"""

import logging
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Moment:
    """Something happened to a pod."""

    uid: str
    pod: str
    """`namespace/name`, for people."""
    stage: str
    detail: str
    at: datetime


Reader = Callable[[Moment], None]


class Journal:
    """The last moments of the last pods: at most `per_pod` of each, of at most `pods` pods. The longest silent pod is
    forgotten first."""

    def __init__(
        self, *, pods: int = 2000, per_pod: int = 64, now: Callable[[], datetime] = lambda: datetime.now(UTC)
    ) -> None:
        self._most_pods = pods
        self._per_pod = per_pod
        self._now = now
        self._moments: OrderedDict[str, deque[Moment]] = OrderedDict()
        self._readers: list[Reader] = []

    def note(self, uid: str, pod: str, stage: str, detail: str = "", *, at: datetime | None = None) -> None:
        """Write a moment down. Costs microseconds and never fails: notes are taken in the middle of hot paths."""
        moment = Moment(uid, pod, stage, detail, at or self._now())
        moments = self._moments.get(uid)
        if moments is None:
            moments = self._moments[uid] = deque(maxlen=self._per_pod)
            if len(self._moments) > self._most_pods:
                self._moments.popitem(last=False)
        else:
            self._moments.move_to_end(uid)
        moments.append(moment)
        for reader in self._readers:
            try:
                reader(moment)
            except Exception:  # a reader's trouble is not the pod's
                log.exception("a reader of the journal failed at %s", stage)

    def note_first(self, uid: str, pod: str, stage: str, detail: str = "", *, at: datetime | None = None) -> None:
        """Write a moment down unless this pod has had one of its stage."""
        if all(moment.stage != stage for moment in self._moments.get(uid, ())):
            self.note(uid, pod, stage, detail, at=at)

    def of(self, uid: str) -> tuple[Moment, ...]:
        """A pod's moments, oldest first."""
        return tuple(self._moments.get(uid, ()))

    def named(self, pod: str) -> tuple[Moment, ...]:
        """The moments of every pod that had this `namespace/name`, oldest first."""
        found = (moment for moments in self._moments.values() for moment in moments if moment.pod == pod)
        return tuple(sorted(found, key=lambda moment: moment.at))

    def read_by(self, reader: Reader) -> None:
        """From now on `reader` is shown every moment, at once and in order. It must not wait."""
        self._readers.append(reader)

    def __iter__(self) -> Iterator[Moment]:
        for moments in list(self._moments.values()):
            yield from list(moments)

    def __len__(self) -> int:
        return len(self._moments)
