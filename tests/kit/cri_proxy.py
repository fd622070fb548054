"""A bad line to a real runtime: every call passes through here, and some come to grief on the way, as a test asks."""

import asyncio
import os
import re
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")

import grpc
import grpc.aio
from msgspec import Struct

from pykubelet.pod.container.labels import POD_UID
from pykubelet.runtime.cri._gen import cri_pb2 as cri

_STREAMS: Final = frozenset({"GetContainerEvents", "Subscribe"})
_OPTIONS: Final = (
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    ("grpc.default_authority", "localhost"),
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 500),
)
_ID: Final = re.compile(rb"[0-9a-f]{64}")
_CHUNK: Final = 1 << 16


class Kind(StrEnum):
    BEFORE = "before"
    """The runtime never hears of it; the caller is told that it failed."""
    AFTER = "after"
    """It is done, and the caller is told that it failed."""
    LOST = "lost"
    """It is done, and then the line goes dead: the caller never learns."""
    DELAY = "delay"
    HANG = "hang"
    """Neither done nor answered, until the caller gives up."""
    CUT = "cut"
    """The line goes dead while the runtime is at it: in the middle, `seconds` after the beginning."""


class Fault(Struct, kw_only=True):
    """What happens to some calls. `left` counts down; None: to all of them."""

    method: str
    kind: Kind
    about: str = ""
    """Only to calls about a pod: its name is in the request, or the request names what was made for it."""
    skip: int = 0
    left: int | None = 1
    seconds: float = 0.0
    code: grpc.StatusCode = grpc.StatusCode.UNKNOWN
    text: str = "the line is bad"
    hits: int = 0


class Call(Struct):
    """One that was made, on the clock of time.perf_counter."""

    method: str
    about: str
    began: float
    ended: float = 0.0
    """0: it goes on, or it failed."""


