"""Events for people, on an API server. Repetition is counted and noise is damped before anything is sent, as upstream
does it, so that one unhealthy pod can neither flood the server nor push out what others have to say.
"""

import asyncio
import logging
import uuid
from collections import OrderedDict
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Generic, Literal, TypeVar

from msgspec import Struct

from pykubelet.api.meta import ObjectMeta
from pykubelet.api.objects import Event, EventSource, ObjectReference
from pykubelet.api.pod import Pod
from pykubelet.api.struct import changed
from pykubelet.base.backoff import Backoff
from pykubelet.base.errors import NotFound, PykubeletError, Retry
from pykubelet.base.journal import About
from pykubelet.base.rate_limit import TokenBucket
from pykubelet.kube.client import ApiClient, object_path
from pykubelet.kube.errors import AlreadyExists, ApiError
from pykubelet.pod.moments import LONGEST_MESSAGE, EventRecorded, Journal, Noted, Phase, PhaseEntered

log = logging.getLogger(__name__)

COMPONENT: Final = "kubelet"
QUEUE: Final = 1000

_REMEMBERED: Final = 4096
_SIMILAR: Final = 10
_SIMILAR_SECONDS: Final = 600.0
_BURST: Final = 25
_REFILL: Final = 1 / 300
_TRIES: Final = 12
_LONGEST_NAME: Final = 253
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)

Kind = Literal["Normal", "Warning"]
V = TypeVar("V")
_Key = tuple[str, ...]
"""What it is about: kind, namespace, name, uid; then what else makes it the same."""


