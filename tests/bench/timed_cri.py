"""Between an agent and its runtime: passes every call on as it is, and writes down which were made, and how long each
took. It can keep the runtime's events to itself, as a runtime without such a stream would."""

import time
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import grpc
import grpc.aio

_STREAMS: Final = ("/GetContainerEvents", "/Subscribe")
_MAKERS: Final = ("RunPodSandbox", "CreateContainer")
_OPTIONS: Final = (("grpc.default_authority", "localhost"), ("grpc.use_local_subchannel_pool", 1))


@dataclass(frozen=True, slots=True)
class Call:
    """One that the agent made, on the clock of time.perf_counter."""

    method: str
    began: float
    ended: float
    request: bytes
    reply: bytes


class TimedCri(grpc.GenericRpcHandler):
    def __init__(self, channel: grpc.aio.Channel, *, has_events: bool) -> None:
        self.calls: list[Call] = []
        self._channel = channel
        self._has_events = has_events

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> Any:
        path = str(handler_call_details.method)
        if not path.endswith(_STREAMS):
            return grpc.unary_unary_rpc_method_handler(self._passing_on(path))
        return grpc.unary_stream_rpc_method_handler(self._following(path)) if self._has_events else None

    def of(self, marks: Collection[bytes]) -> list[Call]:
        """The calls about one pod: those that mention one of the marks, or what such a call has made."""
        known, found = set(marks), []
        for call in sorted(self.calls, key=lambda each: each.ended):
            if any(mark in call.request for mark in known):
                found.append(call)
                if call.method in _MAKERS:
                    known.add(call.reply[2:])  # the reply has one field, an id: after its tag and its length
        return sorted(found, key=lambda each: each.began)

    def _passing_on(self, path: str) -> Callable[..., Any]:
        async def pass_on(request: bytes, context: grpc.aio.ServicerContext[bytes, bytes]) -> bytes:
            began = time.perf_counter()
            ask: Any = self._channel.unary_unary(path)
            try:
                reply: bytes = await ask(request, timeout=context.time_remaining())
            except grpc.aio.AioRpcError as error:
                await context.abort(error.code(), error.details() or "")
                raise
            self.calls.append(Call(path.rpartition("/")[2], began, time.perf_counter(), request, reply))
            return reply

        return pass_on

    def _following(self, path: str) -> Callable[..., Any]:
        async def follow(request: bytes, context: grpc.aio.ServicerContext[bytes, bytes]) -> AsyncIterator[bytes]:
            ask: Any = self._channel.unary_stream(path)
            try:
                async for reply in ask(request):
                    yield reply
            except grpc.aio.AioRpcError as error:
                await context.abort(error.code(), error.details() or "")

        return follow


@asynccontextmanager
async def timed_cri(endpoint: str, socket: Path, *, has_events: bool = True) -> AsyncIterator[TimedCri]:
    """A proxy that listens at `socket` and asks the runtime at `endpoint`."""
    async with grpc.aio.insecure_channel(endpoint, options=_OPTIONS) as channel:
        proxy = TimedCri(channel, has_events=has_events)
        server = grpc.aio.server()
        server.add_generic_rpc_handlers((proxy,))
        server.add_insecure_port(f"unix://{socket}")
        await server.start()
        try:
            yield proxy
        finally:
            await server.stop(0.1)
