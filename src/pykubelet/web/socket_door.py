"""A socket for programs on this machine that rarely come: what answers them is loaded when the first one does."""

import asyncio
import errno
import logging
import os
import stat
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, suppress
from typing import Final

log = logging.getLogger(__name__)

LONGEST_PATH: Final = 107
"""Of a socket, in bytes: the kernel's."""
_MOST_GUESTS: Final = 100
_PIECE: Final = 1 << 16


@asynccontextmanager
async def socket_door(path: str, answering: Callable[[str], AbstractAsyncContextManager[None]]) -> AsyncIterator[None]:
    """Listen at the path, which only this user and group may use, until the end of the block. `answering` is entered
    with another path once somebody has come: whoever comes is led there. Raises OSError."""
    if (length := len(os.fsencode(path)) + 1) > LONGEST_PATH:
        raise OSError(errno.ENAMETOOLONG, f"too long for a socket by {length - LONGEST_PATH} bytes", path)
    with suppress(FileNotFoundError):
        if not stat.S_ISSOCK(os.lstat(path).st_mode):
            raise FileExistsError(f"{path} is there, and is no socket: remove it")
    async with AsyncExitStack() as behind:
        door = _Door(f"{os.path.dirname(path)}/.{os.path.basename(path)}", answering, behind)
        server = await asyncio.start_unix_server(door.lead, path)
        try:
            os.chmod(path, 0o660)
            yield
        finally:
            server.close()
            with suppress(FileNotFoundError):
                os.unlink(path)
            await door.close()


async def keep_door(
    path: str, answering: Callable[[str], AbstractAsyncContextManager[None]], *, otherwise: str
) -> None:
    """For ever. Where nobody can listen, `otherwise` is told, with the reason, and that is all: the rest goes on."""
    try:
        async with socket_door(path, answering):
            await asyncio.Event().wait()
    except OSError as error:
        log.warning("%s: %s: %s", otherwise, path, error.strerror or error)
        await asyncio.Event().wait()


class _Door:
    def __init__(
        self, inner: str, answering: Callable[[str], AbstractAsyncContextManager[None]], behind: AsyncExitStack
    ) -> None:
        self._inner = inner
        self._answering = answering
        self._behind = behind
        self._is_open = False
        self._is_closing = False
        self._opening = asyncio.Lock()
        self._guests: dict[asyncio.Task[None], None] = {}
        """Who came first is first. Who is no longer in it was asked to go."""

    async def lead(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        try:
            if len(self._guests) >= _MOST_GUESTS:  # else a few who only sit there would keep out everybody
                longest = next(iter(self._guests))
                del self._guests[longest]
                longest.cancel()
            self._guests[task] = None
            await self._let_in(reader, writer)
        except asyncio.CancelledError:
            if task in self._guests and not self._is_closing:  # else the loop would take it for a fault
                raise
        finally:
            self._guests.pop(task, None)
            writer.close()

    async def close(self) -> None:
        self._is_closing = True
        for guest in self._guests:
            guest.cancel()
        await asyncio.gather(*self._guests, return_exceptions=True)
        with suppress(FileNotFoundError):
            os.unlink(self._inner)

    async def _let_in(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async with self._opening:
            if not self._is_open:
                await self._behind.enter_async_context(self._answering(self._inner))
                self._is_open = True
        there, here = await asyncio.open_unix_connection(self._inner)
        try:
            ways = {asyncio.ensure_future(_copy(reader, here)), asyncio.ensure_future(_copy(there, writer))}
            try:
                await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for way in ways:
                    way.cancel()
                await asyncio.gather(*ways, return_exceptions=True)
        finally:
            here.close()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError):
        while piece := await reader.read(_PIECE):
            writer.write(piece)
            await writer.drain()