class CriProxy:
    """Listens on a socket of its own. The line itself is a plain copier of bytes, so that it can be cut like one; it is
    left out where only the calls are of interest."""

    def __init__(self, endpoint: str, socket: Path, *, has_line: bool = True) -> None:
        self.endpoint = f"unix://{socket}"
        self.faults: list[Fault] = []
        self.calls: list[Call] = []
        self.open: list[str] = []
        """The methods of calls that go on now."""
        self._socket = socket
        self._has_line = has_line
        self._inner = socket.with_suffix(".inner") if has_line else socket
        self._upstream = grpc.aio.insecure_channel(endpoint, options=_OPTIONS)
        self._server = grpc.aio.server(options=_OPTIONS)
        self._server.add_generic_rpc_handlers((_Everything(self),))
        self._server.add_insecure_port(f"unix://{self._inner}")
        self._line: asyncio.Server | None = None
        self._ends: set[asyncio.StreamWriter] = set()
        self._owners: dict[bytes, str] = {}
        """The uid of the pod that a sandbox or container belongs to, by its id."""

    async def start(self) -> None:
        await self._server.start()
        if self._has_line:
            self._line = await asyncio.start_unix_server(self._connected, self._socket)

    async def stop(self) -> None:
        if self._line is not None:
            self._line.close()
        self.cut()
        await self._server.stop(None)
        await self._upstream.close()

    # --- what tests ask for

    def spoil(self, method: str, kind: Kind, **fields: Any) -> Fault:
        fault = Fault(method=method, kind=kind, **fields)
        self.faults.append(fault)
        return fault

    def mend(self, *faults: Fault) -> None:
        """Those are over; without any, all. Calls that hang go on hanging."""
        self.faults = [each for each in self.faults if faults and each not in faults]

    def cut(self) -> None:
        """Every connection ends now, whatever it is used for. New ones may be made."""
        for end in self._ends:
            end.transport.abort()

    def count(self, method: str, about: str = "") -> int:
        return sum(call.method == method and about in call.about for call in self.calls)

    # --- the line

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            far_reader, far_writer = await asyncio.open_unix_connection(self._inner)
        except OSError:
            writer.transport.abort()
            return
        ends = {writer, far_writer}
        self._ends |= ends
        try:
            async with asyncio.TaskGroup() as both:
                both.create_task(_copy(reader, far_writer))
                both.create_task(_copy(far_reader, writer))
        finally:
            self._ends -= ends
            for end in ends:
                end.transport.abort()

    # --- the calls

    async def unary(self, method: str, request: bytes, context: Any) -> bytes:
        fault = self._begin(method, request)
        call = self.calls[-1]
        self.open.append(_short(method))
        try:
            if fault is not None:
                await self._spoil_before(fault, context)
            if fault is not None and fault.kind is Kind.CUT:
                asyncio.get_running_loop().call_later(fault.seconds, self.cut)
            answer = await self._forward(method, request, context)
            call.ended = time.perf_counter()
            self._learn(_short(method), request, answer)
            if fault is not None and fault.kind is Kind.AFTER:
                await context.abort(fault.code, fault.text)
            if fault is not None and fault.kind is Kind.LOST:
                self.cut()
            return answer
        finally:
            self.open.remove(_short(method))

    async def stream(self, method: str, request: bytes, context: Any) -> AsyncIterator[bytes]:
        fault = self._begin(method, request)
        if fault is not None:
            await self._spoil_before(fault, context)
        ask: Any = self._upstream.unary_stream(method)
        call = ask(request)
        self.open.append(_short(method))
        try:
            async for answer in call:
                if fault is not None and fault.kind is Kind.AFTER:
                    break
                yield answer
        except grpc.aio.AioRpcError as error:
            await context.abort(error.code(), error.details() or "")
        finally:
            self.open.remove(_short(method))
            call.cancel()
        if fault is not None:
            await context.abort(fault.code, fault.text)

    async def _spoil_before(self, fault: Fault, context: Any) -> None:
        if fault.kind is Kind.BEFORE:
            await context.abort(fault.code, fault.text)
        if fault.kind is Kind.DELAY:
            await asyncio.sleep(fault.seconds)
        if fault.kind is Kind.HANG:
            await asyncio.Event().wait()

    async def _forward(self, method: str, request: bytes, context: Any) -> bytes:
        ask: Any = self._upstream.unary_unary(method)
        try:
            answer: bytes = await ask(request, timeout=context.time_remaining(), metadata=_passed_on(context))
        except grpc.aio.AioRpcError as error:
            await context.abort(error.code(), error.details() or "")
            raise
        return answer

    def _begin(self, method: str, request: bytes) -> Fault | None:
        """Write the call down. -> what is to happen to it"""
        names = {self._owners[found] for found in _ID.findall(request) if found in self._owners}
        about = f"{request.decode('ascii', 'replace')} {' '.join(names)}"
        self.calls.append(Call(_short(method), about, time.perf_counter()))
        for fault in self.faults:
            if fault.method != _short(method) or fault.left == 0 or fault.about not in about:
                continue
            if fault.skip:
                fault.skip -= 1
                continue
            fault.left = None if fault.left is None else fault.left - 1
            fault.hits += 1
            return fault
        return None

    def _learn(self, method: str, request: bytes, answer: bytes) -> None:
        if method == "RunPodSandbox":
            uid = cri.RunPodSandboxRequest.FromString(request).config.metadata.uid
            self._owners[cri.RunPodSandboxResponse.FromString(answer).pod_sandbox_id.encode()] = uid
        elif method == "CreateContainer":
            uid = cri.CreateContainerRequest.FromString(request).sandbox_config.metadata.uid
            self._owners[cri.CreateContainerResponse.FromString(answer).container_id.encode()] = uid
        elif method == "ListPodSandbox":
            for sandbox in cri.ListPodSandboxResponse.FromString(answer).items:
                self._owners[sandbox.id.encode()] = sandbox.metadata.uid
        elif method == "ListContainers":
            for container in cri.ListContainersResponse.FromString(answer).containers:
                self._owners[container.id.encode()] = container.labels.get(POD_UID, "")


class _Everything(grpc.GenericRpcHandler):
    """Any method there is, as bytes."""

    def __init__(self, proxy: CriProxy) -> None:
        self._proxy = proxy

    def service(self, details: Any) -> Any:
        method: str = details.method

        async def answers(request: bytes, context: Any) -> AsyncIterator[bytes]:
            async for each in self._proxy.stream(method, request, context):
                yield each

        async def answer(request: bytes, context: Any) -> bytes:
            return await self._proxy.unary(method, request, context)

        if _short(method) in _STREAMS:
            return grpc.unary_stream_rpc_method_handler(answers)
        return grpc.unary_unary_rpc_method_handler(answer)


def _passed_on(context: Any) -> tuple[tuple[str, str], ...]:
    return tuple((key, value) for key, value in context.invocation_metadata() if key == "containerd-namespace")


def _short(method: str) -> str:
    return method.rpartition("/")[2]


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(_CHUNK):
            writer.write(data)
            await writer.drain()
    writer.transport.abort()


@asynccontextmanager
async def cri_proxy(endpoint: str, socket: Path, *, has_line: bool = True) -> AsyncIterator[CriProxy]:
    proxy = CriProxy(endpoint, socket, has_line=has_line)
    await proxy.start()
    try:
        yield proxy
    finally:
        await proxy.stop()
