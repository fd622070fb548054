"""The standard health check of gRPC servers, as far as a probe needs it: one question, one answer.

Question (the service, a text) and answer (its state, a number) have one field each, with number 1: protobuf's own
wrappers of a text and of a number are the same on the wire, so nothing has to be generated.
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
    from google.protobuf.wrappers_pb2 import Int32Value, StringValue

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
        call: Any = channel.unary_unary(
            _CHECK, request_serializer=StringValue.SerializeToString, response_deserializer=Int32Value.FromString
        )
        try:
            answer = await call(StringValue(value=service), timeout=max(deadline - loop.time(), 0.001))
        except grpc.aio.AioRpcError as error:
            return _trouble(error.code().name, error.details() or "", seconds)
    if answer is None:  # grpc's way to say so
        return "error: health rpc probe failed: the answer cannot be read"
    state: int = answer.value
    return "" if state == _SERVING else f'service unhealthy (responded with "{_STATES.get(state, str(state))}")'


def _trouble(code: str, details: str, seconds: float) -> str:
    if code == "UNIMPLEMENTED":
        return f"error: this server does not implement the grpc health protocol (grpc.health.v1.Health): {details}"
    if code == "DEADLINE_EXCEEDED":
        return f"timeout: health rpc did not complete within {seconds:g}s"
    name = code.title().replace("_", "")
    return f"error: health rpc probe failed: rpc error: code = {name} desc = {details}"
