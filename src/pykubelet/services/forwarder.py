"""Questions about other names, passed on to the name servers of this machine.

Each goes out from a port of its own with a number nobody can guess, and only its own answer is taken. The same question
is asked once, however many wait for it: so one that comes back to us in a circle waits for itself, and ends with it.
"""

import asyncio
import ipaddress
import secrets
import struct
from collections.abc import Callable
from typing import Final

from pykubelet.base.errors import Retry
from pykubelet.services import dns_wire as wire

MOST: Final = 256
"""Questions that wait for an answer at a time."""
_PATIENCE: Final = 2.0
_MOST_SERVERS: Final = 3
_PORT: Final = 53


class Forwarder:
    """`servers` are asked in their order, the addresses as of now."""

    def __init__(
        self, servers: Callable[[], tuple[str, ...]], *, port: int = _PORT, patience: float = _PATIENCE
    ) -> None:
        self._servers = servers
        self._port = port
        self._patience = patience
        self._asking: dict[tuple[bytes, bool], asyncio.Task[bytes]] = {}

    async def ask(self, message: bytes, *, by_tcp: bool) -> bytes:
        """The answer to somebody's question, with the number that it had. Raises Retry when there is none, or when too
        many wait already."""
        key = message[2:], by_tcp
        task = self._asking.get(key)
        if task is None:
            if len(self._asking) >= MOST:
                raise Retry("too many questions wait for other name servers")
            task = self._asking[key] = asyncio.create_task(self._ask_all(message, by_tcp=by_tcp))
            task.add_done_callback(lambda done: self._finished(key, done))
        answer = await asyncio.shield(task)  # others may wait for the same
        return wire.with_id(answer, int.from_bytes(message[:2], "big"))

    async def addresses(self, name: str, kind: int) -> list[wire.Record]:
        """Raises Retry."""
        answer = await self.ask(wire.asked(0, name, kind), by_tcp=False)
        try:
            return wire.read_addresses(answer)
        except (wire.Malformed, struct.error):
            raise Retry("the answer of another name server cannot be read") from None

    async def close(self) -> None:
        for task in (tasks := tuple(self._asking.values())):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _finished(self, key: tuple[bytes, bool], task: "asyncio.Task[bytes]") -> None:
        self._asking.pop(key, None)
        if not task.cancelled():
            task.exception()  # whoever has asked may be gone by now

    async def _ask_all(self, message: bytes, *, by_tcp: bool) -> bytes:
        why = "this machine has no name servers"
        for server in self._servers()[:_MOST_SERVERS]:
            question = wire.with_id(message, secrets.randbits(16))
            try:
                async with asyncio.timeout(self._patience):
                    ask = self._by_tcp if by_tcp else self._by_datagram
                    return await ask(server, question)
            except TimeoutError:
                why = f"{server} does not answer"
            except (OSError, ValueError, asyncio.IncompleteReadError) as error:
                why = f"{server}: {error}"
        raise Retry(why)

    async def _by_datagram(self, server: str, question: bytes) -> bytes:
        loop = asyncio.get_running_loop()
        ipaddress.ip_address(server.partition("%")[0])  # a name would be looked up, perhaps by us
        transport, protocol = await loop.create_datagram_endpoint(
            lambda: _Answer(question, loop.create_future()), remote_addr=(server, self._port)
        )
        try:
            transport.sendto(question)
            return await protocol.answer
        finally:
            transport.close()

    async def _by_tcp(self, server: str, question: bytes) -> bytes:
        ipaddress.ip_address(server.partition("%")[0])
        reader, writer = await asyncio.open_connection(server, self._port)
        try:
            writer.write(struct.pack("!H", len(question)) + question)
            (size,) = struct.unpack("!H", await reader.readexactly(2))
            answer = await reader.readexactly(size)
        finally:
            writer.close()
        if not wire.answers_to(question, answer):
            raise ValueError("an answer to something else")
        return answer


class _Answer(asyncio.DatagramProtocol):
    """On a socket that takes only what comes from the server that was asked."""

    def __init__(self, question: bytes, answer: "asyncio.Future[bytes]") -> None:
        self._question = question
        self.answer = answer

    def datagram_received(self, data: bytes, addr: object) -> None:
        if wire.answers_to(self._question, data) and not self.answer.done():
            self.answer.set_result(data)

    def error_received(self, exc: Exception) -> None:
        if not self.answer.done():
            self.answer.set_exception(exc)

    def connection_lost(self, exc: Exception | None) -> None:
        self.answer.cancel()
