"""A web server from its start to its end: an application behind a door, with limits to what anybody may ask of it."""

import asyncio
import errno
import logging
import os
import ssl
from asyncio import sslproto
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from typing import Any, Final

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError
from msgspec import Struct

from pykubelet.base.errors import Invalid, Retry
from pykubelet.web.door import Door, listening_sockets
from pykubelet.web.guests import GUESTS, Guests
from pykubelet.web.origin import refuse_foreign_pages

log = logging.getLogger(__name__)

_IDLE_SECONDS: Final = 90.0


class Limits(Struct, frozen=True, kw_only=True):
    """What suits a kubelet."""

    connections: int = 1024
    """At a time."""
    head_seconds: float = 10.0
    """For TLS, and again until it is known who it is: who needs longer only wants to keep us busy."""
    longest_line: int = 64 << 10
    """Of a request's head: a token may be long; everything else is short."""
    tls_buffer: int = 64 << 10
    """What is set aside for each TLS connection, used or not. asyncio has 256 KiB, and no way to choose but for all
    connections of the process, to clients and to servers: who serves last decides. No TLS record is larger than
    16 KiB. Less makes reading slower, and more makes a thousand watchers who never say anything expensive."""


@asynccontextmanager
async def serving(
    app: web.Application, address: str, port: int, *, tls: ssl.SSLContext | None = None, limits: Limits | None = None
) -> AsyncIterator[int]:
    """Serve until the end of the block. -> the port. Raises Invalid when the address cannot be had."""
    limits = limits or Limits()
    app.middlewares.insert(0, refuse_foreign_pages)
    runner = web.AppRunner(
        app,
        access_log=None,
        auto_decompress=False,  # a small body must not become a large one
        logger=_Library(log),
        handler_cancellation=True,  # who has gone needs no answer
        keepalive_timeout=_IDLE_SECONDS,
        max_line_size=limits.longest_line,
        max_field_size=limits.longest_line,
        shutdown_timeout=1.0,
    )
    try:
        listening = listening_sockets(address, port)
    except OSError as error:
        why = os.strerror(error.errno) if error.errno else str(error)
        kind = Retry if error.errno == errno.EADDRINUSE else Invalid
        raise kind(f"cannot serve on {address} port {port}: {why}") from None
    if tls is not None:
        sslproto.SSLProtocol.max_size = limits.tls_buffer
    with ExitStack() as stack:
        for each in listening:
            stack.enter_context(each)
        guests = app[GUESTS] = Guests(limits.connections, limits.head_seconds)
        await runner.setup()
        assert runner.server is not None
        door = Door(runner.server, guests, tls, patience=limits.head_seconds)
        accepting = [asyncio.create_task(door.accept(each)) for each in listening]
        try:
            yield listening[0].getsockname()[1]
        finally:
            for task in accepting:
                task.cancel()
            await asyncio.wait(accepting)
            await runner.cleanup()


class _Library(logging.LoggerAdapter[logging.Logger]):
    """What the library has to say. That strangers send what is no HTTP is no fault of ours, and worth a line."""

    def exception(self, msg: object, *args: object, exc_info: Any = True, **extra: Any) -> None:
        if isinstance(exc_info, HttpProcessingError):
            what = " ".join(str(exc_info.message).split())
            self.info("a request%s cannot be read: %.100s", f" from {args[0]}" if args else "", what)
        else:
            self.error(msg, *args, exc_info=exc_info, **extra)