class EventRecorder:
    """The Recorder port of a node with an API server. `event` and `node_event` are called from the event loop.

    While the server is away the newest `queue` events are kept; `dropped` counts those that had to go.
    """

    def __init__(
        self,
        server: ApiClient,
        node_name: str,
        *,
        journal: Journal | None = None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        queue: int = QUEUE,
    ) -> None:
        self.dropped = 0
        self._server = server
        self._node_name = node_name
        self._journal = journal or Journal()
        self._now = now
        self._most = queue
        self._correlator = _Correlator()
        self._queue: OrderedDict[tuple[str, str], _Queued] = OrderedDict()
        self._filled = asyncio.Event()
        self._nanoseconds = 0

    def event(
        self,
        pod: Pod,
        kind: Kind,
        reason: str,
        message: str,
        *,
        field_path: str = "",
        annotations: Mapping[str, str] = {},
    ) -> None:
        """`field_path` tells which part of the pod it is about, such as `spec.containers{web}`."""
        meta = pod.metadata
        about = ObjectReference(
            kind="Pod",
            api_version="v1",
            namespace=meta.namespace,
            name=meta.name,
            uid=meta.uid,
            resource_version=meta.resource_version,
            field_path=field_path,
        )
        self._record(about, About(meta.uid, meta.namespace, meta.name), kind, reason, message, annotations)

    def node_event(self, kind: Kind, reason: str, message: str) -> None:
        """About this node. Its name stands for its uid, as people's tools expect it."""
        about = ObjectReference(kind="Node", name=self._node_name, uid=self._node_name)
        self._record(about, About(), kind, reason, message)

    def object_event(self, about: ObjectReference, kind: Kind, reason: str, message: str) -> None:
        """About something that is neither."""
        self._record(about, About(), kind, reason, message)

    def read(self, noted: Noted) -> None:
        """A reader of the journal: what was told of a pod that is gone need not be remembered."""
        if isinstance(noted.moment, PhaseEntered) and noted.moment.phase is Phase.GONE:
            self._correlator.forget(noted.about.uid)

    async def run(self) -> None:
        """Send what there is, one after the other, until cancelled. May be called again after that."""
        backoff = Backoff(0.5, 30.0, now=asyncio.get_running_loop().time)
        tries = 0
        while True:
            while not self._queue:
                self._filled.clear()
                await self._filled.wait()
            queued = next(iter(self._queue.values()))
            try:
                await self._send(queued)
            except Retry as error:
                # An answer that is always the same failure may be the event's own fault: that must not go on for ever.
                tries += isinstance(error, ApiError)
                if tries < _TRIES:
                    delay = max(backoff.next(), error.after or 0.0)
                    log.debug("events wait for %.1f s: %s", delay, error)
                    await asyncio.sleep(delay)
                    continue
                log.warning("an event is given up after %d tries: %s", tries, error)
            except AlreadyExists:
                pass  # our earlier try has arrived after all
            except PykubeletError as error:
                log.warning("the API server refuses an event: %s", error)
            else:
                backoff.reset()
            tries = 0
            self._finished(queued)

    # --- inside

    def _record(
        self,
        about: ObjectReference,
        whose: About,
        kind: Kind,
        reason: str,
        message: str,
        annotations: Mapping[str, str] = {},
    ) -> None:
        now = self._now()
        self._journal.note(EventRecorded(kind, reason, message[:LONGEST_MESSAGE]), whose, at=now)
        second = now.replace(microsecond=0)
        event = Event(
            api_version="v1",
            kind="Event",
            metadata=ObjectMeta(
                name=self._name(about.name, now), namespace=about.namespace or "default", annotations=annotations
            ),
            involved_object=about,
            reason=reason,
            message=message,
            source=EventSource(component=COMPONENT, host=self._node_name),
            first_timestamp=second,
            last_timestamp=second,
            count=1,
            type=kind,
            reporting_component=COMPONENT,
            reporting_instance=self._node_name,
        )
        correlated = self._correlator.correlated(event, asyncio.get_running_loop().time())
        if correlated is not None:
            self._put(correlated)

    def _name(self, about: str, now: datetime) -> str:
        """`web.17c8f3...`: the time in hexadecimal nanoseconds, never twice the same."""
        self._nanoseconds = max(self._nanoseconds + 1, (now - _EPOCH) // _MICROSECOND * 1000)
        name = f"{about}.{self._nanoseconds:x}"
        return name if len(name) <= _LONGEST_NAME else str(uuid.uuid4())

    def _put(self, event: Event) -> None:
        key = event.metadata.namespace, event.metadata.name
        waiting = self._queue.get(key)
        is_new = waiting.is_new if waiting is not None else event.count == 1
        self._queue[key] = _Queued(event, is_new)
        if len(self._queue) > self._most:
            self._queue.popitem(last=False)
            self.dropped += 1
            if self.dropped % self._most == 1:
                log.warning("events are lost, %d so far: they come faster than they can be sent", self.dropped)
        self._filled.set()

    async def _send(self, queued: "_Queued") -> None:
        event = queued.event
        namespace, name = event.metadata.namespace, event.metadata.name
        if not queued.is_new:
            patch: dict[str, Any] = {
                "count": event.count,
                "lastTimestamp": event.last_timestamp,
                "message": event.message,
            }
            try:
                await self._server.patch(object_path("events", namespace=namespace, name=name), patch, bytes)
            except NotFound:
                pass  # too old, or never sent: it begins anew
            else:
                return
        await self._server.create(object_path("events", namespace=namespace), event, bytes)

    def _finished(self, sent: "_Queued") -> None:
        key = sent.event.metadata.namespace, sent.event.metadata.name
        waiting = self._queue.get(key)
        if waiting is sent:
            del self._queue[key]
        elif waiting is not None:  # it has happened again meanwhile
            self._queue[key] = _Queued(waiting.event, is_new=False)


class _Queued(Struct, frozen=True):
    event: Event
    is_new: bool
    """The server has not been told of it yet."""


# --- what becomes of repeated and similar events


class _Remembered(OrderedDict[_Key, V], Generic[V]):
    """What was used last; the rest is forgotten."""

    def keep(self, key: _Key, value: V) -> None:
        self[key] = value
        self.move_to_end(key)
        if len(self) > _REMEMBERED:
            self.popitem(last=False)

    def forget(self, uid: str) -> None:
        for key in [key for key in self if key[3] == uid]:
            del self[key]


class _Group(Struct):
    """Messages that differ in nothing but the text, and when the last of them came."""

    messages: set[str]
    last: float


class _Correlator:
    def __init__(self) -> None:
        self._groups: _Remembered[_Group] = _Remembered()
        self._seen: _Remembered[Event] = _Remembered()
        self._budgets: _Remembered[TokenBucket] = _Remembered()

    def forget(self, uid: str) -> None:
        """Of an object that is gone there is no more to tell."""
        for remembered in (self._groups, self._seen, self._budgets):
            remembered.forget(uid)

    def correlated(self, event: Event, now: float) -> Event | None:
        """The event to send: as it is, under a common text with similar ones, or as one more time of an earlier one.
        None when its object has had more than its share of events."""
        event, key = self._aggregated(event, now)
        event = self._counted(event, key)
        return event if self._is_affordable(event, now) else None

    def _aggregated(self, event: Event, now: float) -> tuple[Event, _Key]:
        """Of ten different messages about one thing within ten minutes, the tenth and later share one event."""
        about = event.involved_object
        key = about.kind, about.namespace, about.name, about.uid, event.type, event.reason
        group = self._groups.get(key)
        if group is None or now - group.last > _SIMILAR_SECONDS:
            group = _Group(set(), now)
        group.messages.add(event.message)
        group.last = now
        self._groups.keep(key, group)
        if len(group.messages) < _SIMILAR:
            return event, (*key, about.field_path, event.message)
        group.messages.pop()
        return changed(event, message=f"(combined from similar events): {event.message}"), key

    def _counted(self, event: Event, key: _Key) -> Event:
        first = self._seen.get(key)
        if first is not None:
            event = changed(
                event, metadata=first.metadata, first_timestamp=first.first_timestamp, count=(first.count or 0) + 1
            )
        self._seen.keep(key, event)
        return event

    def _is_affordable(self, event: Event, now: float) -> bool:
        about = event.involved_object
        key = about.kind, about.namespace, about.name, about.uid, event.type
        budget = self._budgets.get(key) or TokenBucket(_REFILL, _BURST)
        self._budgets.keep(key, budget)
        if budget.reserve(now) > 0:
            budget.give_back()
            return False
        return True
