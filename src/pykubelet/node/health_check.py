"""The standard health check of gRPC servers, as far as a probe needs it: one question, one answer.

Its two messages have one field each, which is less than a generated module would be.
"""

import asyncio
import os
from typing import Any, Final

_CHECK: Final = "/grpc.health.v1.Health/Check"
_SERVING: Final = 1
_STATES: Final = {0: "UNKNOWN", _SERVING: "SERVING", 2: "NOT_SERVING", 3: "SERVICE_UNKNOWN"}
_OPTIONS: Final = (
    ("grpc.enable_http_proxy", 0),
    ("grpc.use_local_subchannel_pool", 1),  # a probe must not be answered over somebody else's connection
    ("grpc.enable_retries", 0),
    ("grpc.initial_reconnect_backoff_ms", 200),
    ("grpc.min_reconnect_backoff_ms", 200),
)


async def check_health(host: str, port: int, service: str, seconds: float, *, user_agent: str) -> str:
    """Ask whether a service is healthy; the empty one is the server as a whole. -> what is wrong; empty: nothing."""
    # This program starts others; grpc's own care for forks only gets into the way. It is read when grpc is loaded.
    os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
    import grpc.aio  # takes long to load, and most nodes have no such probe

    address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    if not host:
        return f'error: failed to connect service at "{address}": the pod has no address yet'
    target = f"ipv6:{address}" if ":" in host else f"ipv4:{address}"
    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds
    async with grpc.aio.insecure_channel(
        target, options=(*_OPTIONS, ("grpc.primary_user_agent", user_agent))
    ) as channel:
        try:
            async with asyncio.timeout(seconds):
                await channel.channel_ready()
        except TimeoutError:
            why = f'failed to connect service "{address}" within {seconds:g}s: context deadline exceeded'
            return f"timeout: {why}"
        call: Any = channel.unary_unary(_CHECK, request_serializer=_request, response_deserializer=_state)
        try:
            state = await call(service, timeout=max(deadline - loop.time(), 0.001))
        except grpc.aio.AioRpcError as error:
            return _trouble(error.code().name, error.details() or "", seconds)
    return "" if state == _SERVING else f'service unhealthy (responded with "{_STATES.get(state, str(state))}")'


def _trouble(code: str, details: str, seconds: float) -> str:
    if code == "UNIMPLEMENTED":
        return f"error: this server does not implement the grpc health protocol (grpc.health.v1.Health): {details}"
    if code == "DEADLINE_EXCEEDED":
        return f"timeout: health rpc did not complete within {seconds:g}s"
    name = code.title().replace("_", "")
    return f"error: health rpc probe failed: rpc error: code = {name} desc = {details}"


def _request(service: str) -> bytes:
    """Field 1, a text: the service."""
    name = service.encode()
    return b"\x0a" + _varint(len(name)) + name if name else b""


def _state(message: bytes) -> int:
    """Field 1, a number: the state. Fields that nobody knows yet are passed over. Raises ValueError."""
    state, at = 0, 0
    while at < len(message):
        key, at = _read_varint(message, at)
        match key & 7:
            case 0:
                value, at = _read_varint(message, at)
                state = value if key >> 3 == 1 else state
            case 1:
                at += 8
            case 2:
                length, at = _read_varint(message, at)
                at += length
            case 5:
                at += 4
            case _:
                raise ValueError("not a protobuf message")
    return state


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def _read_varint(message: bytes, at: int) -> tuple[int, int]:
    number = 0
    for shift in range(0, 70, 7):
        if at >= len(message):
            break
        byte = message[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, at
    raise ValueError("not a protobuf message")
