"""The wire to etcd: several members, one of which is asked at a time, with TLS or without; errors in our own words."""

import asyncio
import os
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, TypeVar
from urllib.parse import urlsplit

import msgspec
from google.protobuf.message import Message

from pykubelet.apiserver.store.port import Expired, Future, Lost
from pykubelet.base.errors import Invalid, PykubeletError, Retry

# This program starts others; grpc's own care for forks only gets into the way of that. It is read when grpc is loaded.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")

import grpc
import grpc.aio

DEADLINE: Final = 10.0
_LARGEST: Final = 2**31 - 1
_OPTIONS: Final = (
    ("grpc.max_receive_message_length", _LARGEST),
    ("grpc.max_send_message_length", _LARGEST),
    ("grpc.enable_http_proxy", 0),
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.keepalive_time_ms", 30_000),  # a member that vanished without a word is noticed
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 3000),
)
_NEVER_SENT: Final = ("failed to connect", "connections to all backends failing", "no address")
_TOO_LARGE: Final = "larger than max"
_REFUSED: Final = frozenset(
    {
        grpc.StatusCode.INVALID_ARGUMENT,
        grpc.StatusCode.PERMISSION_DENIED,
        grpc.StatusCode.UNAUTHENTICATED,
        grpc.StatusCode.UNIMPLEMENTED,
    }
)
_ELSEWHERE: Final = frozenset({grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED})
"""Another member may do better."""

Reply = TypeVar("Reply", bound=Message)


class EtcdTls(msgspec.Struct, frozen=True):
    """PEM. Without `ca`, etcd's certificate has to be signed by an authority that this machine trusts."""

    ca: bytes | None = None
    certificate: bytes | None = None
    key: bytes | None = None

    @classmethod
    def read(cls, ca: Path | None, certificate: Path | None, key: Path | None) -> "EtcdTls":
        """Blocks. The certificate is the one by which etcd knows us, and needs its key."""
        if (certificate is None) != (key is None):
            raise Invalid("etcd: a client certificate and its key have to be given together")
        try:
            return cls(*(None if path is None else path.read_bytes() for path in (ca, certificate, key)))
        except OSError as error:
            raise Invalid(f"etcd: {error.filename} cannot be read: {error.strerror}") from None


