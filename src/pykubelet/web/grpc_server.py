"""A gRPC server on a unix socket, for programs on this machine that call the agent."""

import os
import stat
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any, Final, NamedTuple

import grpc
import grpc.aio
from google.protobuf.message import Message

from pykubelet.base.errors import Invalid, NotFound, PykubeletError, Retry
from pykubelet.web.grpc_channel import as_bytes

_LARGEST_QUESTION: Final = 4 << 20
_MOST_AT_ONCE: Final = 100


class Exhausted(Retry):
    """Whoever asks has asked too often."""


class Call(NamedTuple):
    """One question, one answer. It raises base.errors."""

    request: type[Message]
    answer: Callable[[Any], Awaitable[Message]]


class Stream(NamedTuple):
    """One question, answers until either side has enough."""

    request: type[Message]
    answers: Callable[[Any], AsyncIterator[Message]]


@asynccontextmanager
async def answering(path: str, calls: Mapping[str, Call | Stream]) -> AsyncIterator[None]:
    """Answer at the socket, which others may not use, until the end of the block. Calls are `package.Service/Name`.

    Raises OSError.
    """
    with suppress(FileNotFoundError):
        if not stat.S_ISSOCK(os.lstat(path).st_mode):
            raise FileExistsError(f"{path} is there, and is no socket: remove it")
        os.unlink(path)
    options = [("grpc.max_receive_message_length", _LARGEST_QUESTION), ("grpc.so_reuseport", 0)]
    server = grpc.aio.server(options=options, maximum_concurrent_rpcs=_MOST_AT_ONCE)
    server.add_generic_rpc_handlers((_Handlers(calls),))
    try:
        server.add_insecure_port(f"unix://{path}")
    except RuntimeError as error:
        raise OSError(f"cannot listen at {path}: {error}") from None
    await server.start()
    try:
        os.chmod(path, 0o660)
        yield
    finally:
        await server.stop(None)


class _Handlers(grpc.GenericRpcHandler):
    def __init__(self, calls: Mapping[str, Call | Stream]) -> None:
        self._calls = calls

    def service(self, handler_call_details: Any) -> Any:
        call = self._calls.get(handler_call_details.method.removeprefix("/"))
        if isinstance(call, Call):
            return grpc.unary_unary_rpc_method_handler(_answer(call), call.request.FromString, as_bytes)
        if isinstance(call, Stream):
            return grpc.unary_stream_rpc_method_handler(_answers(call), call.request.FromString, as_bytes)
        return None


def _answer(call: Call) -> Callable[[Any, Any], Awaitable[Message]]:
    async def answer(request: Any, context: Any) -> Message:
        try:
            return await call.answer(request)
        except PykubeletError as error:
            return await context.abort(_code(error), str(error))  # type: ignore[no-any-return]

    return answer


def _answers(call: Stream) -> Callable[[Any, Any], AsyncIterator[Message]]:
    async def answers(request: Any, context: Any) -> AsyncIterator[Message]:
        async for each in call.answers(request):
            yield each

    return answers


def _code(error: PykubeletError) -> grpc.StatusCode:
    if isinstance(error, NotFound):
        return grpc.StatusCode.NOT_FOUND
    if isinstance(error, Exhausted):
        return grpc.StatusCode.RESOURCE_EXHAUSTED
    return grpc.StatusCode.INVALID_ARGUMENT if isinstance(error, Invalid) else grpc.StatusCode.UNKNOWN
