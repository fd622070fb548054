"""The wire: one gRPC channel on a unix socket, which comes back by itself, and errors in our own words."""

import asyncio
import math
import os
from collections.abc import AsyncGenerator, Callable
from contextlib import suppress
from typing import Any, Final, TypeVar

from google.protobuf.message import Message

from pykubelet.base.errors import Invalid, NotFound, PykubeletError, Retry
from pykubelet.base.journal import Journal

# This program starts others; grpc's own care for forks only gets into the way of that. It is read when grpc is loaded.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")

import grpc
import grpc.aio

DEADLINE: Final = 120.0
"""For an answer, when nobody says otherwise."""
_SOCKET: Final = "unix://"
_LARGEST: Final = 64 * 1024 * 1024
"""A list of every container of a large node is more than gRPC's own 4 MB."""
_OPTIONS: Final = (
    ("grpc.max_send_message_length", _LARGEST),
    ("grpc.default_authority", "localhost"),  # servers written in Go refuse the path of the socket
    ("grpc.enable_http_proxy", 0),
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 3000),
)
_INVALID: Final = frozenset(
    {
        grpc.StatusCode.ALREADY_EXISTS,
        grpc.StatusCode.INVALID_ARGUMENT,
        grpc.StatusCode.OUT_OF_RANGE,
        grpc.StatusCode.PERMISSION_DENIED,
        grpc.StatusCode.UNIMPLEMENTED,
    }
)


_LOST: Final = frozenset({grpc.StatusCode.CANCELLED, grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.UNAVAILABLE})

Reply = TypeVar("Reply", bound=Message)


class Lost(Retry):
    """There was no answer: what was asked for may have been done, or may still be."""


class Unimplemented(Invalid):
    """The other side does not know this call."""


