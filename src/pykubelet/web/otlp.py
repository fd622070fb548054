"""Spans on their way to a collector: OpenTelemetry's protocol over gRPC, written by ourselves.

A few messages of numbers and text are all that is needed of it. They go in groups, and wait in a line that is bounded:
a collector that is slow or away costs spans, which are counted, and nothing else.
"""

import asyncio
import logging
import struct
from collections import deque
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, Protocol

from msgspec import Struct

from pykubelet import __version__
from pykubelet.base.varint import varint

if TYPE_CHECKING:
    import grpc.aio

log = logging.getLogger(__name__)

EXPORT: Final = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
_GROUP: Final = 512
_MOST_WAITING: Final = 2048
_EVERY: Final = 5.0
_PATIENCE: Final = 10.0
_LAST_PATIENCE: Final = 2.0
"""Seconds that an agent which stops waits for its collector."""
_INTERNAL, _CLIENT, _FAILED = 1, 3, 2
"""Kinds of spans, and the code of one that failed."""


class TracingSettings(Struct, frozen=True, kw_only=True):
    endpoint: str = "localhost:4317"
    rate: int = 0
    """Of a million pods: how many are told of."""


class SpanLike(Protocol):
    @property
    def trace_id(self) -> bytes: ...
    @property
    def span_id(self) -> bytes: ...
    @property
    def parent_id(self) -> bytes: ...
    @property
    def name(self) -> str: ...
    @property
    def start(self) -> datetime: ...
    @property
    def end(self) -> datetime: ...
    @property
    def is_call(self) -> bool: ...
    @property
    def attributes(self) -> Mapping[str, str | int | bool]: ...
    @property
    def error(self) -> str: ...


class Exporter:
    """`tell` takes a span and never waits; `run` brings them away, until cancelled, and `close` the rest."""

    def __init__(self, endpoint: str, resource: Mapping[str, str | int | bool]) -> None:
        self._endpoint = endpoint
        self._resource = resource
        self._waiting: deque[SpanLike] = deque()
        self._is_enough = asyncio.Event()
        self._channel: grpc.aio.Channel | None = None
        self._export: Any = None
        self._is_away = False
        self.sent = 0
        self.dropped = 0

    def tell(self, span: SpanLike) -> None:
        if len(self._waiting) >= _MOST_WAITING:
            self.dropped += 1
            return
        self._waiting.append(span)
        if len(self._waiting) >= _GROUP:
            self._is_enough.set()

    async def run(self) -> None:
        while True:
            try:
                async with asyncio.timeout(_EVERY):
                    await self._is_enough.wait()
            except TimeoutError:
                pass
            self._is_enough.clear()
            while self._waiting and await self._send(_PATIENCE):
                pass
            if self._is_away:
                await asyncio.sleep(_EVERY)

    async def close(self) -> None:
        if self._waiting and not self._is_away:
            await self._send(_LAST_PATIENCE)
        if self._channel is not None:
            await self._channel.close()
            self._channel = None

    async def _send(self, seconds: float) -> bool:
        """The first group. -> whether it is there: else it stays in line."""
        import grpc.aio

        group = [self._waiting[place] for place in range(min(_GROUP, len(self._waiting)))]
        request = export_request(group, self._resource)
        try:
            await self._opened()(request, timeout=seconds)
        except grpc.aio.AioRpcError as error:
            self._lose(error)
            if error.code() in (grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.UNIMPLEMENTED):
                self._take(len(group))  # it would be refused again
                self.dropped += len(group)
            return False
        self._take(len(group))
        self.sent += len(group)
        if self._is_away:
            self._is_away = False
            log.info("%s takes traces again; %d spans were lost", self._endpoint, self.dropped)
        return True

    def _lose(self, error: "grpc.aio.AioRpcError") -> None:
        if not self._is_away:
            self._is_away = True
            log.warning("%s does not take traces: %s; the agent goes on", self._endpoint, error.details())

    def _take(self, count: int) -> None:
        for _ in range(min(count, len(self._waiting))):
            self._waiting.popleft()

    def _opened(self) -> Any:
        if self._channel is None:
            import grpc.aio

            options = (("grpc.enable_http_proxy", 0), ("grpc.use_local_subchannel_pool", 1))
            self._channel = grpc.aio.insecure_channel(self._endpoint, options=options)
            self._export = self._channel.unary_unary(EXPORT)
        return self._export


# --- the messages, by the numbers of their fields


def export_request(spans: Sequence[SpanLike], resource: Mapping[str, str | int | bool]) -> bytes:
    """ExportTraceServiceRequest."""
    scope = _text(1, "pykubelet") + _text(2, __version__)
    inside = _bytes(1, scope) + b"".join(_bytes(2, _span(each)) for each in spans)
    return _bytes(1, _bytes(1, _attributes(1, resource)) + _bytes(2, inside))


def _span(span: SpanLike) -> bytes:
    parts = [
        _bytes(1, span.trace_id),
        _bytes(2, span.span_id),
        _bytes(4, span.parent_id) if span.parent_id else b"",
        _text(5, span.name),
        _number(6, _CLIENT if span.is_call else _INTERNAL),
        _time(7, span.start),
        _time(8, span.end),
        _attributes(9, span.attributes),
        _bytes(15, _text(2, span.error) + _number(3, _FAILED)) if span.error else b"",
    ]
    return b"".join(parts)


def _attributes(field: int, values: Mapping[str, str | int | bool]) -> bytes:
    return b"".join(_bytes(field, _text(1, name) + _bytes(2, _value(value))) for name, value in values.items())


def _value(value: str | int | bool) -> bytes:
    if isinstance(value, bool):
        return _number(2, int(value))
    return _number(3, value) if isinstance(value, int) else _text(1, value)


def _text(field: int, text: str) -> bytes:
    return _bytes(field, text.encode(errors="replace"))


def _bytes(field: int, data: bytes) -> bytes:
    return varint(field << 3 | 2) + varint(len(data)) + data


def _number(field: int, number: int) -> bytes:
    return varint(field << 3) + varint(number & (1 << 64) - 1)


def _time(field: int, moment: datetime) -> bytes:
    nanoseconds = int(moment.timestamp()) * 1_000_000_000 + moment.microsecond * 1000
    return varint(field << 3 | 1) + struct.pack("<Q", max(nanoseconds, 0))
