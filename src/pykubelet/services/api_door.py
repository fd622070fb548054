"""A way to an API server that serves this machine alone, for pods of this node that have networks of their own.

Nobody else gets in: the API server stays as far away from other machines as it was. What is said is between the two."""

import asyncio
from collections.abc import Callable
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

MOST: Final = 256
_CONNECTING: Final = 5.0
_PIECE: Final = 64 << 10


class ApiDoor:
    def __init__(self, to: tuple[str, int], is_ours: Callable[[str], bool]) -> None:
        self._to = to
        self._is_ours = is_ours
        self._open: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def serving(self, address: str) -> "AsyncIterator[int]":
        """-> the port"""
        server = await asyncio.start_server(self._connected, address, 0, limit=_PIECE)
        try:
            yield int(server.sockets[0].getsockname()[1])
        finally:
            server.close()
            for task in (tasks := tuple(self._open)):
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task, peer = asyncio.current_task(), writer.get_extra_info("peername")
        assert task is not None
        try:
            if peer is None or not self._is_ours(peer[0]) or len(self._open) >= MOST:
                return
            self._open.add(task)
            with suppress(OSError, TimeoutError):
                async with asyncio.timeout(_CONNECTING):
                    far_reader, far_writer = await asyncio.open_connection(*self._to, limit=_PIECE)
                try:
                    await _both((reader, far_writer), (far_reader, writer))
                finally:
                    far_writer.close()
        finally:
            self._open.discard(task)
            writer.close()


async def _both(*ways: tuple[asyncio.StreamReader, asyncio.StreamWriter]) -> None:
    """Until each side has said all that it has to say, or one of them is gone."""
    with suppress(ExceptionGroup):
        async with asyncio.TaskGroup() as tasks:
            for reader, writer in ways:
                tasks.create_task(_pump(reader, writer))


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while piece := await reader.read(_PIECE):
        writer.write(piece)
        await writer.drain()
    writer.write_eof()