class Channel:
    """Made without connecting; the first call connects. Belongs to the event loop of that call."""

    def __init__(
        self,
        endpoint: str,
        *,
        deadline: float = DEADLINE,
        peer: str = "the runtime",
        on_call: Callable[[str, float, str], None] | None = None,
        journal: Journal[Any] | None = None,
        largest: int = _LARGEST,
    ) -> None:
        """`peer` names the other side in messages. `on_call` hears of each call that was answered or has failed: its
        name, the seconds it took and the error. In the `journal` calls are under way until they end. `largest` is how
        many bytes an answer may have."""
        path = endpoint.removeprefix(_SOCKET)
        if "://" in path or not path.startswith("/"):
            raise Invalid(f"{endpoint!r} is not the path of a socket, such as unix:///run/containerd.sock")
        self.endpoint = f"{_SOCKET}{path}"
        self.deadline = deadline
        self._peer = peer
        self._on_call = on_call
        self._journal = journal
        self._largest = largest
        self._channel: grpc.aio.Channel | None = None
        self._unary: dict[str, Any] = {}
        self._closed = False

    async def call(
        self,
        method: str,
        request: Message,
        reply: type[Reply],
        *,
        deadline: float | None = None,
        metadata: tuple[tuple[str, str], ...] = (),
    ) -> Reply:
        """One question, one answer. `method` is `package.Service/Name`. Raises base.errors.

        `deadline` is in seconds; without it, the channel's own; infinite: however long it takes.
        """
        seconds = self.deadline if deadline is None else deadline
        ask = self._unary.get(method)
        if ask is None:
            ask = self._unary[method] = self._connected().unary_unary(
                f"/{method}",
                request_serializer=as_bytes,
                response_deserializer=reply.FromString,
            )
        began, journal = asyncio.get_running_loop().time(), self._journal
        begun = journal.begin("call", method.rpartition("/")[2]) if journal is not None else 0
        if journal is not None and (context := journal.traceparent()):
            metadata = (*metadata, ("traceparent", context))
        try:
            answer: Reply = await ask(request, timeout=None if math.isinf(seconds) else seconds, metadata=metadata)
        except grpc.aio.AioRpcError as error:
            failure = translated(error, method, self._peer)
            self._note(method, began, str(failure))
            raise failure from None
        except asyncio.CancelledError:
            if self._closed and not _is_cancelled():
                raise Lost(f"{method}: the connection to {self._peer} was closed") from None
            raise
        finally:
            if journal is not None:
                journal.end(begun)
        self._note(method, began, "")
        return answer

    async def stream(self, method: str, request: Message, reply: type[Reply]) -> AsyncGenerator[Reply, None]:
        """One question, answers until either side has enough. Raises base.errors."""
        call = self._connected().unary_stream(
            f"/{method}",
            request_serializer=as_bytes,
            response_deserializer=reply.FromString,
        )(request)
        try:
            async for answer in call:
                yield answer
        except grpc.aio.AioRpcError as error:
            raise translated(error, method, self._peer) from None
        except asyncio.CancelledError:
            if self._closed and not _is_cancelled():
                raise Lost(f"{method}: the connection to {self._peer} was closed") from None
            raise
        finally:
            call.cancel()

    async def connections(self) -> AsyncGenerator[bool, None]:
        """Whether there is one: now, and each time that this changes. One that is lost is made again, for as long as
        somebody listens."""
        channel, told = self._connected(), None
        while True:
            state = channel.get_state(try_to_connect=True)
            if (is_ready := state is grpc.ChannelConnectivity.READY) is not told:
                told = is_ready
                yield is_ready
            await channel.wait_for_state_change(state)

    async def close(self) -> None:
        self._closed = True
        channel, self._channel = self._channel, None
        self._unary.clear()
        if channel is not None:
            with suppress(grpc.aio.UsageError):
                await channel.close()

    def _note(self, method: str, began: float, error: str) -> None:
        if self._on_call is not None:
            self._on_call(method.rpartition("/")[2], asyncio.get_running_loop().time() - began, error)

    def _connected(self) -> "grpc.aio.Channel":
        if self._closed:
            raise Retry(f"the connection to {self._peer} is closed")
        if self._channel is None:
            options = (("grpc.max_receive_message_length", self._largest), *_OPTIONS)
            self._channel = grpc.aio.insecure_channel(self.endpoint, options=options)
        return self._channel


def translated(error: "grpc.aio.AioRpcError", method: str, peer: str = "the runtime") -> PykubeletError:
    """What a caller should do about it. Runtimes say UNKNOWN of most things that go wrong: later it may be right."""
    failure = _sorted(error, method, peer)
    code = error.code()
    # An unknown failure of a pull is said as the runtime says it: there are words in it that mean something.
    if not (method.endswith("/PullImage") and code is grpc.StatusCode.UNKNOWN):
        name = "Canceled" if code is grpc.StatusCode.CANCELLED else code.name.title().replace("_", "")
        failure.on_the_wire = f"rpc error: code = {name} desc = {error.details() or ''}"
    return failure


def _sorted(error: "grpc.aio.AioRpcError", method: str, peer: str) -> PykubeletError:
    code, text = error.code(), error.details() or error.code().name
    if code is grpc.StatusCode.NOT_FOUND:
        return NotFound(text)
    if code is grpc.StatusCode.UNIMPLEMENTED:
        return Unimplemented(text)
    if code in _INVALID:
        return Invalid(text)
    if code is grpc.StatusCode.UNAVAILABLE:
        return Lost(f"{peer} does not answer: {text}")
    if code in _LOST:
        return Lost(f"{method.rpartition('/')[2]}: {text}")
    return Retry(text)


def code_of(error: PykubeletError) -> str:
    """gRPC's word for a failure, such as `FailedPrecondition`; empty for one that no other side has told."""
    return error.on_the_wire.removeprefix("rpc error: code = ").partition(" ")[0]


def as_bytes(message: Message) -> bytes:
    return message.SerializeToString()


def _is_cancelled() -> bool:
    """Whether somebody wants this task to end, or only the call was given up."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
