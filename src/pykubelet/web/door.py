"""The listening socket under a web server: as many connections as we can bear, counted from the moment they come.

TLS takes memory before the other side has said a word, so who is one too many is turned away before it begins; and who
then says nothing does not stay.
"""

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable
from typing import Any, Final

from aiohttp.web_protocol import RequestHandler

log = logging.getLogger(__name__)

_BACKLOG: Final = 128
_PAUSE: Final = 1.0


def listening_socket(address: str, port: int) -> socket.socket:
    """Raises OSError when it cannot be had."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    made = socket.create_server((address, port), family=family, backlog=_BACKLOG)
    made.setblocking(False)
    # Connections inherit it. Who follows a log that nobody writes to hears nothing from a client whose machine is gone.
    for option, value in ((socket.TCP_KEEPIDLE, 15), (socket.TCP_KEEPINTVL, 15), (socket.TCP_KEEPCNT, 9)):
        made.setsockopt(socket.IPPROTO_TCP, option, value)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    return made


class Door:
    """`most` connections at a time; each has `patience` seconds for TLS, and as many for the first request's head."""

    def __init__(
        self, make: Callable[[], RequestHandler], tls: ssl.SSLContext | None, *, most: int, patience: float
    ) -> None:
        self._make = make
        self._tls = tls
        self._most = most
        self._patience = patience
        self._entering = 0
        self._inside: set[RequestHandler] = set()
        self._was_full = False

    async def accept(self, listening: socket.socket) -> None:
        """Until cancelled."""
        loop = asyncio.get_running_loop()
        async with asyncio.TaskGroup() as together:
            while True:
                try:
                    connection, _ = await loop.sock_accept(listening)
                except OSError as error:
                    log.warning("no connection can be accepted at the moment: %s", error.strerror)
                    await asyncio.sleep(_PAUSE)
                    continue
                if self._is_full():
                    connection.close()
                else:
                    self._entering += 1
                    together.create_task(self._enter(connection))
                await asyncio.sleep(0)  # somebody is always there in a flood: the rest of the program has to get a turn

    def _is_full(self) -> bool:
        is_full = self._entering + len(self._inside) >= self._most
        if is_full:
            self._inside = {protocol for protocol in self._inside if protocol.transport is not None}
            is_full = self._entering + len(self._inside) >= self._most
        if is_full and not self._was_full:
            log.warning("there are %d connections: more are refused until some of them end", self._most)
        self._was_full = is_full
        return is_full

    async def _enter(self, connection: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        extra: dict[str, Any] = {"ssl_handshake_timeout": self._patience, "ssl_shutdown_timeout": 1.0}
        try:
            _, protocol = await loop.connect_accepted_socket(
                self._make, connection, ssl=self._tls, **(extra if self._tls else {})
            )
        except OSError as error:
            log.debug("a connection does not come about: %s", error)
            return
        finally:
            self._entering -= 1
        self._inside.add(protocol)
        loop.call_later(self._patience, _close_if_silent, protocol, _resting_until(protocol))


def _resting_until(protocol: RequestHandler) -> object:
    """When the library would end it for saying nothing: a time that is set anew with every answer."""
    return getattr(protocol, "_next_keepalive_close_time", None)


def _close_if_silent(protocol: RequestHandler, at_first: object) -> None:
    """Later requests of a connection are the library's own care; for the first it would wait for ever."""
    if _resting_until(protocol) != at_first:
        return  # it has had an answer, and only rests between two requests
    waiter = getattr(protocol, "_waiter", None)
    if protocol.transport is not None and waiter is not None and not waiter.done():
        protocol.force_close()