class EtcdChannel:
    """Made without connecting; the first call connects. Belongs to the event loop of that call."""

    def __init__(self, endpoints: Sequence[str], tls: EtcdTls | None = None, *, deadline: float = DEADLINE) -> None:
        if not endpoints:
            raise Invalid("etcd: name at least one endpoint, such as https://127.0.0.1:2379")
        self.endpoints = tuple(endpoints)
        self._targets = [_target(endpoint, tls) for endpoint in endpoints]
        self._tls = tls
        self._deadline = deadline
        self._channels: dict[int, grpc.aio.Channel] = {}
        self._current = 0
        self._is_closed = False

    async def ask(self, method: str, request: Message, reply: type[Reply]) -> Reply:
        """A question that changes nothing: each member is tried once. `method` is `package.Service/Name`."""
        return await self._try_members(_Unanswered, method, request, reply)

    async def change(self, method: str, request: Message, reply: type[Reply]) -> Reply:
        """A change: another member is tried only when the request cannot have been sent. Else Lost."""
        try:
            return await self._try_members(_NeverSent, method, request, reply)
        except _NeverSent:
            raise
        except _Unanswered as error:
            raise Lost(f"{error}; the change may have been made") from None

    async def _try_members(
        self, next_after: type[PykubeletError], method: str, request: Message, reply: type[Reply]
    ) -> Reply:
        for _ in self.endpoints[1:]:
            try:
                return await self._call(self._current, method, request, reply)
            except next_after:
                pass
        return await self._call(self._current, method, request, reply)

    async def ask_each(self, method: str, request: Message, reply: type[Reply]) -> list[Reply | PykubeletError]:
        """Every member's own answer."""
        before = self._current
        calls = (self._call(number, method, request, reply) for number in range(len(self.endpoints)))
        answers = await asyncio.gather(*calls, return_exceptions=True)
        self._current = before
        for answer in answers:
            if isinstance(answer, BaseException) and not isinstance(answer, PykubeletError):
                raise answer
        return [answer for answer in answers if isinstance(answer, PykubeletError | reply)]

    async def stream(
        self, method: str, requests: AsyncIterator[Message], reply: type[Reply]
    ) -> AsyncGenerator[Reply, None]:
        """Questions and answers in any order, until either side has enough or the member loses its leader."""
        number = self._current
        make = self._connected(number).stream_stream(
            f"/{method}", request_serializer=_bytes, response_deserializer=reply.FromString
        )
        call = make(requests, metadata=(("hasleader", "true"),))
        try:
            async for answer in call:
                yield answer
        except grpc.aio.AioRpcError as error:
            failure = self._translated(error, number, method)
            self._turn_from(number)
            raise failure from None
        except asyncio.CancelledError:
            if self._is_closed and not _is_cancelled():
                raise Retry("the connection to etcd is closed") from None
            raise
        finally:
            call.cancel()

    async def close(self) -> None:
        self._is_closed = True
        channels, self._channels = self._channels, {}
        for channel in channels.values():
            with suppress(grpc.aio.UsageError):
                await channel.close()

    async def _call(self, number: int, method: str, request: Message, reply: type[Reply]) -> Reply:
        ask = self._connected(number).unary_unary(
            f"/{method}", request_serializer=_bytes, response_deserializer=reply.FromString
        )
        try:
            answer: Reply = await ask(request, timeout=self._deadline)
        except grpc.aio.AioRpcError as error:
            failure = self._translated(error, number, method)
            if error.code() in _ELSEWHERE:
                self._turn_from(number)
            raise failure from None
        except asyncio.CancelledError:
            if self._is_closed and not _is_cancelled():
                raise Lost("the connection to etcd is closed") from None
            raise
        return answer

    def _connected(self, number: int) -> "grpc.aio.Channel":
        if self._is_closed:
            raise Retry("the store is closed")
        channel = self._channels.get(number)
        if channel is None:
            target, is_secure = self._targets[number]
            if is_secure:
                tls = self._tls or EtcdTls()
                secrets = grpc.ssl_channel_credentials(tls.ca, tls.key, tls.certificate)
                channel = grpc.aio.secure_channel(target, secrets, options=_OPTIONS)
            else:
                channel = grpc.aio.insecure_channel(target, options=_OPTIONS)
            self._channels[number] = channel
        return channel

    def _turn_from(self, number: int) -> None:
        """Ask the next one from now on; many may find out at the same time that this one does not answer."""
        if self._current == number:
            self._current = (number + 1) % len(self.endpoints)

    def _translated(self, error: "grpc.aio.AioRpcError", number: int, method: str) -> PykubeletError:
        code, text = error.code(), error.details() or error.code().name
        where = f"etcd at {self.endpoints[number]}"
        if code is grpc.StatusCode.OUT_OF_RANGE and "compacted" in text:
            return Expired("etcd has forgotten this revision: list again")
        if code is grpc.StatusCode.OUT_OF_RANGE:
            return Future(f"{where}: {text}")
        if code in _REFUSED or _TOO_LARGE in text:
            return Invalid(f"{where} refuses {method.rpartition('/')[2]}: {text}")
        if code is grpc.StatusCode.RESOURCE_EXHAUSTED:
            return Retry(f"{where} takes no more: {text}; compact and defragment it, or raise its quota")
        if code in _ELSEWHERE and any(sign in text for sign in _NEVER_SENT):
            return _NeverSent(f"{where} does not answer: {text}")
        return _Unanswered(f"{where} does not answer: {text}")


class _Unanswered(Retry):
    """Nobody knows what came of it."""


class _NeverSent(_Unanswered):
    """It did not leave this machine."""


def _target(endpoint: str, tls: EtcdTls | None) -> tuple[str, bool]:
    """Where to connect, and whether with TLS: said by the scheme, and without one by whether TLS is set up."""
    parts = urlsplit(endpoint if "://" in endpoint else f"{'https' if tls else 'http'}://{endpoint}")
    try:
        port = parts.port
    except ValueError:
        port = None
    if parts.scheme not in ("http", "https") or not parts.hostname or port is None or parts.path.strip("/"):
        raise Invalid(f"etcd: {endpoint!r} is not an endpoint such as https://127.0.0.1:2379")
    if parts.scheme == "http" and tls is not None:
        raise Invalid(f"etcd: {endpoint} would be asked without TLS although certificates are given: write https")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return f"{host}:{port}", parts.scheme == "https"


def _bytes(message: Message) -> bytes:
    return message.SerializeToString()


def _is_cancelled() -> bool:
    """Whether somebody wants this task to end, or only the call was given up."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
