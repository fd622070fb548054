"""The listening socket under a web server: as many connections as we can bear, counted from the moment they come.

TLS takes memory before the other side has said a word, so who has to go for somebody else goes before it begins; and
who does not soon say who he is does not stay.
"""

import asyncio
import errno
import ipaddress
import logging
import socket
import ssl
from typing import Any, Final

from aiohttp import web
from aiohttp.web_protocol import RequestHandler

from pykubelet.web.guests import Guest, Guests

log = logging.getLogger(__name__)

_BACKLOG: Final = 1024
_PAUSE: Final = 1.0


_OTHER_FAMILY: Final = {"0.0.0.0": "::", "::": "0.0.0.0"}  # noqa: S104 - what somebody asks for


def listening_sockets(address: str, port: int) -> list[socket.socket]:
    """Whoever serves on all addresses means those of both families, where the machine has both; each has a socket of
    its own, so that nobody's address comes in disguise. Raises OSError when they cannot be had."""
    made = [_listening_socket(address, port)]
    if address in _OTHER_FAMILY:
        try:
            made.append(_listening_socket(_OTHER_FAMILY[address], made[0].getsockname()[1]))
        except OSError as error:
            if error.errno == errno.EADDRINUSE and port:
                made[0].close()
                raise
            log.debug("nothing is served on %s: %s", _OTHER_FAMILY[address], error)
    return made


def _listening_socket(address: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    made = socket.create_server((address, port), family=family, backlog=_BACKLOG)
    made.setblocking(False)
    # Connections inherit it. Who follows a log that nobody writes to hears nothing from a client whose machine is gone.
    for option, value in ((socket.TCP_KEEPIDLE, 15), (socket.TCP_KEEPINTVL, 15), (socket.TCP_KEEPCNT, 9)):
        made.setsockopt(socket.IPPROTO_TCP, option, value)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    return made


def neighbourhood(address: str) -> str:
    """Whoever has one address of IPv6 has all of its /64: they count as one."""
    if ":" not in address:
        return address
    plain = int(ipaddress.IPv6Address(address.partition("%")[0]))
    return str(ipaddress.IPv6Address(plain >> 64 << 64))


class Door:
    """Each has `patience` seconds for TLS."""

    def __init__(self, server: web.Server, guests: Guests, tls: ssl.SSLContext | None, *, patience: float) -> None:
        self._server = server
        self._guests = guests
        self._tls = tls
        self._patience = patience
        self._was_full = False
        lost = server.connection_lost

        def connection_lost(handler: RequestHandler, exc: BaseException | None = None) -> None:
            guests.left_by(handler)
            lost(handler, exc)

        server.connection_lost = connection_lost  # type: ignore[method-assign]

    async def accept(self, listening: socket.socket) -> None:
        """Until cancelled."""
        loop = asyncio.get_running_loop()
        async with asyncio.TaskGroup() as together:
            while True:
                try:
                    connection, peer = await loop.sock_accept(listening)
                except OSError as error:
                    log.warning("no connection can be accepted at the moment: %s", error.strerror)
                    await asyncio.sleep(_PAUSE)
                    continue
                guest = Guest(neighbourhood(peer[0]), connection.close)
                if self._may_come(guest):
                    together.create_task(self._enter(guest, connection))
                else:
                    connection.close()
                await asyncio.sleep(0)  # somebody is always there in a flood: the rest of the program has to get a turn

    def _may_come(self, guest: Guest) -> bool:
        may = self._guests.come(guest)
        if not may and not self._was_full:
            log.warning("there are %d connections, none of which rests: more are refused", len(self._guests))
        self._was_full = not may
        return may

    async def _enter(self, guest: Guest, connection: socket.socket) -> None:
        if connection.fileno() < 0:
            return  # it had to go before it came in
        task = asyncio.current_task()
        assert task is not None
        guest.leave = task.cancel
        extra: dict[str, Any] = {"ssl_handshake_timeout": self._patience, "ssl_shutdown_timeout": 1.0}

        def make() -> RequestHandler:
            protocol = self._server()
            self._guests.seated(guest, protocol)
            return protocol

        try:
            _, protocol = await asyncio.get_running_loop().connect_accepted_socket(
                make, connection, ssl=self._tls, **(extra if self._tls else {})
            )
        except Exception as error:  # the boundary: a certificate that cannot be read is one client's trouble, not all's
            log.debug("a connection does not come about: %s", error)
            self._guests.left(guest)
            return
        except asyncio.CancelledError:
            self._guests.left(guest)
            raise
        guest.is_inside, guest.leave = True, protocol.force_close
        self._guests.look_again(guest)
