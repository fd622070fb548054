"""A pod's start as one trace, folded from the moments of the journal: what everybody else reads of it is here a span.

It begins when a source brings the pod and ends when the pod is ready, has ended or is to be stopped. Names and
attributes are upstream's where upstream has them.
"""

from collections import OrderedDict
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Final

from msgspec import Struct

from pykubelet.base.journal import About
from pykubelet.pod import moments as m
from pykubelet.pod.lifecycle.pod_update import Op
from pykubelet.pod.status.phase import is_terminal_phase

_MOST_TRACES: Final = 2000
_OPERATIONS: Final[Mapping[m.Operation, str]] = {"create": "syncPod", "update": "syncPod", "sync": "syncPod"}
_LONGEST_TEXT: Final = 1024

Attributes = Mapping[str, str | int | bool]


class Span(Struct, frozen=True, kw_only=True):
    trace_id: bytes
    span_id: bytes
    parent_id: bytes = b""
    name: str
    start: datetime
    end: datetime
    is_call: bool = False
    """It was done by somebody else."""
    attributes: Attributes = {}
    error: str = ""


class _Trace:
    """One that goes on."""

    def __init__(self, trace_id: bytes, root: bytes, about: About, began: datetime) -> None:
        self.id = trace_id
        self.root = root
        self.about = about
        self.began = began
        self.is_start = False
        """The pod has never run before. Until that is known, nothing is told."""
        self.sync: tuple[bytes, datetime] | None = None
        self.started: datetime | None = None
        """The last container."""
        self.end: datetime | None = None
        self.error = ""

    @property
    def attributes(self) -> dict[str, str | int | bool]:
        uid, namespace, name = self.about
        pod = {"k8s.pod.uid": uid, "k8s.pod": str(self.about), "k8s.pod.name": name}
        return {**pod, "k8s.namespace.name": namespace}


class PodTraces:
    """`read` is a reader of the journal. `rate` of a million pods that come are told of; `new_id` makes as many random
    bytes as it is asked for, and `tell` gets each span that has ended."""

    def __init__(self, rate: int, new_id: Callable[[int], bytes], tell: Callable[[Span], None]) -> None:
        self._below = rate * (1 << 63) // 1_000_000
        self._new_id = new_id
        self._tell = tell
        self._traces: OrderedDict[str, _Trace] = OrderedDict()

    def context(self, uid: str) -> str:
        """For others to go on with, as W3C's `traceparent`; empty: the pod is not told of."""
        trace = self._traces.get(uid)
        if trace is None or not trace.is_start:
            return ""
        inner = trace.sync[0] if trace.sync else trace.root
        return f"00-{trace.id.hex()}-{inner.hex()}-01"

    def read(self, noted: m.Noted) -> None:
        moment, uid = noted.moment, noted.about.uid
        if isinstance(moment, m.Merged):
            if moment.op is Op.ADD:
                self._begin(noted.about, noted.at)
            return
        trace = self._traces.get(uid) if uid else None
        if trace is not None:
            self._follow(trace, moment, noted.at)

    # --- inside

    def _begin(self, about: About, at: datetime) -> None:
        trace_id = self._new_id(16)
        if about.uid in self._traces or int.from_bytes(trace_id[8:]) >> 1 >= self._below:
            return
        self._traces[about.uid] = _Trace(trace_id, self._new_id(8), about, at)
        if len(self._traces) > _MOST_TRACES:
            self._traces.popitem(last=False)

    def _follow(self, trace: _Trace, moment: m.Moment, at: datetime) -> None:
        match moment:
            case m.Began(is_new=is_new):
                trace.is_start = is_new
                if not is_new:
                    del self._traces[trace.about.uid]
            case m.Rejected(reason, message):
                trace.is_start = True
                self._end(trace, at, f"{reason}: {message}")
            case m.WorkBegun(operation) if operation in _OPERATIONS:
                trace.sync = self._new_id(8), at
            case m.WorkEnded(operation, _, error) if operation in _OPERATIONS:
                self._end_sync(trace, operation, at, error)
            case m.StatusSet(phase=phase, is_ready=is_ready) if is_ready or is_terminal_phase(phase):
                self._end(trace, at, "")
            case m.StopAsked(by=by):
                self._end(trace, at, "" if trace.end else f"it was stopped before it was ready: {by}")
            case m.ContainerStarted():
                trace.started = at
            case _:
                self._inner(trace, moment, at)

    def _inner(self, trace: _Trace, moment: m.Moment, at: datetime) -> None:
        more: Attributes
        match moment:
            case m.StepEnded(step, seconds, error):
                self._span(trace, step, at, seconds, error)
            case m.SandboxMade(attempt=attempt, seconds=seconds, error=error):
                self._span(trace, "sandbox", at, seconds, error, {"attempt": attempt})
            case m.PullEnded(image, waited=waited, bytes=size, is_shared=is_shared, error=error):
                more = {"image": image, "bytes": size, "shared": is_shared}
                self._span(trace, "image pull", at, waited, error, more)
            case m.RuntimeCalled(method, seconds, error):
                more = {"rpc.system": "grpc", "rpc.method": method}
                self._span(trace, f"runtime.v1.{_service(method)}/{method}", at, seconds, error, more, is_call=True)
            case m.ApiRequested(method, host, seconds=seconds):
                more = {"http.method": method, "net.peer.name": host}
                self._span(trace, f"HTTP {method}", at, seconds, "", more, is_call=True)

    def _span(
        self,
        trace: _Trace,
        name: str,
        at: datetime,
        seconds: float,
        error: str,
        attributes: Attributes | None = None,
        *,
        is_call: bool = False,
    ) -> None:
        """One that is over."""
        if not trace.is_start:
            return
        self._tell(
            Span(
                trace_id=trace.id,
                span_id=self._new_id(8),
                parent_id=trace.sync[0] if trace.sync else trace.root,
                name=name,
                start=at - timedelta(seconds=seconds),
                end=at,
                is_call=is_call,
                attributes=attributes or {},
                error=error[:_LONGEST_TEXT],
            )
        )

    def _end_sync(self, trace: _Trace, operation: str, at: datetime, error: str) -> None:
        sync, trace.sync = trace.sync, None
        if sync is not None and trace.is_start:
            more = {**trace.attributes, "k8s.pod.update_type": operation}
            self._tell(
                Span(
                    trace_id=trace.id,
                    span_id=sync[0],
                    parent_id=trace.root,
                    name=_OPERATIONS["sync"],
                    start=sync[1],
                    end=at,
                    attributes=more,
                    error=error[:_LONGEST_TEXT],
                )
            )
        self._close(trace)

    def _end(self, trace: _Trace, at: datetime, error: str) -> None:
        if trace.end is None:
            if trace.started is not None and not error:
                self._span(trace, "readiness", at, (at - trace.started).total_seconds(), "")
            trace.end, trace.error = at, error
        self._close(trace)

    def _close(self, trace: _Trace) -> None:
        """Once it has ended, and what went on meanwhile, too."""
        if trace.end is None or trace.sync is not None:
            return
        self._traces.pop(trace.about.uid, None)
        if trace.is_start:
            self._tell(
                Span(
                    trace_id=trace.id,
                    span_id=trace.root,
                    name="pod start",
                    start=trace.began,
                    end=trace.end,
                    attributes=trace.attributes,
                    error=trace.error[:_LONGEST_TEXT],
                )
            )


def _service(method: str) -> str:
    return "ImageService" if "Image" in method else "RuntimeService"
