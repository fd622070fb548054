"""The node's name server: answers for the names of services, and passes other questions on.

It answers pods of this node and this machine itself, and nobody else: whoever could be made to be answered could be
flooded with answers. What cannot be read is not answered.
"""

import asyncio
import struct
from collections.abc import Callable
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Final, cast

from msgspec import Struct

from pykubelet.base.errors import Retry
from pykubelet.services import dns_wire as wire
from pykubelet.services.dns_wire import Query, Record
from pykubelet.services.forwarder import Forwarder
from pykubelet.services.zone import Zone

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

MOST_CONNECTIONS: Final = 64
MOST_WAITING: Final = 512
"""Datagrams whose answer has to come from elsewhere."""
_IDLE: Final = 10.0
_TRIES: Final = 10
_LONGEST_WAY: Final = 8
"""From name to name."""
_NEVER: Final = frozenset((251, 252, 253, 254, 255))
"""Transfers of a zone, and everything at once: small questions with large answers."""


class NameServer:
    """`zone` is asked for at every question; `is_ours` says whether an address is to be answered."""

    def __init__(self, zone: Callable[[], Zone], forwarder: Forwarder, is_ours: Callable[[str], bool]) -> None:
        self._zone = zone
        self._forwarder = forwarder
        self._is_ours = is_ours
        self._waiting: set[asyncio.Task[None]] = set()
        self._connections = 0

    @asynccontextmanager
    async def serving(self, address: str, port: int = 0) -> "AsyncIterator[int]":
        """-> the port, for datagrams and connections. Raises OSError when there is none to be had."""
        server, transport = await self._bound(address, port)
        try:
            yield int(transport.get_extra_info("sockname")[1])
        finally:
            transport.close()
            server.close()
            for task in (tasks := tuple(self._waiting)):
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await self._forwarder.close()

    async def _bound(self, address: str, port: int) -> tuple[asyncio.Server, asyncio.DatagramTransport]:
        loop = asyncio.get_running_loop()
        for attempt in range(_TRIES):
            server = await asyncio.start_server(self._connected, address, port, limit=wire.LARGEST + 2)
            number = server.sockets[0].getsockname()[1]
            try:
                transport, _ = await loop.create_datagram_endpoint(lambda: _Datagrams(self), (address, number))
            except OSError:
                server.close()
                if port or attempt == _TRIES - 1:
                    raise
                continue  # somebody has the same port for datagrams
            return server, transport
        raise AssertionError("unreachable")

    def heard(self, data: bytes, sender: tuple[str, int], transport: asyncio.DatagramTransport) -> None:
        if not self._is_ours(sender[0]):
            return
        try:
            query = wire.read_query(data)
        except wire.Malformed:
            return
        answer = self._at_once(query, query.size)
        if answer is None and len(self._waiting) >= MOST_WAITING:
            answer = wire.written(query, wire.SERVER_FAILURE, is_ours=False)
        if answer is not None:
            transport.sendto(answer, sender)
            return
        task = asyncio.create_task(self._answer_later(data, query, sender, transport))
        self._waiting.add(task)
        task.add_done_callback(self._waiting.discard)

    async def _answer_later(
        self, data: bytes, query: Query, sender: tuple[str, int], transport: asyncio.DatagramTransport
    ) -> None:
        answer = await self._answer(data, query, query.size, by_tcp=False)
        if not transport.is_closing():
            transport.sendto(answer, sender)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        peer = writer.get_extra_info("peername")
        try:
            if peer is None or not self._is_ours(peer[0]) or self._connections >= MOST_CONNECTIONS:
                return
            self._connections += 1
            try:
                with suppress(TimeoutError, OSError, asyncio.IncompleteReadError, wire.Malformed):
                    await self._converse(reader, writer)
            finally:
                self._connections -= 1
        finally:
            writer.close()

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            async with asyncio.timeout(_IDLE):
                (size,) = struct.unpack("!H", await reader.readexactly(2))
                data = await reader.readexactly(size)
                query = wire.read_query(data)
                answer = self._at_once(query, wire.LARGEST)
                if answer is None:
                    answer = await self._answer(data, query, wire.LARGEST, by_tcp=True)
                writer.write(struct.pack("!H", len(answer)) + answer)
                await writer.drain()

    def _at_once(self, query: Query, limit: int) -> bytes | None:
        """None: somebody else has to be asked."""
        if query.fault:
            return wire.written(query, query.fault, is_ours=False)
        if query.type in _NEVER:
            return wire.written(query, wire.REFUSED, is_ours=False)
        zone = self._zone()
        found = followed(zone, query.text, query.type)
        if found is None or found.elsewhere:
            return None
        code = wire.NO_ERROR if found.exists else wire.NO_SUCH_NAME
        records = [_renamed(each, query) for each in found.records]
        return wire.written(query, code, records, () if records else (zone.authority,), limit=limit)

    async def _answer(self, data: bytes, query: Query, limit: int, *, by_tcp: bool) -> bytes:
        """To what is not ours alone. Never raises."""
        found = followed(self._zone(), query.text, query.type)
        try:
            if found is None:
                return await self._forwarder.ask(data, by_tcp=by_tcp)
            # A name of ours that stands for one of somebody else: clients want all of it in one answer.
            records = [_renamed(each, query) for each in found.records]
            records += await self._forwarder.addresses(found.elsewhere, query.type)
            return wire.written(query, wire.NO_ERROR, records, limit=limit)
        except Retry:
            return wire.written(query, wire.SERVER_FAILURE, is_ours=False)


class Followed(Struct, frozen=True):
    exists: bool
    records: list[Record]
    elsewhere: str = ""
    """The name that it all comes down to, if others have to be asked for its addresses."""


def followed(zone: Zone, name: str, kind: int) -> Followed | None:
    """What is found under a name, and under those that it stands for. None: it is for others to say."""
    found = zone.find(name, kind)
    if found is None:
        return None
    records = list(found.records)
    while records and records[-1].type == wire.CNAME != kind and len(records) < _LONGEST_WAY:
        target = str(records[-1].data[0])
        further = zone.find(target, kind)
        if further is None:
            return Followed(found.exists, records, target if kind in (wire.A, wire.AAAA) else "")
        new = [each for each in further.records if each not in records]  # one may stand for itself
        if not new:
            break
        records += new
    return Followed(found.exists, records)


class _Datagrams(asyncio.DatagramProtocol):
    def __init__(self, server: NameServer) -> None:
        self._server = server
        self._transport: asyncio.DatagramTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.DatagramTransport, transport)  # older Pythons have it as another class

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        assert self._transport is not None
        self._server.heard(data, addr, self._transport)


def _renamed(record: Record, query: Query) -> Record:
    """With the name as the client has written it: some check that."""
    if record.name.lower() != query.text:
        return record
    return Record(b".".join(query.name).decode("ascii"), record.type, record.data, record.ttl)
